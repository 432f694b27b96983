"""Acceptance and foreseen bonus tokens under `rejection` with Saguaro sampling, exactly, from both models' laws.

Both models read the recorded texts again (teacher forcing); at some positions their laws p and q are laid side by side,
a few rows at a time, and for each C and F nothing is drawn: sums over the vocabulary give the probabilities. Section
4.2; V vocabulary, R rows. Must not know: engines' loops, files. Tests: tests/calibrate/test_laws.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import pad

from saguaro.algorithm import saguaro_sampling, sampling
from saguaro.algorithm.ranking import stable_topk

CS = (1.0, 0.7, 0.5, 0.3, 0.1)
FS = (1, 2, 3, 4, 6, 8)
Read = Callable[[Sequence[int], int], torch.Tensor]
"""Logits (R, V) after each of the last R tokens of a text."""


@dataclass
class Sums:
    """Sums over positions, for one C and F.

    Args:
        rows: positions.
        accepted: probability that a drawn token is accepted, the sum of min(p, sigma(q)).
        foreseen: probability that it is rejected and the bonus token is among the F likeliest without it.
        after_all: probability that a token of p is among the F likeliest.
    """

    rows: int = 0
    accepted: float = 0.0
    foreseen: float = 0.0
    after_all: float = 0.0

    @property
    def acceptance(self) -> float:
        """Mean acceptance."""
        return self.accepted / max(self.rows, 1)

    @property
    def hit_after_rejection(self) -> float:
        """P(foreseen given rejected)."""
        rejected = self.rows - self.accepted
        return self.foreseen / rejected if rejected > 1e-9 else 1.0

    @property
    def hit_after_all(self) -> float:
        """P(foreseen given all accepted)."""
        return self.after_all / max(self.rows, 1)


def add(sums: dict[tuple[float, int], Sums], p_RV: torch.Tensor, q_RV: torch.Tensor) -> None:
    """Add some rows of laws to the sums of every C and F.

    A rejected token x has the law max(sigma - p, 0), the bonus token t the law max(p - sigma, 0), independent of each
    other; t is foreseen when it is among the F likeliest of q without x.
    """
    _, ids = stable_topk(q_RV, max(fan_out for _, fan_out in sums) + 1)
    for (c, fan_out), own in sums.items():
        law_RV = saguaro_sampling.scale(q_RV, min(fan_out, q_RV.shape[1]), c)
        residual = (p_RV - law_RV).clamp_min(0.0).gather(1, ids)
        excess_RV = (law_RV - p_RV).clamp_min(0.0)
        rejected = excess_RV.sum(dim=1)
        sent_among_first = excess_RV.gather(1, ids[:, :fan_out]).sum(dim=1) / rejected.clamp_min(1e-30)
        foreseen = residual[:, :fan_out].sum(dim=1)
        if fan_out < ids.shape[1]:
            foreseen = foreseen + residual[:, fan_out] * sent_among_first
        own.rows += len(p_RV)
        own.accepted += float((1 - rejected).sum())
        own.foreseen += float(foreseen.sum())
        own.after_all += float(p_RV.gather(1, ids[:, :fan_out]).sum())


def measure(
    texts: Sequence[tuple[Sequence[int], Sequence[int]]],
    target: Read,
    draft: Read,
    *,
    temperature: float,
    positions: int,
    rows: int = 16,
    on_rows: Callable[[int], None] = lambda count: None,
) -> dict[tuple[float, int], Sums]:
    """The sums of every C and F over `positions` positions of the outputs, spread over the texts.

    Args:
        texts: token ids of prompts and outputs.
        target: how to read a text.
        draft: the same for q, perhaps over fewer ids.
        temperature: above 0.
        positions: at most so many.
        rows: laws that are held at once.
        on_rows: told of every piece.
    """
    sums = {(c, fan_out): Sums() for c in CS for fan_out in FS}
    each = max(1, positions // max(1, len(texts)))
    for prompt, output in texts:
        count = min(each, len(output))
        ids = [*prompt, *output[: count - 1]]
        for p_RV, q_RV in _pieces(target(ids, count), draft(ids, count), rows):
            wide_RV = pad(q_RV, (0, p_RV.shape[1] - q_RV.shape[1]), value=float("-inf"))
            add(sums, sampling.law(p_RV, temperature), sampling.law(wide_RV, temperature))
            on_rows(len(p_RV))
    return sums


def _pieces(p_RV: torch.Tensor, q_RV: torch.Tensor, rows: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for first in range(0, len(p_RV), rows):
        yield p_RV[first : first + rows], q_RV[first : first + rows]
