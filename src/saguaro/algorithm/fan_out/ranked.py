"""Each round, the likeliest outcomes by the draft's own calibrated odds, wherever they are (DESIGN D8).

The draft alone can choose (`algorithm/odds.py`). Must not know: engines. Tests: tests/conformance/test_fan_out.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from saguaro.algorithm.fan_out.geometric import Geometric
from saguaro.algorithm.odds import Guesses, best_outcomes
from saguaro.algorithm.proposal_tree import ProposalTree
from saguaro.algorithm.siblings import best_tree_outcomes
from saguaro.algorithm.terms import Outcome


class Ranked(Geometric):
    """The B likeliest outcomes of all; counts of `geometric` where they must be known before the draw."""

    chooses: ClassVar[bool] = True

    def choose(
        self, guesses: Sequence[Guesses], sent: Sequence[int], budget: int, counts: Sequence[int]
    ) -> list[tuple[float, Outcome]]:
        """See `FanOutPolicy.choose`."""
        return best_outcomes(guesses, sent, budget)

    def choose_on_tree(
        self, guesses: Mapping[int, Guesses], tree: ProposalTree, budget: int, counts: Sequence[int]
    ) -> list[tuple[float, Outcome]]:
        """See `FanOutPolicy.choose_on_tree`."""
        return best_tree_outcomes(guesses, tree, budget)
