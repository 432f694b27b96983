"""Answers to a miss (Section 4.3, DESIGN D9): a plug point.

A fallback says who draws the proposal of an uncovered outcome and under which law, so that verification stays lossless.
`none` proposes nothing, `random` draws uniformly, `ngram` looks up where the row's text, or an
earlier output, ended like this, `own_row` takes what was drafted for other outcomes, `neural` asks the draft, now, for
the missed rows only, and `adaptive` chooses among all of these but `random` for each round and row.
"""

from saguaro.registry import Table

FALLBACKS = Table(
    "fallback",
    {
        "none": "saguaro.drafting.fallbacks.none:NoFallback",
        "random": "saguaro.drafting.fallbacks.random:RandomFallback",
        "ngram": "saguaro.drafting.fallbacks.ngram:NGramFallback",
        "own_row": "saguaro.drafting.fallbacks.own_row:OwnRowFallback",
        "neural": "saguaro.drafting.fallbacks.neural:NeuralFallback",
        "adaptive": "saguaro.drafting.fallbacks.adaptive:AdaptiveFallback",
    },
)

__all__ = ["FALLBACKS"]
