"""What a channel between target and draft must offer (DESIGN D3).

Messages go one way, in order and complete. Entries go the other way: the draft *pushes* each token of a branch as soon
as it is drawn, and the target looks an outcome up locally, without asking. Must not know: models, policies, what a
token means. Tests: tests/conformance/test_transports.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch

from saguaro.algorithm.siblings import Sibling
from saguaro.protocol.messages import Message


@dataclass(frozen=True, slots=True)
class Key:
    """What an entry answers: outcome (`accepted`, `bonus`) of `round` of `request`, committed length `base` before
    it.
    """

    request: int
    round: int
    base: int
    accepted: int
    bonus: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A proposal for an outcome, as deep as it was when it was read. `kind` is FIRST_ENTRY or MISS_ANSWER,
    and LAST where no more will come.

    `siblings` are other guesses for places of the chain, with their parents: each further token of the chain may bring
    some. Those behind its last token belong to one that is still on its way.

    A proposal tree that was grown while the target waits has the parent of each of its tokens, and how likely each is
    reached, in falling order; it is whole when it comes, and comes over `local` ports only.
    """

    key: Key
    tokens: tuple[int, ...]
    kind: int = 1
    parents: tuple[int, ...] = ()
    reach: tuple[float, ...] = ()
    siblings: tuple[Sibling, ...] = ()


class Chosen(NamedTuple):
    """What the draft has chosen to prepare in a round: branches for k = 0 ... `positions` - 1, in all `branches`.

    `same_accepted`: there is one for the k that was asked for; `same_outcome`: there is one for the outcome itself.
    Branches without tokens count.
    """

    positions: int
    branches: int
    same_accepted: bool
    same_outcome: bool


@dataclass(frozen=True, slots=True)
class DraftStatus:
    """What the draft says of itself; times are of the monotonic clock, which all processes of a host share.

    `step_seconds`: what the step in flight is expected to take, or the last one was. `step_started`: when the step in
    flight began, or 0. `heartbeat`: last sign of life. `answered`: when it last published an entry.
    `single_seconds`: a step of one row, which is what runs while the target waits.
    """

    step_seconds: float
    step_started: float
    heartbeat: float
    answered: float = 0.0
    single_seconds: float = 0.0


class TargetPort(Protocol):
    """The target's end. `local` ports run the draft in the target's own process, while it waits."""

    local: bool

    def send(self, message: Message, *, spare: int = 0) -> bool:
        """Queue a message; False when the peer does not take any more (it is then as good as dead), or when fewer than
        `spare` bytes would be left for others.
        """

    def find(self, row: int, key: Key) -> Entry | None:
        """The entry for `key`, or None. Never blocks; entries with another tag are not seen, nor those that have no
        token yet and may get some.
        """

    def entries(self, row: int, request: int, round_: int) -> list[Entry]:
        """All entries for outcomes of a round that `find` would see, in the order in which branches were opened."""

    def chosen(self, row: int, key: Key, *, found: bool) -> Chosen:
        """What the draft has chosen to prepare in the round of `key`, as far as it has said so; never blocks. An
        outcome that was `found` need not be looked for again.
        """

    def laws(self, row: int, count: int) -> torch.Tensor:
        """q of the first `count` tokens of the row's proposal, (count, V or fewer) float32; `rejection` only."""

    def caught_up(self, row: int, request: int) -> bool:
        """Whether the draft holds the row's whole context."""

    def full(self, row: int, key: Key) -> bool:
        """Whether all branches for the outcomes of `key.round` are drawn to the full lookahead."""

    def status(self) -> DraftStatus:
        """The draft's own times."""

    def wait(self, ready: Callable[[], bool], seconds: float) -> bool:
        """Return True as soon as `ready()` holds, False after `seconds`."""

    def elapse(self) -> None:
        """A verification has passed: a local draft runs now for what stands for that time; others have run already."""

    def close(self) -> None:
        """Give the channel up."""


class DraftPort(Protocol):
    """The draft's end; `local` as at the other end."""

    local: bool

    def receive(self) -> list[Message]:
        """All messages that arrived, in order; never blocks."""

    def has_news(self) -> bool:
        """Whether `receive` would return something; cheap enough to ask between two layers."""

    def publish(self, row: int, index: int, entry: Entry, fresh: bool) -> None:
        """Make the entry visible; with `fresh` the record held another branch before, else only deeper tokens
        follow. An entry without tokens says that a branch was opened.
        """

    def publish_laws(self, row: int, depth: int, law_S: torch.Tensor, ids_S: torch.Tensor | None = None) -> None:
        """Store q of the token at `depth` (from 0) of the row's proposal; before the entry that counts it. `ids_S`
        (int32) says whose the values are, 0, 1, ... without it. Ids of the target that are not named have no mass.
        """

    def set_row(self, row: int, request: int, *, caught_up: bool, full_round: int) -> None:
        """Say how far a row is; `full_round` is the round whose branches are complete, or -1."""

    def set_chosen(self, row: int, round_: int, positions: int, branches: int) -> None:
        """Say that in a round branches were chosen for k = 0 ... `positions` - 1, in all `branches`. Their keys were
        published before, as entries without tokens.
        """

    def beat(self, step_started: float, step_seconds: float, single_seconds: float, *, away: float = 0.0) -> None:
        """Say that the draft lives, and its times; with `away` that it may be silent for so many seconds."""

    def wait_news(self, seconds: float) -> bool:
        """Sleep until there is news, at most `seconds`."""

    def close(self) -> None:
        """Give the channel up."""
