"""Target and draft in two processes of one host: a fixed piece of shared memory (DESIGN D3).

    header │ ring: messages target → draft │ row states │ entries [row][index] │ siblings of the entries' tokens
           │ laws [row][depth][V] (rejection)

The memory has no name (memfd): it is gone with the last process that maps it, however that process ends. One side
writes each field. A record's tokens are written before the depth that counts them, its depth is zeroed before its tag
changes, and the reader checks the tag again after reading: a record that changes meanwhile is simply not seen. The
same holds for siblings and their count.
Aligned 4- and 8-byte stores are single stores, and x86 keeps their order; on machines that do not, the native
release and acquire operations order them. Must not know: models, policies, clocks other than for time-outs.
Tests: tests/conformance/test_transports.py, tests/processes/.
"""

from __future__ import annotations

import mmap
import os
import select
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from saguaro.algorithm.siblings import Sibling
from saguaro.errors import ProtocolError
from saguaro.protocol.messages import FIRST_ENTRY, HEADER, Message, decode, encode
from saguaro.transport.base import Chosen, DraftStatus, Entry, Key

TAG = 9
"""int32 fields of a record before its tokens: depth, kind, generation, request (low, high), round, base, accepted,
bonus.
"""
TAG_BYTES, RECORD_HEAD, TIMES = struct.Struct("<7i"), struct.Struct("<2i"), struct.Struct("<5d")
COUNT, SIBLING = struct.Struct("<i"), struct.Struct("<iif")
"""Parent, token and reach of a sibling; before the first of a record stands their count."""
POSITION_BITS = 16
"""A row state: request, caught up, full round, and what was chosen: round, positions and branches in one store."""
OUTCOME, OUTCOME_AT = struct.Struct("<3i"), 16
"""Base, accepted and bonus are the last three of a tag, behind generation, request and round."""
TIMES_AT = 32
POLL_SECONDS, SPIN_SECONDS = 20e-6, 0.1
"""A sleep, of no time too, ends late by the kernel's timer slack of 50 us: a wait for a proposal looks all the time."""
DROWSY_AFTER, DROWSY_POLL_SECONDS = 0.2, 5e-3
"""A draft without news for this long looks less often: an idle engine must not take a busy one's core."""


