"""What a fan-out policy promises. Section 4.1. Must not know: engines. Tests: tests/conformance/test_fan_out.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from saguaro.algorithm.odds import Guesses, likely_outcomes
from saguaro.algorithm.proposal_tree import ProposalTree
from saguaro.algorithm.siblings import tree_outcomes
from saguaro.algorithm.terms import Outcome
from saguaro.theory.evidence import Evidence, RunningEvidence


class FanOutPolicy(ABC):
    """Decides for which outcomes of a round branches are prepared.

    A policy that only spreads the budget over positions gives `counts`. One that `chooses` looks at the draft's guesses
    of the round, too; its counts say how it spreads the budget on average, which is what Saguaro sampling must know
    before a token is drawn. One that `learns` has counts that follow the evidence, so that the draft lists as many
    guesses as the budget allows.
    """

    chooses: ClassVar[bool] = False
    learns: ClassVar[bool] = False

    @abstractmethod
    def counts(self, lookahead: int, budget: int, evidence: Evidence, *, after_hit: bool) -> tuple[int, ...]:
        """F_0 ... F_K for a round that verifies `lookahead` tokens.

        Args:
            lookahead: number of proposed tokens of this row in this round; may be 0, and less than the configured K.
            budget: B, the most that the counts may sum to.
            evidence: what is known of rounds of this kind.
            after_hit: whether the proposal under verification came from the cache (F^p) or from a fallback (F^b).

        Returns:
            lookahead + 1 counts, none below 0, with a sum of at most `budget`; equal arguments give equal counts.
        """

    def choose(
        self, guesses: Sequence[Guesses], sent: Sequence[int], budget: int, counts: Sequence[int]
    ) -> list[tuple[float, Outcome]]:
        """The outcomes to prepare for as far as guesses are known, with their odds, likeliest first.

        Called again when more positions are known; what was chosen before keeps its branch while it is among the
        likeliest.

        Args:
            guesses: for positions 0 ... j, j <= d, as far as the draft has come.
            sent: the d tokens under verification.
            budget: B.
            counts: what `counts` gave for d.
        """
        return likely_outcomes(guesses, sent, counts[: len(guesses)])

    def choose_on_tree(
        self, guesses: Mapping[int, Guesses], tree: ProposalTree, budget: int, counts: Sequence[int]
    ) -> list[tuple[float, Outcome]]:
        """`choose` where a proposal tree is under verification: guesses after its nodes, as far as they are known.

        After a node as many as after a token of a chain that stands as deep.
        """
        return tree_outcomes(guesses, tree, lambda node: counts[min(len(tree.path(node)), len(counts) - 1)])


def guesses_needed(policy: FanOutPolicy, lookahead: int, budget: int, evidence: RunningEvidence) -> int:
    """How many candidates of a position a policy may need: one more than it takes, since the sent token may be one.

    Short proposals count too (the empty one of prefill, the last of a request): they have fewer positions to share it.
    """
    most = budget
    if not (policy.chooses or policy.learns):
        each = [
            policy.counts(depth, budget, evidence.of(after_hit=kind), after_hit=kind)
            for depth in range(lookahead + 1)
            for kind in (True, False)
        ]
        most = max(count for counts in each for count in counts)
    return most + 1
