"""Figure 5's trade-off by exact sums: acceptance and predicted bonus tokens under Saguaro sampling, C from 1 to 0.

The paper does not print the laws that it measured. Here logits of the draft fall off with the logarithm of the rank,
and the target's are the same with noise, whose size makes acceptance at C = 1 the published .80; the hits that follow
are no one's choice. Must not know: engines. Tests: tests/figures/test_series.py.
"""

from __future__ import annotations

from functools import lru_cache

VOCABULARY, PAIRS, FAN_OUT, SEED = 400, 96, 3, 7
ACCEPTANCE = 0.80
SCALES = (1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
"""Values of C."""


@lru_cache(maxsize=1)
def trade_off() -> tuple[tuple[float, float], ...]:
    """Hits and acceptance for each C of `SCALES`.

    A hit is a bonus token among the F likeliest of the draft without the one that was sent, after a rejection; both
    rates are sums over all tokens, so nothing is drawn.
    """
    import torch

    generator = torch.Generator().manual_seed(SEED)
    ranks = torch.arange(1, VOCABULARY + 1, dtype=torch.float64)
    steep = 0.8 + 2.4 * torch.rand((PAIRS, 1), generator=generator, dtype=torch.float64)
    draft_RV = -steep * torch.log(ranks)
    noise_RV = torch.randn((PAIRS, VOCABULARY), generator=generator, dtype=torch.float64)
    q_RV = draft_RV.softmax(-1)
    low, high = 0.0, 4.0
    for _ in range(40):
        middle = (low + high) / 2
        p_RV = (draft_RV + middle * noise_RV).softmax(-1)
        if float(torch.minimum(p_RV, q_RV).sum(-1).mean()) > ACCEPTANCE:
            low = middle
        else:
            high = middle
    return tuple(_rates(p_RV, q_RV, c) for c in SCALES)


def _rates(p_RV, q_RV, c: float) -> tuple[float, float]:  # type: ignore[no-untyped-def]  # tensors; torch comes late
    import torch

    from saguaro.algorithm.saguaro_sampling import scale
    from saguaro.algorithm.verify import residual

    scaled_RV = scale(q_RV, FAN_OUT, c)
    accepted = float(torch.minimum(p_RV, scaled_RV).sum(-1).mean())
    rest_RV = residual(p_RV, scaled_RV)
    # A token is sent and refused with mass max(q - p, 0); its place among the guesses goes to the next one.
    refused_RV = (scaled_RV - p_RV).clamp_min(0)
    refused_RV = refused_RV / refused_RV.sum(-1, keepdim=True).clamp_min(1e-300)
    top = q_RV.argsort(dim=-1, descending=True, stable=True)[:, : FAN_OUT + 1]
    rest_RT, refused_RT = rest_RV.gather(-1, top), refused_RV.gather(-1, top)
    first = rest_RT[:, :FAN_OUT].sum(-1)
    # If one of the F was sent, guess F + 1 stands in for it (whose own residual mass is then 0).
    hits = first + refused_RT[:, :FAN_OUT].sum(-1) * rest_RT[:, FAN_OUT]
    weight = 1 - torch.minimum(p_RV, scaled_RV).sum(-1)
    return float((hits * weight).sum() / weight.sum()), accepted
