"""From the ids of a target to those of a draft with another tokenizer, and back.

Forward: the bytes of the target's tokens are text, which the draft's tokenizer encodes. They may stop inside a
character or be no text at all; such bytes become the draft's single-byte tokens. A special token whose text is special
in the draft, too, is that one; one that ends a text is the draft's own end; others are read as their text.

Back: a token of the draft counts for the target's token with the same bytes, and where there is none for the longest
token of the target with which its bytes begin: the draft's law of the next token of the *target* is the sum over its
own tokens. Text that the draft would write in one token and the target in two comes out right, one after the other,
since the context is encoded anew behind each. Nothing here decides what the target says.
Must not know: torch, keys and values, rows. Tests: tests/models/test_text_bridge.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from saguaro.errors import ConfigError
from saguaro.models.tokenizer import TextCodec

ANCHOR = "\n"
"""Before text whose encoding would otherwise begin with a mark for a word; it is one token of its own there."""
NONE = -1


class TextBridge:
    """The way between two vocabularies.

    Args:
        target: tokenizer of the target.
        draft: tokenizer of the draft.
        target_vocab: ids of the target that may be proposed.
        draft_vocab: columns of the draft's logits.

    Attributes:
        begin: the draft's ids before every text.
        token_ids: ids of the target that the draft may say, each once.
        column_of: for each id of the draft the place in `token_ids` of what it counts for; -1 for nothing.

    Raises:
        ConfigError: the draft's tokenizer does not give back what it reads.
    """

    def __init__(self, target: TextCodec, draft: TextCodec, *, target_vocab: int, draft_vocab: int) -> None:
        self._target, self._draft = target, draft
        self.begin = tuple(draft.encode("", add_special=True))
        probe = b"".join(map(draft.token_bytes, draft.encode("a", add_special=False)))
        if probe not in (b"a", b" a"):
            raise ConfigError("the draft's tokenizer does not give back the text that it reads; take another draft.")
        self._anchored = probe != b"a"
        self._pieces = pieces = [b"" if d in draft.special_ids else draft.token_bytes(d) for d in range(draft_vocab)]
        self._byte_ids = {piece: d for d, piece in reversed(list(enumerate(pieces))) if len(piece) == 1}
        self._specials = self._special_ids()
        self._by_bytes = self._target_pieces(target_vocab)
        self.token_ids, self.column_of = self._columns(pieces, target_vocab)

    def special(self, token: int) -> tuple[int, ...] | None:
        """The draft's ids for a special token of the target (perhaps none); None where a token is read as text."""
        return self._specials.get(token)

    def piece(self, token: int) -> bytes:
        """What a token of the target adds to the text."""
        return self._target.token_bytes(token)

    def draft_bytes(self, ids: Sequence[int]) -> bytes:
        """The text of ids of the draft."""
        return b"".join(map(self._draft.token_bytes, ids))

    def draft_piece(self, own: int) -> bytes:
        """The same of an id of the draft, empty for special ones."""
        return self._pieces[own]

    def first_token(self, raw: bytes) -> int | None:
        """The target's longest token with which some bytes begin."""
        token = _longest(raw, self._by_bytes)
        return None if token == NONE else token

    def encode(self, raw: bytes) -> list[int]:
        """The draft's ids of some bytes. Their text is `raw` but for bytes that the draft has no token for."""
        ids: list[int] = []
        for text, bad in _runs(raw):
            ids += self._spell(text) if text else []
            ids += self._single(bad)
        return ids

    @property
    def shared(self) -> float:
        """Share of the draft's ids, special ones aside, that are a token of the target with the same bytes."""
        usual = [d for d in range(len(self.column_of)) if d not in self._draft.special_ids]
        pieces = [(self._draft.token_bytes(d), self.column_of[d]) for d in usual]
        real = [(piece, column) for piece, column in pieces if piece]
        same = sum(column != NONE and self.piece(self.token_ids[column]) == piece for piece, column in real)
        return same / max(1, len(real))

    def _spell(self, text: str) -> list[int]:
        """Ids whose bytes are those of `text`: in pieces where the tokenizer changes what it reads."""
        ids = self._whole(text)
        if ids is not None:
            return ids
        if len(text) == 1:
            return self._single(text.encode())
        half = len(text) // 2
        return self._spell(text[:half]) + self._spell(text[half:])

    def _whole(self, text: str) -> list[int] | None:
        raw = text.encode()
        if not self._anchored:
            ids = self._draft.encode(text, add_special=False)
            return ids if self.draft_bytes(ids) == raw else None
        ids = self._draft.encode(ANCHOR + text, add_special=False)
        skipped, length = 0, 0
        while skipped < len(ids) and length < len(ANCHOR) + 1:  # the mark, and the anchor
            length += len(self._draft.token_bytes(ids[skipped]))
            skipped += 1
        return ids[skipped:] if self.draft_bytes(ids) == f" {ANCHOR}{text}".encode() and length == 2 else None

    def _single(self, raw: bytes) -> list[int]:
        found = (self._byte_ids.get(bytes([byte])) for byte in raw)
        return [token for token in found if token is not None]

    def _special_ids(self) -> dict[int, tuple[int, ...]]:
        target, draft = self._target, self._draft
        by_text = {draft.token_bytes(token): token for token in sorted(draft.special_ids, reverse=True)}
        first = target.encode("", add_special=True)
        specials: dict[int, tuple[int, ...]] = {}
        for token in target.special_ids:
            if token in first:
                specials[token] = ()  # every text of the draft begins as its own do
            elif (same := by_text.get(target.token_bytes(token))) is not None:
                specials[token] = (same,)
            elif token in target.stop_ids and draft.stop_ids:
                specials[token] = (min(draft.stop_ids),)
        return specials

    def _target_pieces(self, target_vocab: int) -> dict[bytes, int]:
        """The target's tokens by their bytes, special ones aside; the first of several."""
        by_bytes: dict[bytes, int] = {}
        for token in range(target_vocab):
            piece = b"" if token in self._target.special_ids else self._target.token_bytes(token)
            if piece:
                by_bytes.setdefault(piece, token)
        return by_bytes

    def _columns(self, pieces: Sequence[bytes], target_vocab: int) -> tuple[list[int], list[int]]:
        counts_for = [_longest(piece, self._by_bytes) for piece in pieces]
        for token in sorted(self._target.special_ids, reverse=True):  # of several that mean one id, the first
            for own in self._specials.get(token, ()):
                if token < target_vocab and own < len(counts_for):
                    counts_for[own] = token
        token_ids = sorted({token for token in counts_for if token != NONE})
        place = {token: column for column, token in enumerate(token_ids)}
        return token_ids, [place.get(token, NONE) for token in counts_for]


def _longest(piece: bytes, by_bytes: dict[bytes, int]) -> int:
    """The token with the most of a piece's first bytes."""
    for length in range(len(piece), 0, -1):
        token = by_bytes.get(piece[:length])
        if token is not None:
            return token
    return NONE


def _runs(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """Text, and the bytes behind it that are none, again and again."""
    while raw:
        try:
            yield raw.decode(), b""
            return
        except UnicodeDecodeError as error:
            yield raw[: error.start].decode(), raw[error.start : error.end]
            raw = raw[error.end :]
