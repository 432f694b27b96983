"""Which outcomes the draft prepares for: a fan-out policy, fed with what the rounds so far have shown (Section 4.1).

The policy is evaluated where the guesses are, in the draft; the target only names it. Must not know: models, channels,
clocks. Tests: tests/engine/test_predicting.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from saguaro.algorithm.fan_out import open_fan_out
from saguaro.algorithm.fan_out.base import FanOutPolicy, guesses_needed
from saguaro.algorithm.odds import Guesses, likely_outcomes
from saguaro.algorithm.siblings import chain_outcome, tree_outcomes
from saguaro.algorithm.terms import Outcome
from saguaro.config import MAX_BUDGET
from saguaro.engine.draft_row import DraftRow
from saguaro.engine.observing import Observer
from saguaro.protocol.messages import Configure, Decided
from saguaro.theory.evidence import RunningEvidence


class Predictor:
    """The policy of the settings, and the evidence that it goes by. `observer` keeps ended rounds for a calibration."""

    def __init__(self, evidence: RunningEvidence, *, observe: int = 0) -> None:
        self.evidence = evidence
        self.observer = Observer(observe)
        self._settings = Configure(0, False, False, 1.0, 0, False)
        self._policy: FanOutPolicy = open_fan_out("none")

    def configure(self, settings: Configure) -> None:
        """New settings.

        Raises:
            ConfigError: for a policy that is not known.
        """
        self._settings = settings
        if settings.listed:
            self._policy = open_fan_out(settings.tokens[: settings.listed], settings.tokens[settings.listed :])
        else:
            self._policy = open_fan_out(settings.fan_out)

    @property
    def candidates(self) -> int:
        """How many guesses of a position are needed."""
        own = guesses_needed(self._policy, self._settings.lookahead, self._settings.budget, self.evidence)
        return max(own, self.observer.count)

    def full_counts(self, after_hit: bool) -> tuple[int, ...]:
        """F_0 ... F_K of a whole proposal."""
        return self._counts(self._settings.lookahead, after_hit)

    def _counts(self, depth: int, after_hit: bool) -> tuple[int, ...]:
        evidence = self.evidence.of(after_hit=after_hit)
        return self._policy.counts(depth, self._settings.budget, evidence, after_hit=after_hit)

    def outcomes(self, row: DraftRow, guesses: Mapping[int, Guesses]) -> tuple[int, list[tuple[float, Outcome]]]:
        """The most branches of a row, and the outcomes to prepare for, likeliest first.

        Saguaro sampling scales F_k tokens before the draw, so that there the counts decide, whatever the guesses are.

        Args:
            row: any row.
            guesses: after 0, 1, ... tokens of its proposal, or after the nodes of a tree, as far as they are known.
        """
        counts, budget = self._counts(len(row.proposal), row.after_hit), self._settings.budget
        chooses, shape = self._policy.chooses and self._settings.saguaro_c == 1, row.shape
        if shape is None:
            known = [guesses[place] for place in range(len(guesses))]
            if chooses:
                return budget, self._policy.choose(known, row.proposal, budget, counts)
            return sum(counts), likely_outcomes(known, row.proposal, counts[: len(known)])
        if chooses:
            return budget, self._policy.choose_on_tree(guesses, shape, budget, counts)
        by_node = [counts[min(depth, len(counts) - 1)] for depth in (0, *shape.depths)]
        return min(MAX_BUDGET, sum(by_node)), tree_outcomes(guesses, shape, lambda node: by_node[node])

    def learn(self, row: DraftRow, outcome: Decided) -> None:
        """A round has ended, and `row` still stands at its beginning. What a grammar makes certain says nothing, nor do
        rounds for which nothing is prepared (AR, SD), or whose proposal was a tree that was grown; of a chain with
        siblings the chain is looked at.
        """
        if row.grammar is not None or row.tree is not None or not self._settings.lookahead:
            return
        if row.shape is not None and outcome.accepted <= len(row.shape):
            accepted, bonus = chain_outcome(row.shape, Outcome(outcome.accepted, outcome.bonus))
            outcome = replace(outcome, accepted=accepted, bonus=bonus)
        if outcome.accepted > len(row.proposal):
            return
        self.observer.note(row, outcome)
        if not self._settings.branches:
            return
        listed = row.ranked[outcome.accepted].tokens if outcome.accepted < len(row.ranked) else None
        self.evidence.update(
            after_hit=row.after_hit,
            sent=row.proposal,
            accepted=outcome.accepted,
            bonus=outcome.bonus,
            guesses=listed,
        )
