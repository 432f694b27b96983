"""The speculation cache of one request: S_T of Section 3.1, a mapping from outcomes to proposals.

DESIGN D3: it lives where it is looked up. Branches grow while the target verifies, so an entry is written again each
time it gets deeper; whatever bears the tag of another round, request or draft is ignored and counted. An outcome that
is covered but has no token yet is not a hit.
Must not know: processes, mailboxes, clocks. Tests: tests/algorithm/test_cache.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from saguaro.algorithm.terms import NOTHING, Outcome, Proposal


class Tag(NamedTuple):
    """What an entry belongs to: draft process, request, round and the committed length before that round."""

    generation: int = 0
    request: int = 0
    round_number: int = 0
    committed: int = 0


class SpeculationCache:
    """Outcome to proposal, for the one round that is expected next.

    Attributes:
        hits, misses: counts of `look_up`.
        ignored: entries that bore another tag, or were shallower than what is there.
    """

    __slots__ = ("_entries", "hits", "ignored", "misses", "tag")

    def __init__(self, tag: Tag | None = None) -> None:
        self.tag = tag or Tag()
        self.hits = self.misses = self.ignored = 0
        self._entries: dict[tuple[int, int], Proposal] = {}

    def expect(self, tag: Tag) -> None:
        """Forget all entries and take only those of `tag` from now on."""
        self.tag = tag
        self._entries.clear()

    def cover(self, outcomes: Iterable[Outcome], *, tag: Tag | None = None) -> None:
        """Announce branches that have no tokens yet, so that waiting for them is possible."""
        for outcome in outcomes:
            self.write(outcome, NOTHING, tag=tag)

    def write(self, outcome: tuple[int, int], proposal: Proposal, *, tag: Tag | None = None) -> bool:
        """Store or deepen an entry; False, and counted, if the tag is another or the entry is already deeper.

        Args:
            outcome: the key (k, t*).
            proposal: the tokens drafted for it so far, with their law.
            tag: the tag that the entry bears; None for "whatever is expected".
        """
        present = self._entries.get(outcome)
        if (tag is not None and tag != self.tag) or (present is not None and present.depth > proposal.depth):
            self.ignored += 1
            return False
        self._entries[outcome] = proposal
        return True

    def covers(self, outcome: tuple[int, int]) -> bool:
        """Whether a branch for this outcome exists, with tokens or without."""
        return outcome in self._entries

    def depth(self, outcome: tuple[int, int]) -> int:
        """How many tokens the branch of this outcome has; 0 if there is none."""
        entry = self._entries.get(outcome)
        return entry.depth if entry is not None else 0

    def look_up(self, outcome: tuple[int, int]) -> Proposal | None:
        """Algorithm 1, lines 23 and 24: the proposal prepared for this outcome, or None on a miss; counts either."""
        entry = self._entries.get(outcome)
        if entry is None or not entry.tokens:
            self.misses += 1
            return None
        self.hits += 1
        return entry

    def outcomes(self) -> list[Outcome]:
        """All covered outcomes, in the order in which they were first written."""
        return [Outcome(*key) for key in self._entries]

    def __len__(self) -> int:
        return len(self._entries)
