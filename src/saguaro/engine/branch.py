"""What the draft has for one outcome (k, t*) that may come: a branch of the tree that it runs ahead of the target.

Must not know: rows, models, channels. Tests: tests/engine/test_draft_row.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from saguaro.algorithm.odds import Guesses
from saguaro.drafting.drawer import Law


@dataclass(slots=True)
class Branch:
    """The speculation for one outcome.

    `slots` holds bonus, x_1, ...: the tokens that ran; each gave one drawn token, and a grammar may have added some
    that have not run. `odds` is the probability that the outcome occurs, `worth` that all drawn tokens are accepted
    too; `ended` that no token can be drawn here.
    """

    accepted: int
    bonus: int
    index: int
    tokens: list[int] = field(default_factory=list)
    ranked: list[Guesses] = field(default_factory=list)
    odds: float = 1.0
    worth: float = 1.0
    laws: list[Law] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    ended: bool = False

    def due(self) -> list[int]:
        """Tokens that have not run: never none, since the last one gives the next."""
        return [self.bonus, *self.tokens][len(self.slots) :]
