"""The numbers of the paper (arXiv 2603.03251), its replication and its authors' log, as far as they are public.

Table B.3 is printed; figures are read off their pictures, to about 1 % of an axis. What is not printed anywhere (K, F,
T_p and T_b of the headline runs, the exponents r) is not here either. Tests: tests/simulate/test_paper.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SETS = ("humaneval", "ultrafeedback", "alpaca", "gsm8k")


@dataclass(frozen=True)
class Family:
    """Table B.3 of one family: tokens a second at batch 1, temperature 0, target on four H100, draft on a fifth.

    `sd_lookahead` is that of the authors' own command lines and logs (the paper does not print it).
    """

    name: str
    target: str
    draft: str
    ar: float
    sd: Mapping[str, float]
    ssd: Mapping[str, float]
    sd_lookahead: int

    @property
    def mean_sd(self) -> float:
        """Of the four sets."""
        return sum(self.sd.values()) / len(self.sd)

    @property
    def mean_ssd(self) -> float:
        """Of the four sets."""
        return sum(self.ssd.values()) / len(self.ssd)


def _sets(*values: float) -> dict[str, float]:
    return dict(zip(SETS, values, strict=True))


LLAMA = Family(
    "Llama-3.1-70B + 3.2-1B", "llama-3.1-70b", "llama-3.2-1b", 54.7, _sets(176, 138, 145, 188),
    _sets(283, 215, 224, 301), 6,
)  # fmt: skip
QWEN = Family(
    "Qwen3-32B + 0.6B", "qwen3-32b", "qwen3-0.6b", 88.8, _sets(146, 122, 127, 152), _sets(222, 174, 185, 234), 6
)
FAMILIES = (LLAMA, QWEN)

COMMITTED_LOOKAHEAD, COMMITTED_FAN_OUT = 7, 3
"""K and F of SSD that a prediction has to name beforehand: those of the authors' README."""

FAN_OUTS = (2, 4, 8, 16, 32, 64, 128)
MISSES_PRIMARY = {
    0.0: (0.229, 0.133, 0.080, 0.053, 0.039, 0.029, 0.025),
    0.7: (0.316, 0.209, 0.138, 0.092, 0.064, 0.046, 0.035),
    1.0: (0.40, 0.30, 0.222, 0.168, 0.124, 0.092, 0.073),
}
"""Figure 3, left: 1 - p_hit,p of uniform fan-outs by temperature, 1B draft."""
MISSES_BACKUP = {
    0.0: (0.45, 0.306, 0.200, 0.139, 0.103, 0.078, 0.064),
    0.7: (0.54, 0.39, 0.28, 0.193, 0.133, 0.095, 0.074),
    1.0: (0.63, 0.50, 0.39, 0.30, 0.227, 0.176, 0.142),
}
"""Figure 3, middle: 1 - p_hit,b."""


@dataclass(frozen=True)
class FanOuts:
    """One temperature of Figure 4: tokens a second and hit rates."""

    sd: float
    uniform: float
    geometric: float
    hit_uniform: float
    hit_geometric: float


FIGURE_4 = {
    0.0: FanOuts(160.8, 246.4, 248.2, 0.847, 0.861),
    0.3: FanOuts(150.0, 222.1, 225.7, 0.834, 0.851),
    0.7: FanOuts(137.4, 195.0, 199.5, 0.783, 0.812),
    1.0: FanOuts(112.2, 136.5, 142.8, 0.583, 0.633),
}
FIGURE_5 = ((0.617, 0.80), (0.637, 0.785), (0.72, 0.688), (0.742, 0.645), (0.80, 0.517), (0.805, 0.483))
"""Hit rate and acceptance as C goes from 1 to 0; which values of C is shown by colour alone."""
BATCHES = (1, 2, 4, 8, 16)
FIGURE_6 = {
    "fast": (249.4, 243.6, 236.6, 207.5, 169.8),
    "neural": (255.7, 213.7, 185.7, 160.0, 135.3),
    "sd": (162.2, 157.6, 154.5, 145.0, 130.2),
}
"""Tokens a second of a sequence by batch, F = 1, temperature 0."""
FIGURE_6_DEVICES = {1: 169.8, 2: 196.5, 4: 216.1, 8: 225.9}
"""The paper's own projection at batch 16: draft devices, and so many guesses a position, fast fallback."""
FIGURE_7 = {
    "ar": ((55.3, 13.9), (57.0, 27.3), (57.3, 56.7), (55.2, 109.0), (53.5, 213.0)),
    "sd": ((162.0, 40.0), (157.6, 78.0), (154.6, 154.0), (144.9, 290.0), (130.6, 522.0)),
    "ssd": ((255.9, 51.0), (244.5, 97.0), (237.3, 190.0), (207.5, 332.0), (170.4, 544.5)),
}
"""Tokens a second of a sequence and of a GPU by batch."""
REPLICATION_QWEN = {4: 210.9, 5: 193.6, 6: 175.3, 7: 158.6}
"""An independent replication of Qwen3-32B + 0.6B on five H100: tokens a second of SSD by K, with F = 3."""
REPLICATION_AR, REPLICATION_SD = 97.4, 141.4
LOG_DRAFT_ROUND = 22.0e-3
"""Of the authors' development log, Llama, batch 1: 21.1 to 23.3 ms for a round of the draft, masks included."""
REPLICATION_SERVICE = 0.71e-3
"""Look-up and service a round, in the replication."""
REPLICATION_STEP = 2.54e-3
"""A step of the draft's branches, in the replication."""
