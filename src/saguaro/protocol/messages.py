"""The messages of the conversation and their bytes, both directions in one file (DESIGN D3).

Every message is one frame: `magic, version, kind, length`, then a fixed struct, then token ids as int32 (`Admit` has
the sampling options between them, as JSON with its length; `Configure` the name of the policy; a proposal that is a
tree has the parents of its tokens behind them; `Taps` ends in hidden states as bfloat16). A frame of another
version, an unknown kind, a wrong length or a value out of range is a `ProtocolError`. Rounds count from 0 (prefill).
Must not know: who sends, how bytes move.
Tests: tests/protocol/test_messages.py.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass
from typing import Any, ClassVar

from saguaro.algorithm import options
from saguaro.algorithm.options import Sampling
from saguaro.errors import ProtocolError

VERSION = 7
MAGIC = 0x5347
HEADER = struct.Struct("<HBBI")
LENGTH = struct.Struct("<I")
SOURCES = ("hit", "none", "random", "ngram", "own_row", "neural", "pending", "forced")
FIRST_ENTRY, MISS_ANSWER = 1, 2
"""Kinds of an entry: tokens for an outcome, or the draft's word that it has none (rejection only)."""
LAST = 4
"""Added to the kind of an entry that will not grow: no token that the draft knows may follow."""


@dataclass(frozen=True, slots=True)
class Admit:
    """A row joins: everything that the draft must know of the request. `tokens` are prompt and output so far, the first
    `prompt_length` of them the prompt.
    """

    KIND: ClassVar[int] = 1
    BODY: ClassVar[struct.Struct] = struct.Struct("<QIII")
    request: int
    row: int
    round: int
    prompt_length: int
    sampling: Sampling
    tokens: tuple[int, ...]

    def _fields(self) -> tuple[object, ...]:
        return (self.request, self.row, self.round, self.prompt_length)


@dataclass(frozen=True, slots=True)
class Decided:
    """Outcome (k, t*) of round `round`, and the proposal of the next round, with `parents` where it is a tree. Of a
    proposal tree `accepted` is the node where the walk ended.

    `base` is the committed length before this outcome. With `pending`, `tokens` are not decided yet: the draft goes
    on with what it has for this outcome (or drafts anew) up to `wanted` tokens, until `Taken` says what was used.
    """

    KIND: ClassVar[int] = 2
    BODY: ClassVar[struct.Struct] = struct.Struct("<QIIIiBBBB")
    request: int
    round: int
    base: int
    accepted: int
    bonus: int
    source: str
    pending: bool
    wanted: int
    tokens: tuple[int, ...]
    parents: tuple[int, ...] = ()

    def _fields(self) -> tuple[object, ...]:
        own = (self.request, self.round, self.base, self.accepted, self.bonus, SOURCES.index(self.source))
        return (*own, self.pending, self.wanted, bool(self.parents))


@dataclass(frozen=True, slots=True)
class Taken:
    """The end of a pending wait: the tokens of the proposal that follows the outcome of `round`, and their `parents`
    where it is a tree.
    """

    KIND: ClassVar[int] = 3
    BODY: ClassVar[struct.Struct] = struct.Struct("<QIBB")
    request: int
    round: int
    source: str
    tokens: tuple[int, ...]
    parents: tuple[int, ...] = ()

    def _fields(self) -> tuple[object, ...]:
        return (self.request, self.round, SOURCES.index(self.source), bool(self.parents))


@dataclass(frozen=True, slots=True)
class Release:
    """A row leaves; its pages and entries are free."""

    KIND: ClassVar[int] = 4
    BODY: ClassVar[struct.Struct] = struct.Struct("<Q")
    request: int
    tokens: tuple[int, ...] = ()

    def _fields(self) -> tuple[object, ...]:
        return (self.request,)


@dataclass(frozen=True, slots=True)
class Configure:
    """Settings that may change between rounds.

    The draft chooses branches by the policy `fan_out`, at most `budget` of them. Counts given by hand are in `tokens`:
    the first `listed` of them for rounds after a hit, the others (if any) for rounds after a miss. With `everything` it
    fills all branches, whatever they cost (lockstep). With `tree` its chains have siblings; a draft without branches
    grows a tree of so many nodes instead, while the target waits, and with `prune` leaves out nodes that cost more time
    than they are worth.
    """

    KIND: ClassVar[int] = 5
    BODY: ClassVar[struct.Struct] = struct.Struct("<BBBdBBBBB")
    lookahead: int
    rejection: bool
    branches: bool
    saguaro_c: float
    budget: int
    everything: bool
    listed: int = 0
    tree: int = 0
    prune: bool = False
    fan_out: str = "none"
    tokens: tuple[int, ...] = ()

    def _fields(self) -> tuple[object, ...]:
        own = (self.lookahead, self.rejection, self.branches, self.saguaro_c, self.budget, self.everything)
        return (*own, self.listed, self.tree, self.prune)


