"""The values that a round passes around: outcome, proposal and draft law. Frozen, checked once.

Section 2.1 defines the outcome v = (k, t*) and the speculation s; a *proposal* is a speculation together with the law
its tokens were drawn from, so that one verification serves every kind of draft (DESIGN D1).
Must not know: models, caches, messages; torch is named in annotations only. Tests: tests/algorithm/test_terms.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from saguaro.errors import ProtocolError

if TYPE_CHECKING:
    import torch

Source = Literal["hit", "none", "random", "ngram", "own_row", "neural", "forced"]
SOURCES: tuple[Source, ...] = ("hit", "none", "random", "ngram", "own_row", "neural", "forced")


class Outcome(NamedTuple):
    """v = (k, t*): k proposed tokens were accepted, then the bonus token t* was drawn.

    k equal to the number of proposed tokens means that all were accepted. Equal to the plain tuple (k, t*).
    """

    accepted: int
    bonus: int


@dataclass(frozen=True, eq=False)
class DenseLaw:
    """Token i of the proposal was drawn from row i of `q_KV`."""

    q_KV: torch.Tensor


@dataclass(frozen=True)
class PointMassLaw:
    """Each token was certain given what precedes it (greedy drafts, n-gram look-ups, one's own text)."""


@dataclass(frozen=True)
class UniformLaw:
    """Each token was drawn uniformly from `vocab` ids."""

    vocab: int


DraftLaw = DenseLaw | PointMassLaw | UniformLaw


@dataclass(frozen=True)
class Proposal:
    """Tokens to verify, and the law they were drawn from.

    Args:
        tokens: the drafted ids in order; may be empty.
        law: needed by `rejection` only; None under `shared_noise`.

    Raises:
        ProtocolError: when a dense law has another number of rows than there are tokens.
    """

    tokens: tuple[int, ...]
    law: DraftLaw | None = None

    def __post_init__(self) -> None:
        if isinstance(self.law, DenseLaw) and len(self.law.q_KV) != len(self.tokens):
            rows, count = len(self.law.q_KV), len(self.tokens)
            raise ProtocolError(f"a dense draft law has {rows} rows for {count} tokens; send one row a token.")

    @property
    def depth(self) -> int:
        """The number of tokens."""
        return len(self.tokens)

    def cut(self, depth: int) -> Proposal:
        """The first `depth` tokens with their law.

        Lawful only if `depth` was chosen without looking at the tokens that are kept out or at the last one kept:
        whether a token is proposed may depend on what precedes it, never on its own draw (DESIGN D1).
        """
        law = DenseLaw(self.law.q_KV[:depth]) if isinstance(self.law, DenseLaw) else self.law
        return Proposal(self.tokens[:depth], law)


NOTHING = Proposal(())
