"""Text from tokens as they come: never half a character, and stop strings found across token borders.

A token of a byte-level vocabulary is a piece of UTF-8 that may begin or end inside a character, so bytes are kept until
a character is complete, also across the border of an accepted run. Nothing is "cleaned up": no space is dropped before
punctuation, whatever `clean_up_tokenization_spaces` says. Feeding a run token by token or at once gives the same text.
Must not know: models, requests, tensors. Tests: tests/models/test_text.py.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from typing import Protocol

from saguaro.errors import RequestRefused


def utf8(text: str) -> bytes:
    """The bytes of a text.

    Raises:
        RequestRefused: the string is no text: it holds half of a surrogate pair.
    """
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RequestRefused(f"the text is not valid Unicode at character {error.start}.") from error


class TokenBytes(Protocol):
    """What a detokeniser needs of a tokenizer: the bytes of a token, and which tokens are special."""

    special_ids: frozenset[int]

    def token_bytes(self, token: int) -> bytes:
        """The UTF-8 piece that `token` stands for; empty for padding."""
        ...


class Detokeniser:
    """Turns a growing list of tokens into text, whole characters only.

    Bytes that can never become a character turn into U+FFFD at once, so that no more than three bytes are ever held; a
    character that the end cuts in half becomes one U+FFFD in `finish`. The concatenation of all pieces equals the
    decoding of all tokens at once.

    Args:
        tokenizer: gives the bytes of a token.
        skip_special: leave special tokens (not merely added ones: `<tool_call>` stays) out of the text.
    """

    def __init__(self, tokenizer: TokenBytes, *, skip_special: bool = True) -> None:
        self._tokenizer = tokenizer
        self._skipped = tokenizer.special_ids if skip_special else frozenset()
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, ids: Iterable[int]) -> str:
        """Add tokens; return the text that is complete now (possibly empty)."""
        piece = b"".join(self._tokenizer.token_bytes(token) for token in ids if token not in self._skipped)
        return self._decoder.decode(piece)

    def finish(self) -> str:
        """The rest: one replacement mark if the tokens ended inside a character, else nothing."""
        return self._decoder.decode(b"", final=True)


class StopStrings:
    """Finds the first stop string in a growing text and holds back what may still become one.

    The result does not depend on how the text is cut into pieces: the stop that is complete first counts, and of
    several that end at the same character the one that begins first.

    Args:
        stops: strings that end the text before them; none of them empty.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> tuple[str, bool]:
        """Add text; return what may be shown now, and whether a stop string is complete.

        Once that is so the shown text ends before it, and later calls return nothing more.
        """
        if self.stopped:
            return "", True
        buffer = self._held + text
        found = [(start + len(stop), start) for stop in self._stops if (start := buffer.find(stop)) >= 0]
        if found:
            self.stopped, self._held = True, ""
            return buffer[: min(found)[1]], True
        keep = self._longest_beginning(buffer)
        self._held = buffer[len(buffer) - keep :]
        return buffer[: len(buffer) - keep], False

    def finish(self) -> str:
        """The held text, when the end came and no stop string was completed."""
        held, self._held = self._held, ""
        return held

    def _longest_beginning(self, buffer: str) -> int:
        """Length of the longest end of `buffer` that begins, but does not complete, a stop string."""
        longest = max((len(stop) for stop in self._stops), default=1) - 1
        for length in range(min(longest, len(buffer)), 0, -1):
            tail = buffer[-length:]
            if any(stop.startswith(tail) for stop in self._stops):
                return length
        return 0
