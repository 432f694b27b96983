"""Whether what a text suggests to come next is worth a row of the draft's pass: beyond the paper.

A hint is a token that has followed the like of a text's end earlier in the text. The draft runs it in the pass that
draws the token before it; where that token is the hint, one pass has drawn two tokens. How often hints are right is
learnt, by how many tokens matched. Must not know: models, channels, clocks, books of a draft.
Tests: tests/algorithm/test_hints.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from saguaro.algorithm.suffix_index import LONGEST_SUFFIX, SuffixIndex

MOST = 3
"""Hints after one token."""
DOUBT, DOUBTED = 0.5, 8
"""How often hints are right before any was seen, and how many seen ones that counts for."""
MEMORY = 200
LATEST = 0.05
"""What the latest pass counts in the mean of the tokens that a pass gives."""
ROW_SHARE = 0.12
"""Time of one row more, in passes, where no clock may be asked: that of an int4 draft."""


class HintOdds:
    """How often hints after a match of each size have been right lately."""

    def __init__(self) -> None:
        self._chances = [DOUBT] * (LONGEST_SUFFIX + 1)
        self._seen = [DOUBTED] * (LONGEST_SUFFIX + 1)

    def chance(self, size: int) -> float:
        """Of a hint after a match of so many tokens."""
        return self._chances[min(size, LONGEST_SUFFIX)]

    def saw(self, size: int, *, right: bool) -> None:
        """A token was drawn where a match of `size` had suggested one."""
        size = min(size, LONGEST_SUFFIX)
        self._seen[size] = seen = min(self._seen[size] + 1, MEMORY)
        self._chances[size] += (right - self._chances[size]) / seen

    def worthwhile(self, size: int, worth: float, rows: int, seconds: Callable[[int], float] | None) -> int:
        """How many hints in a row are worth their time: at most `MOST`.

        Args:
            size: of the match.
            worth: probability that the token before them will be asked for.
            rows: of the pass so far.
            seconds: of a pass by its rows; None where no clock may be asked.
        """
        count = 0
        while count < MOST:
            worth *= self.chance(size + count)
            share = ROW_SHARE if seconds is None else seconds(rows + count + 1) / seconds(rows + count) - 1
            if worth <= share:
                break
            count += 1
        return count


def hint_places(prompt: Sequence[int], output: Sequence[int]) -> list[tuple[int, int]]:
    """What a text would have suggested before each of its tokens but the first: the size of the match (0 is none), and
    how many of the next `MOST` tokens were as suggested.
    """
    index = SuffixIndex()
    index.extend([*prompt, *output[:1]])
    found = []
    for place in range(1, len(output)):
        end = [*prompt[-LONGEST_SUFFIX:], *output[:place]][-LONGEST_SUFFIX:]
        match = index.longest(end)
        right = 0
        if match.size:
            suggested = index.following(match.place, MOST)
            same = (hint == own for hint, own in zip(suggested, output[place:], strict=False))
            right = sum(1 for _ in takewhile(bool, same))
        found.append((match.size, right))
        index.extend([output[place]])
    return found
