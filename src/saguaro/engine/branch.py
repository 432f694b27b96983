"""What the draft has for one outcome (k, t*) that may come: a branch of the tree that it runs ahead of the target.

    committed tokens | proposal, first `shared` | `path` | bonus, own tokens
    pages of the row                              `lead`   `slots`

Of a chain `shared` is k, and there is no path. Of a chain with siblings k is the number of a node: the branch of a node
beside the trunk sees the trunk up to where its path leaves it, and the rest of the path in the slots where that ran.

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
    too; `ended` that no token can be drawn here. A `probe` is node k itself, with its token in place of a bonus token:
    it runs once, to learn what may follow (`draft_beside.py`).
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
    probe: bool = False
    shared: int = -1
    path: tuple[int, ...] = ()
    lead: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.shared < 0:
            self.shared = self.accepted

    @property
    def before(self) -> int:
        """Accepted tokens before the bonus token."""
        return self.shared + len(self.path)

    def due(self) -> list[int]:
        """Tokens that have not run: never none, since the last one gives the next."""
        return [self.bonus, *self.tokens][len(self.slots) :]