@dataclass(frozen=True, slots=True)
class Taps:
    """Hidden states of the target at the `count` positions from `start` on, whose tokens are committed or will be with
    the outcome that follows: `width` numbers each, bfloat16.
    """

    KIND: ClassVar[int] = 6
    BODY: ClassVar[struct.Struct] = struct.Struct("<QIII")
    request: int
    start: int
    count: int
    width: int
    values: bytes

    def _fields(self) -> tuple[object, ...]:
        return (self.request, self.start, self.count, self.width)


Message = Admit | Decided | Taken | Release | Configure | Taps
_KINDS: dict[int, Any] = {m.KIND: m for m in (Admit, Decided, Taken, Release, Configure, Taps)}


def encode(message: Message) -> bytes:
    """The frame of a message."""
    body = message.BODY.pack(*message._fields())
    if isinstance(message, Admit):
        body += _padded(options.encode(message.sampling))
    if isinstance(message, Configure):
        body += _padded(message.fan_out.encode())
    if isinstance(message, Taps):
        body += message.values + b"\0" * (-len(message.values) % 4)
    else:
        parents = message.parents if isinstance(message, (Decided, Taken)) else ()
        body += array("i", (*message.tokens, *parents)).tobytes()
    return HEADER.pack(MAGIC, VERSION, message.KIND, len(body)) + body


def _padded(text: bytes) -> bytes:
    text += b" " * (-len(text) % 4)
    return LENGTH.pack(len(text)) + text


def decode(frame: bytes) -> Message:
    """The message of a frame.

    Raises:
        ProtocolError: when the frame is not one of ours or holds an impossible value.
    """
    if len(frame) < HEADER.size:
        raise ProtocolError(f"a frame of {len(frame)} bytes is too short.")
    magic, version, kind, length = HEADER.unpack_from(frame)
    if magic != MAGIC or version != VERSION:
        raise ProtocolError(f"a frame of protocol version {version} arrived; this side speaks version {VERSION}.")
    cls = _KINDS.get(kind)
    if cls is None or length != len(frame) - HEADER.size or length < cls.BODY.size or (length - cls.BODY.size) % 4:
        raise ProtocolError(f"a frame of kind {kind} and length {length} is damaged.")
    values = list(cls.BODY.unpack_from(frame, HEADER.size))
    rest = frame[HEADER.size + cls.BODY.size :]
    if kind == Taps.KIND:
        return _taps(values, rest)
    if kind in (Admit.KIND, Configure.KIND):
        text, rest = _take_text(rest)
        values.append(_sampling(text) if kind == Admit.KIND else _name(text))
    tokens = array("i")
    tokens.frombytes(rest)
    if kind in (Decided.KIND, Taken.KIND):
        index = 5 if kind == Decided.KIND else 2
        if values[index] >= len(SOURCES):
            raise ProtocolError(f"a frame names the unknown source {values[index]}.")
        values[index] = SOURCES[values[index]]
    if kind == Decided.KIND:
        values[6] = bool(values[6])
    if kind == Configure.KIND:
        values[1:3] = [bool(values[1]), bool(values[2])]
        values[5], values[8] = bool(values[5]), bool(values[8])
    if any(token < 0 for token in tokens):
        raise ProtocolError("a frame holds a negative token id.")
    if kind in (Decided.KIND, Taken.KIND) and values.pop():
        half = len(tokens) // 2
        if len(tokens) % 2:
            raise ProtocolError("a frame holds a tree without a parent for each token.")
        values += [tuple(tokens[:half])]
        tokens = tokens[half:]
    message: Message = cls(*values, tuple(tokens))
    return message


def _taps(values: list[int], rest: bytes) -> Taps:
    request, start, count, width = values
    size = 2 * count * width
    if len(rest) != size + -size % 4 or any(rest[size:]):
        raise ProtocolError(f"a frame says {count} taps of {width} numbers and holds {len(rest)} bytes.")
    return Taps(request, start, count, width, rest[:size])


def _take_text(rest: bytes) -> tuple[bytes, bytes]:
    if len(rest) < LENGTH.size:
        raise ProtocolError("a frame ends before its text.")
    [size] = LENGTH.unpack_from(rest)
    text, rest = rest[LENGTH.size : LENGTH.size + size], rest[LENGTH.size + size :]
    if len(text) < size or size % 4:
        raise ProtocolError("a frame ends within its text.")
    return text, rest


def _sampling(text: bytes) -> Sampling:
    try:
        return options.decode(text)
    except (ValueError, TypeError) as error:
        raise ProtocolError(f"a frame holds damaged sampling options: {error}.") from error


def _name(text: bytes) -> str:
    try:
        return text.decode().rstrip(" ")
    except UnicodeDecodeError as error:
        raise ProtocolError("a frame holds a damaged name.") from error
