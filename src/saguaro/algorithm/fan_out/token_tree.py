"""The tree that a draft grows from the verified node by its own probabilities: SwiftSpec's rule (Section 2.2).

Nodes beside the proposal are taken in the order of the draft's joint probability, as it stands: no calibration, so a
draft that is surer than it is right keeps to its own path. `ranked` is the same with calibrated odds.
Must not know: engines. Tests: tests/conformance/test_fan_out.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from saguaro.algorithm.fan_out.ranked import Ranked
from saguaro.algorithm.odds import Guesses, best_outcomes, softmax
from saguaro.algorithm.proposal_tree import ProposalTree
from saguaro.algorithm.siblings import best_tree_outcomes
from saguaro.algorithm.terms import Outcome


class TokenTree(Ranked):
    """The B nodes with the largest joint probability under the draft's softmax."""

    def choose(
        self, guesses: Sequence[Guesses], sent: Sequence[int], budget: int, counts: Sequence[int]
    ) -> list[tuple[float, Outcome]]:
        """See `FanOutPolicy.choose`."""
        return best_outcomes([_plain(each) for each in guesses], sent, budget)

    def choose_on_tree(
        self, guesses: Mapping[int, Guesses], tree: ProposalTree, budget: int, counts: Sequence[int]
    ) -> list[tuple[float, Outcome]]:
        """See `FanOutPolicy.choose_on_tree`."""
        return best_tree_outcomes({node: _plain(each) for node, each in guesses.items()}, tree, budget)


def _plain(guesses: Guesses) -> Guesses:
    return guesses._replace(odds=softmax(guesses.scores))
