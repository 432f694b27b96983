"""What the target reads of the draft, and how long it waits for it (DESIGN D3).

Nothing that the draft sends is trusted: an entry with an impossible token is dropped and counted, and a wait ends after
three times the expected time. Must not know: policies, which answer is wanted. Tests: tests/lossless/,
tests/processes/.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

from torch.nn.functional import pad

from saguaro.algorithm.terms import DenseLaw
from saguaro.algorithm.waiting import expected_waits
from saguaro.protocol.messages import LAST
from saguaro.theory.step_times import time_for
from saguaro.transport.base import Entry, Key, TargetPort

log = logging.getLogger(__name__)

FIRST_STEP_GUESS = 0.02
LOCKSTEP_SECONDS = 30.0
PATIENCE = 3.0
SILENT_SECONDS, SILENT_STEPS = 0.3, 6
MOST_STRETCH = 4.0


class DraftReader:
    """The look-ups in the speculation cache, and the waits. `lockstep`: waits end when the draft is done."""

    def __init__(self, vocab: int) -> None:
        self.vocab = vocab
        self.port: TargetPort | None = None
        self.lockstep = False
        self.garbled = 0
        self._stretch = 1.0  # how much longer a wait beside other rows takes than steps of so many rows alone

    # -- entries ------------------------------------------------------------------------------------------------

    def find(self, row: int, key: Key) -> Entry | None:
        """The entry for an outcome, as deep as it is; None where there is none that makes sense."""
        assert self.port is not None
        return self._valid(self.port.find(row, key))

    def branches(self, row: int, request: int, round_: int) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
        """(k, t*, tokens) of the branches of a round, likeliest first."""
        if self.port is None:
            return ()
        entries = self.port.entries(row, request, round_)
        return tuple((e.key.accepted, e.key.bonus, e.tokens) for e in entries if self._valid(e))

    def law(self, row: int, count: int) -> DenseLaw:
        """q of the first tokens of the row's proposal, as wide as the target's vocabulary."""
        assert self.port is not None
        laws_KV = self.port.laws(row, count)
        return DenseLaw(pad(laws_KV, (0, self.vocab - laws_KV.shape[1])))

    def _valid(self, entry: Entry | None) -> Entry | None:
        """Drop what no honest draft sends."""
        if entry is None:
            return None
        if any(not 0 <= token < self.vocab for token in (*entry.tokens, *(each.token for each in entry.siblings))):
            self.garbled += 1
            if self.garbled == 1:
                log.warning(
                    "an entry of the speculation cache holds an impossible token; it and others like it are dropped."
                )
            return None
        return entry

    # -- waiting ------------------------------------------------------------------------------------------------

    def lives(self) -> bool:
        """A draft that has been silent for long is not waited for; the supervisor will see to it."""
        assert self.port is not None
        if self.port.local or self.lockstep:
            return True
        status = self.port.status()
        return time.monotonic() - status.heartbeat < max(SILENT_SECONDS, SILENT_STEPS * status.step_seconds)

    def waits(self, available: int, most: int, *, asking: int = 1, alone: bool = True) -> list[float]:
        """Expected seconds until each depth 0 ... most is there: what a step in flight still takes, then steps of the
        `asking` rows, since a draft that is waited for runs little else. `alone`: there are no other rows at all.
        """
        if self.port is None:  # lost a moment ago
            return [0.0 if j <= available else math.inf for j in range(most + 1)]
        status = self.port.status()
        step = time_for({1: status.single_seconds or FIRST_STEP_GUESS}, max(1, asking))
        if not alone:
            step *= self._stretch
        first = step
        if available and status.step_started:
            gone = max(0.0, time.monotonic() - status.step_started)
            first = max(0.0, status.step_seconds - gone)
        return expected_waits(available, most, first=first, step=step)

    def waited(self, expected: float, seconds: float) -> None:
        """A wait beside other rows took so long; what is learnt fades when nobody waits."""
        if expected > 0:
            ratio = min(self._stretch * seconds / expected, 2 * self._stretch)
            self._stretch += 0.1 * (min(ratio, MOST_STRETCH) - self._stretch)
        else:
            self._stretch += 0.002 * (1.0 - self._stretch)

    def await_entry(
        self, row: int, key: Key, known: Entry | None, enough: Callable[[Entry], bool], *, wanted: int
    ) -> Entry | None:
        """The deepest valid entry for a pending key, once it is enough or the wait has lasted too long.

        Args:
            row: the row's place.
            key: the outcome.
            known: what was found before.
            enough: whether an entry ends the wait.
            wanted: tokens that are waited for.
        """
        port = self.port
        assert port is not None
        latest = known

        def ready() -> bool:
            nonlocal latest
            latest = self.find(row, key) or latest
            return latest is not None and (enough(latest) or bool(latest.kind & LAST))

        port.wait(ready, self._patience(wanted))
        return latest

    def _patience(self, wanted: int) -> float:
        assert self.port is not None
        if self.lockstep or self.port.local:
            return LOCKSTEP_SECONDS
        step = self.port.status().step_seconds or FIRST_STEP_GUESS
        return PATIENCE * (wanted + 1) * step + 0.05
