"""Target and draft in one process: tests with forced interleavings, and SD on one device (DESIGN D10).

While the target waits it runs the draft; `steps_per_round` draft steps stand for the time of one verification (None:
until the draft has nothing to do). Must not know: what a step does. Tests: tests/conformance/test_transports.py.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import torch
from torch.nn.utils.rnn import pad_sequence

from saguaro.protocol.messages import FIRST_ENTRY, Message, decode, encode
from saguaro.transport.base import Chosen, DraftStatus, Entry, Key


class Loopback:
    """Both ends at once. `step` is set by whoever owns the draft: it runs one draft step, False when it was idle."""

    local = True

    def __init__(self, *, steps_per_round: int | None = None) -> None:
        self.step: Callable[[], bool] | None = None
        self.steps_per_round = steps_per_round
        self._inbox: deque[bytes] = deque()
        self._entries: dict[int, dict[int, Entry]] = {}
        self._laws: dict[tuple[int, int], torch.Tensor] = {}
        self._rows: dict[int, tuple[int, bool, int]] = {}
        self._chosen: dict[int, tuple[int, int, int]] = {}
        self._status = DraftStatus(0.0, 0.0, time.monotonic())

    # the target's end

    def send(self, message: Message, *, spare: int = 0) -> bool:
        self._inbox.append(encode(message))
        return True

    def find(self, row: int, key: Key) -> Entry | None:
        for _, entry in sorted(self._entries.get(row, {}).items()):  # an answer before a branch, as in a mailbox
            if entry.key == key and _is_seen(entry):
                return entry
        return None

    def entries(self, row: int, request: int, round_: int) -> list[Entry]:
        found = sorted(self._entries.get(row, {}).items())
        return [e for _, e in found if (e.key.request, e.key.round) == (request, round_) and _is_seen(e)]

    def chosen(self, row: int, key: Key, *, found: bool) -> Chosen:
        keys = [entry.key for entry in self._entries.get(row, {}).values()]
        round_, positions, branches = self._chosen.get(row, (-1, 0, 0))
        if round_ != key.round or self._rows.get(row, (-1,))[0] != key.request:
            positions = branches = 0
        same_accepted = any(replace(each, bonus=key.bonus) == key for each in keys)
        return Chosen(positions, branches, same_accepted, key in keys)

    def laws(self, row: int, count: int) -> torch.Tensor:
        return pad_sequence([self._laws[row, depth] for depth in range(count)], batch_first=True)

    def caught_up(self, row: int, request: int) -> bool:
        state = self._rows.get(row)
        return state is not None and state[0] == request and state[1]

    def full(self, row: int, key: Key) -> bool:
        state = self._rows.get(row)
        return state is not None and state[0] == key.request and state[2] == key.round

    def status(self) -> DraftStatus:
        return self._status

    def wait(self, ready: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not ready():
            if self.step is None or not self.step() or time.monotonic() > deadline:
                return ready()
        return True

    def elapse(self) -> None:
        """Let the draft run for what stands for one verification."""
        steps = 0
        while self.step is not None and (self.steps_per_round is None or steps < self.steps_per_round):
            if not self.step():
                return
            steps += 1

    # the draft's end

    def receive(self) -> list[Message]:
        news = [decode(frame) for frame in self._inbox]
        self._inbox.clear()
        return news

    def has_news(self) -> bool:
        return bool(self._inbox)

    def publish(self, row: int, index: int, entry: Entry, fresh: bool) -> None:
        self._entries.setdefault(row, {})[index] = entry

    def publish_laws(self, row: int, depth: int, law_S: torch.Tensor, ids_S: torch.Tensor | None = None) -> None:
        law_V = law_S
        if ids_S is not None:
            law_V = torch.zeros(int(ids_S.max()) + 1)
            law_V[ids_S] = law_S
        self._laws[row, depth] = law_V

    def set_row(self, row: int, request: int, *, caught_up: bool, full_round: int) -> None:
        if row in self._rows and self._rows[row][0] != request:
            self._chosen.pop(row, None)
        self._rows[row] = (request, caught_up, full_round)

    def set_chosen(self, row: int, round_: int, positions: int, branches: int) -> None:
        self._chosen[row] = (round_, positions, branches)

    def beat(self, step_started: float, step_seconds: float, single_seconds: float, *, away: float = 0.0) -> None:
        self._status = DraftStatus(step_seconds, step_started, time.monotonic() + away, 0.0, single_seconds)

    def wait_news(self, seconds: float) -> bool:
        return self.has_news()

    def close(self) -> None:
        self._inbox.clear()
        self._entries.clear()
        self._chosen.clear()
        self._laws.clear()


def _is_seen(entry: Entry) -> bool:
    """Whether the target may take the entry, or is told that no more will come."""
    return bool(entry.tokens) or entry.kind != FIRST_ENTRY


def pair() -> tuple[Loopback, Loopback]:
    """A connected pair of ends, for the conformance test."""
    both = Loopback()
    return both, both
