"""The draft's side of the virtual clock: when its passes begin and end, and when what they drew can be verified.

A round of the draft is one pass that ranks outcomes and K steps of all branches. Two ways to hand over (DESIGN D3):
`push`, where every depth is on its way as soon as it is drawn and news is read between two passes; and `ask`, the
paper's, where the target asks, and the draft reads nothing until its whole round is done. Must not know: outcomes,
laws. Tests: tests/simulate/test_clock.py.
"""

from __future__ import annotations

import math

from saguaro.simulate.costs import Costs

PUSH, ASK = "push", "ask"
HANDOVERS = (PUSH, ASK)


class DraftClock:
    """When the draft does what, in seconds of the run. Idle at first."""

    def __init__(self, costs: Costs, handover: str, lookahead: int) -> None:
        self._costs, self._asked, self._lookahead = costs, handover == ASK, lookahead
        self._begun = self._extended = self._done = 0.0
        self._step = 0.0
        self.busy = 0.0

    def begin(self, told: float, *, rows: int, branches: int) -> None:
        """Start the round that follows news which reached the draft at `told`."""
        self._account(told)
        self._begun = self.free(told)
        self._extended = self._begun + self._costs.extend(rows)
        self._step = self._costs.step(branches) if branches else 0.0
        self._done = self._extended + self._lookahead * self._step

    def arrives(self, depth: int) -> float:
        """When the target can verify branches of this depth, if nobody has to ask."""
        return self._extended + depth * self._step + self._costs.link

    @property
    def done(self) -> float:
        """When the whole round is drafted."""
        return self._done

    def free(self, told: float) -> float:
        """When the draft acts on news that reaches it at `told`: after the pass in flight, or after its whole round."""
        if told >= self._done:
            return told
        if self._asked:
            return self._done
        if told <= self._begun:
            return self._begun
        if told <= self._extended:
            return self._extended
        if not self._step:
            return told
        return min(self._done, self._extended + math.ceil((told - self._extended) / self._step - 1e-9) * self._step)

    def answers(self, end: float, missed: int, depth: int) -> float:
        """When the target can verify `depth` tokens drafted now for `missed` rows whose outcome it knew at `end`."""
        costs = self._costs
        heard = self.free(end + costs.link) + costs.service
        return heard + depth * costs.draft(max(1, missed)) + costs.link

    def drafted(self, until: float) -> None:
        """It drafted for missed rows until then, and knows the proposals."""
        self._account(until)
        self._begun = self._extended = self._done = until
        self._step = 0.0

    def _account(self, told: float) -> None:
        self.busy += max(0.0, min(self.free(told), self._done) - self._begun)
