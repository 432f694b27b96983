"""The target's note of a look-up: for which outcome, how many branches there were, and why it was a miss.

The draft publishes the key of a branch as soon as it opens it, and for how many k it has chosen branches; so the target
can tell the reasons apart without asking (`algorithm/misses.py`). Two more are its own: what was found was not used, or
there was no draft to find anything of. Must not know: what follows from a look-up. Tests: tests/engine/test_misses.py.
"""

from __future__ import annotations

from typing import NamedTuple

from saguaro.algorithm.misses import miss_reason
from saguaro.transport.base import Key, TargetPort

UNUSED, NO_DRAFT = "unused", "no_draft"


class Lookup(NamedTuple):
    """A look-up of outcome (`accepted`, `bonus`), None where nothing was looked up.

    `reason` is None for a hit; the round had so many `branches`, and with `covered` one of them was for this outcome.
    """

    accepted: int | None = None
    bonus: int | None = None
    reason: str | None = NO_DRAFT
    branches: int = 0
    covered: bool = False


NO_LOOKUP = Lookup()


def look_up(port: TargetPort, row: int, key: Key, *, found: bool) -> Lookup:
    """The note of a look-up, as if it were a miss; `answered` says later what became of it. `found`: there is an entry
    with tokens.
    """
    chosen = port.chosen(row, key, found=found)
    reason = miss_reason(
        key.accepted, chosen.positions, same_accepted=chosen.same_accepted, same_outcome=chosen.same_outcome
    )
    return Lookup(key.accepted, key.bonus, reason, chosen.branches, chosen.same_outcome)


def answered(lookup: Lookup, source: str, *, found: bool) -> Lookup:
    """The note once it is known where the proposal came from. `found`: the entry had a token that could be taken."""
    if source == "hit":
        return lookup._replace(reason=None)
    return lookup._replace(reason=UNUSED) if found else lookup
