"""Answers to a miss (Section 4.3, DESIGN D9): a plug point.

A fallback says who draws the proposal of an uncovered outcome and under which law, so that verification stays lossless.
`none` proposes nothing, `random` draws uniformly, `neural` asks the draft, now, for the missed rows only.
"""

from saguaro.registry import Table

FALLBACKS = Table(
    "fallback",
    {
        "none": "saguaro.drafting.fallbacks.none:NoFallback",
        "random": "saguaro.drafting.fallbacks.random:RandomFallback",
        "neural": "saguaro.drafting.fallbacks.neural:NeuralFallback",
    },
)

__all__ = ["FALLBACKS"]
