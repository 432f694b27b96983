"""Where a text has ended like this before: one look-up a question, constant time a token (Section 4.3, `ngram`).

`SuffixIndex` holds the text of one row, `Corpus` the outputs of earlier requests in bounded memory. The places after
every run of one to four tokens are kept in a dictionary, about half a kilobyte a token.
Must not know: models, requests, proposals. Tests: tests/algorithm/test_suffix_index.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

LONGEST_SUFFIX = 4
END = -1
"""Stands between two documents; no token id."""


class Match(NamedTuple):
    """`size` tokens of the suffix occur in a text; `place` is where what follows them starts. Size 0 is no match."""

    size: int
    place: int


NO_MATCH = Match(0, 0)


class SuffixIndex:
    """A growing text, and for each run of up to four of its tokens the place after its latest occurrence."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._start = 0
        self._places: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._tokens)

    def extend(self, tokens: Iterable[int]) -> None:
        """More tokens of the text. A run is known once something follows it, so the end itself is never found."""
        text, places = self._tokens, self._places
        for token in tokens:
            end, key = len(text), 0
            for size in range(1, min(LONGEST_SUFFIX, end - self._start) + 1):
                key = key << 32 | (text[end - size] + 1)  # plus one: keys of different sizes are different numbers
                places[key] = end
            text.append(token)

    def end_document(self) -> None:
        """What comes next does not follow from what was there."""
        self._tokens.append(END)
        self._start = len(self._tokens)

    def longest(self, suffix: Sequence[int]) -> Match:
        """The longest run of up to four tokens at the end of `suffix` that has occurred, at its latest occurrence."""
        key, found = 0, NO_MATCH
        for size in range(1, min(LONGEST_SUFFIX, len(suffix)) + 1):
            key = key << 32 | (suffix[-size] + 1)
            place = self._places.get(key)
            if place is None:
                break
            found = Match(size, place)
        return found

    @property
    def end(self) -> Sequence[int]:
        """The last tokens, as many as count for a look-up."""
        return self._tokens[max(self._start, len(self._tokens) - LONGEST_SUFFIX) :]

    def longest_of_end(self) -> Match:
        """The same for the end of the text itself."""
        return self.longest(self.end)

    def following(self, place: int, count: int) -> tuple[int, ...]:
        """Up to `count` tokens from `place` on, to the end of the document.

        Where the text itself ends, it goes on as it went on from `place`: a text that repeats itself is continued.
        """
        found: list[int] = []
        for at in range(place, place + count):
            token = self._tokens[at] if at < len(self._tokens) else found[at - len(self._tokens)]
            if token == END:
                break
            found.append(token)
        return tuple(found)


class Corpus:
    """The latest documents, `room` tokens at most: half of them are forgotten at a time."""

    def __init__(self, room: int) -> None:
        self._half = max(1, room // 2)
        self._new, self._old = SuffixIndex(), SuffixIndex()

    def __len__(self) -> int:
        return len(self._new) + len(self._old)

    def add(self, document: Sequence[int]) -> None:
        """A finished output; of a long one the end is kept."""
        kept = document[max(0, len(document) - self._half + 1) :]
        if len(self._new) + len(kept) + 1 > self._half:
            self._old, self._new = self._new, SuffixIndex()
        self._new.extend(kept)
        self._new.end_document()

    def longest(self, suffix: Sequence[int], count: int) -> tuple[int, tuple[int, ...]]:
        """The size of the longest match, the newer of equal ones, and up to `count` tokens that followed it."""
        new, old = self._new.longest(suffix), self._old.longest(suffix)
        index, match = (self._new, new) if new.size >= old.size else (self._old, old)
        return match.size, index.following(match.place, count) if match.size else ()
