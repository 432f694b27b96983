"""Which tokens the short head of a draft holds: some for good, and spare columns that follow what is said.

A vocabulary numbers its tokens by merge rank, so its first ids are the frequent ones; the rarer tokens that a text
needs are mostly those of its prompt, and those that it has already used (docs/log.md, 2026-11-30). So the head keeps
the first ids and the ids that end a text, and has spare columns: an id that is expected and not there takes the spare
column whose own has not been expected for longest. Books only: no weights. Must not know: rows, rounds, models.
Tests: tests/drafting/test_shortlist.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from saguaro.errors import ConfigError

SIZE = 40960
"""Columns of a head that is cut down, where the user does not say."""
SPARE = 2048
"""So many of them, at most an eighth, are spare."""


def first_ids(size: int, *, vocab: int, spare: int | None, always: Iterable[int]) -> tuple[list[int], int]:
    """The tokens of a head of `size` columns when it starts, and how many of them stay for good.

    Args:
        size: columns, below `vocab`.
        vocab: ids that exist.
        spare: columns that will change; by default SPARE, at most an eighth.
        always: ids that stay whatever their number, for example those that end a text.

    Returns:
        `size` different ids, those that stay first; the spare columns begin with the ids that come next.

    Raises:
        ConfigError: sizes that cannot be.
    """
    if size < 1:
        raise ConfigError(f"a shortlist has at least 1 token, not {size}.")
    if spare is None:
        spare = min(SPARE, size // 8)
    if not 0 <= spare < size:
        raise ConfigError(f"of a shortlist of {size} tokens 0 ... {size - 1} can be spare, not {spare}.")
    kept = dict.fromkeys(sorted(token for token in always if 0 <= token < vocab)[: size - spare])
    ids = list(kept) + [token for token in range(min(vocab, size + len(kept))) if token not in kept]
    return ids[:size], size - spare


class ColumnBook:
    """Which token has which column.

    Args:
        ids: token of each column.
        fixed: the first so many columns never change.
        vocab: ids from here on are not taken.
    """

    def __init__(self, ids: Sequence[int], fixed: int, *, vocab: int) -> None:
        self._fixed = frozenset(ids[:fixed])
        self._vocab = vocab
        self._column = {token: fixed + place for place, token in enumerate(ids[fixed:])}  # oldest first

    def expect(self, tokens: Iterable[int]) -> dict[int, int]:
        """Tokens that are likely to come, the surest last: those that are there stay longest, the others get a
        spare column. With more of them than there are columns, the last ones get theirs.

        Returns:
            Column to token, for every column whose token changes.
        """
        newest = dict.fromkeys(reversed(list(tokens)))
        wanted = [token for token in newest if token not in self._fixed and 0 <= token < self._vocab]
        wanted = wanted[: len(self._column)][::-1]
        columns = {token: self._column.pop(token) for token in wanted if token in self._column}
        changed = {}
        for token in wanted:
            if token not in columns:
                oldest = next(iter(self._column))
                columns[token] = self._column.pop(oldest)
                changed[columns[token]] = token
        self._column |= {token: columns[token] for token in wanted}
        return changed