@dataclass(frozen=True)
class MailboxShape:
    """Sizes agreed by both sides before the memory is made. `law_width` is 0 when no laws travel, `siblings` how many
    an entry may have.
    """

    rows: int
    entries: int
    tokens: int
    law_width: int
    generation: int
    ring_bytes: int = 1 << 20
    siblings: int = 0

    def sizes(self) -> list[int]:
        """Bytes of header, ring, row states, entries, siblings, laws; each rounded up to a page of memory."""
        sizes = [
            128,
            self.ring_bytes,
            self.rows * 32,
            self.rows * self.entries * (TAG + self.tokens) * 4,
            self.rows * self.entries * self.siblings_bytes,
            self.rows * self.tokens * self.law_width * 4,
        ]
        return [-(-size // 4096) * 4096 for size in sizes]

    @property
    def siblings_bytes(self) -> int:
        """Bytes of the siblings of an entry and their count."""
        return 4 + SIBLING.size * self.siblings


class Mailbox:
    """The mapped memory, seen as arrays. Both ends derive from it."""

    local = False

    def __init__(self, descriptor: int, shape: MailboxShape) -> None:
        self.shape = shape
        self._map = mmap.mmap(descriptor, sum(shape.sizes()))
        parts, offset = [], 0
        for size in shape.sizes():
            parts.append(np.frombuffer(self._map, dtype=np.uint8, count=size, offset=offset))
            offset += size
        header, self._ring, rows, entries, _, laws = parts
        self._ring_start, self._entries_start = shape.sizes()[0], sum(shape.sizes()[:3])
        self._siblings_start = sum(shape.sizes()[:4])
        # What the target looks at between two verifications is read through memoryviews: its caches are cold then, and
        # numpy's scalars touch much more code. `_cursor`: bytes written by the target, bytes read by the draft.
        self._cursor = memoryview(self._map)[:16].cast("Q")
        states = sum(shape.sizes()[:2])
        self._states = memoryview(self._map)[states : states + shape.rows * 32].cast("q")
        self._times = header[TIMES_AT : TIMES_AT + TIMES.size].view(np.float64)  # the fields of DraftStatus
        self._rows = rows[: shape.rows * 32].view(np.int64).reshape(shape.rows, 4)
        width = TAG + shape.tokens
        count = shape.rows * shape.entries * width * 4
        self._entries = entries[:count].view(np.int32).reshape(shape.rows, shape.entries, width)
        count = shape.rows * shape.tokens * shape.law_width * 4
        self._laws = laws[:count].view(np.float32).reshape(shape.rows, shape.tokens, shape.law_width)

    def _siblings_at(self, record: int) -> int:
        """Where in memory the siblings of a record are; records count through all rows."""
        return self._siblings_start + record * self.shape.siblings_bytes

    def close(self) -> None:
        """Drop the views; the memory goes when both sides have."""
        for name in ("_cursor", "_states", "_times", "_rows", "_entries", "_laws", "_ring"):
            self.__dict__.pop(name, None)


class MailboxTarget(Mailbox):
    """The target's end."""

    def send(self, message: Message, *, spare: int = 0) -> bool:
        frame = encode(message)
        written, read = self._cursor
        if written - read + len(frame) + spare > self.shape.ring_bytes:
            return False
        self._copy_in(written, frame)
        self._cursor[0] = written + len(frame)
        return True

    def _copy_in(self, position: int, frame: bytes) -> None:
        size, ring = self.shape.ring_bytes, self._ring_start
        start = ring + position % size
        head = min(len(frame), ring + size - start)
        self._map[start : start + head] = frame[:head]
        self._map[ring : ring + len(frame) - head] = frame[head:]

    def find(self, row: int, key: Key) -> Entry | None:
        tag = self._tag(key)
        for at in self._places(row, tag):
            entry = self._entry(at, tag, key)
            if entry is not None:
                return entry
        return None

    def _places(self, row: int, tag: bytes) -> Iterator[int]:
        """Where in memory the tags of a row begin like `tag`."""
        width = 4 * (TAG + self.shape.tokens)
        start = self._entries_start + row * self.shape.entries * width
        end = start + self.shape.entries * width
        at = self._map.find(tag, start, end)
        while at >= 0:
            if (at - 8 - start) % width == 0:
                yield at
            at = self._map.find(tag, at + 4, end)

    def _entry(self, at: int, tag: bytes, key: Key) -> Entry | None:
        """The record whose tag is at `at`, unless it has no tokens or has changed while it was read."""
        depth, kind = RECORD_HEAD.unpack_from(self._map, at - 8)
        count = min(max(depth, 0), self.shape.tokens)
        tokens = struct.unpack_from(f"<{count}i", self._map, at - 8 + 4 * TAG)
        siblings = self._siblings(at) if self.shape.siblings else ()
        if self._map[at : at + len(tag)] == tag and (tokens or kind != FIRST_ENTRY):
            return Entry(key, tokens, kind, siblings=siblings)
        return None

    def _siblings(self, at: int) -> tuple[Sibling, ...]:
        """Those of the record whose tag is at `at`."""
        start = self._siblings_at((at - 8 - self._entries_start) // (4 * (TAG + self.shape.tokens)))
        count = min(COUNT.unpack_from(self._map, start)[0], self.shape.siblings)
        if count <= 0:
            return ()
        own = self._map[start + COUNT.size : start + COUNT.size + count * SIBLING.size]
        return tuple(Sibling(*each) for each in SIBLING.iter_unpack(own))

    def _tag(self, key: Key) -> bytes:
        low, high = key.request & 0x7FFFFFFF, key.request >> 31
        return TAG_BYTES.pack(self.shape.generation, low, high, key.round, key.base, key.accepted, key.bonus)

    def chosen(self, row: int, key: Key, *, found: bool) -> Chosen:
        positions = branches = 0
        state, mask = self._states[4 * row + 3], (1 << POSITION_BITS) - 1
        if self._states[4 * row] == key.request and state >> 2 * POSITION_BITS == key.round:
            positions, branches = state >> POSITION_BITS & mask, state & mask
        if found:
            return Chosen(positions, branches, True, True)
        tag = self._tag(key)
        # The positions were read before the keys, and are written after them: a k that is chosen has its keys.
        return Chosen(positions, branches, self._holds(row, tag[:-4]), self._holds(row, tag))

    def _holds(self, row: int, tag: bytes) -> bool:
        """Whether a record of a row has a tag that begins so, with tokens or without."""
        return next(self._places(row, tag), None) is not None

    def entries(self, row: int, request: int, round_: int) -> list[Entry]:
        start = self._tag(Key(request, round_, 0, 0, 0))[:OUTCOME_AT]
        found = []
        for at in self._places(row, start):
            tag = self._map[at : at + TAG_BYTES.size]
            entry = self._entry(at, tag, Key(request, round_, *OUTCOME.unpack(tag[OUTCOME_AT:])))
            if entry is not None and tag[:OUTCOME_AT] == start:
                found.append(entry)
        return found

    def laws(self, row: int, count: int) -> torch.Tensor:
        return torch.from_numpy(self._laws[row, :count].copy())

    def caught_up(self, row: int, request: int) -> bool:
        return self._states[4 * row] == request and self._states[4 * row + 1] == 1

    def full(self, row: int, key: Key) -> bool:
        return self._states[4 * row] == key.request and self._states[4 * row + 2] == key.round

    def status(self) -> DraftStatus:
        return DraftStatus(*TIMES.unpack_from(self._map, TIMES_AT))

    def wait(self, ready: Callable[[], bool], seconds: float) -> bool:
        began = time.monotonic()
        while not ready():
            waited = time.monotonic() - began
            if waited > seconds:
                return False
            if waited > SPIN_SECONDS:
                time.sleep(POLL_SECONDS)
                continue
            # The core has nothing better to do; but other processes of it go first, and other threads of ours: a
            # question about nothing gives the interpreter's lock away and takes it again.
            os.sched_yield()
            select.select((), (), (), 0)
        return True

    def elapse(self) -> None:
        """The draft runs in a process of its own."""


class MailboxDraft(Mailbox):
    """The draft's end."""

    _last_news = 0.0

    def has_news(self) -> bool:
        return self._cursor[0] != self._cursor[1]

    def receive(self) -> list[Message]:
        news = []
        written, read = self._cursor
        while read < written:
            length = HEADER.unpack(self._copy_out(read, HEADER.size))[3]
            if HEADER.size + length > written - read:
                raise ProtocolError(f"a frame of {length} bytes is longer than what was written.")
            news.append(decode(self._copy_out(read, HEADER.size + length)))
            read += HEADER.size + length
        if news:
            self._cursor[1] = read
            self._last_news = time.monotonic()
        return news

    def _copy_out(self, position: int, length: int) -> bytes:
        size = self.shape.ring_bytes
        start = position % size
        head = min(length, size - start)
        return self._ring[start : start + head].tobytes() + self._ring[: length - head].tobytes()

    def publish(self, row: int, index: int, entry: Entry, fresh: bool) -> None:
        if entry.parents:
            raise ProtocolError("a record of the mailbox holds a chain and its siblings, no other proposal tree.")
        record = self._entries[row, index]
        siblings_at = self._siblings_at(row * self.shape.entries + index)
        if fresh:
            key = entry.key
            record[0] = 0
            COUNT.pack_into(self._map, siblings_at, 0)
            record[1] = entry.kind
            low, high = key.request & 0x7FFFFFFF, key.request >> 31
            record[2:TAG] = (self.shape.generation, low, high, key.round, key.base, key.accepted, key.bonus)
        count = len(entry.tokens)
        record[TAG : TAG + count] = entry.tokens
        if entry.siblings:
            self._publish_siblings(siblings_at, entry.siblings[: self.shape.siblings])
        if count:  # the key of a branch answers nobody
            self._times[3] = time.monotonic()
        record[0] = count

    def _publish_siblings(self, start: int, siblings: Sequence[Sibling]) -> None:
        for number, each in enumerate(siblings):
            SIBLING.pack_into(self._map, start + COUNT.size + number * SIBLING.size, *each)
        COUNT.pack_into(self._map, start, len(siblings))

    def publish_laws(self, row: int, depth: int, law_S: torch.Tensor, ids_S: torch.Tensor | None = None) -> None:
        record, count = self._laws[row, depth], law_S.shape[0]
        if ids_S is None:
            record[:count] = law_S.numpy()
            record[count:] = 0.0
        else:
            record[:] = 0.0
            record[ids_S.numpy()] = law_S.numpy()

    def set_row(self, row: int, request: int, *, caught_up: bool, full_round: int) -> None:
        state = self._rows[row]
        state[1] = 0
        if state[0] != request:
            state[3] = 0
        state[0], state[2] = request, full_round
        state[1] = int(caught_up)

    def set_chosen(self, row: int, round_: int, positions: int, branches: int) -> None:
        self._rows[row, 3] = (round_ << POSITION_BITS | positions) << POSITION_BITS | branches

    def beat(self, step_started: float, step_seconds: float, single_seconds: float, *, away: float = 0.0) -> None:
        self._times[4] = single_seconds
        self._times[:3] = (step_seconds, step_started, time.monotonic() + away)

    def wait_news(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self.has_news():
            now = time.monotonic()
            if now > deadline:
                return False
            time.sleep(POLL_SECONDS if now - self._last_news < DROWSY_AFTER else DROWSY_POLL_SECONDS)
        return True


def create(shape: MailboxShape) -> int:
    """A new piece of memory without a name, as a file descriptor."""
    descriptor = os.memfd_create("saguaro-mailbox", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, sum(shape.sizes()))
    return descriptor


def pair() -> tuple[MailboxTarget, MailboxDraft]:
    """A connected pair of ends in one process, for the conformance test."""
    shape = MailboxShape(rows=4, entries=8, tokens=8, law_width=16, generation=1, siblings=4)
    descriptor = create(shape)
    try:
        return MailboxTarget(descriptor, shape), MailboxDraft(descriptor, shape)
    finally:
        os.close(descriptor)
