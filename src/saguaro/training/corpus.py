"""Texts and laws in memory, cut to pieces that fit, packed into rows of one length, and handed out as batches.

A text longer than a row is cut: pieces keep their positions but do not see what was before them. Which texts share a
row and the order of rows in each epoch are functions of the seed. Letters: B rows, T tokens of a row, R positions that
are learnt, K kept tokens of a law. Must not know: models, optimisers. Tests: tests/training/test_corpus.py.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file

from saguaro.training.laws import law_path
from saguaro.training.loss import Laws
from saguaro.training.texts import Text, path_of, read

PART = 8192
"""Laws looked at together."""
OPEN_ROWS = 16
"""Rows that are filled at a time: a piece goes into the first one that has room."""


@dataclass(frozen=True)
class Piece:
    """Tokens begin ... end - 1 of a text; positions first ... end - 1 of it that have laws are learnt, `count` of them,
    the first being law `law` of the corpus.
    """

    text: int
    begin: int
    end: int
    first: int
    count: int
    law: int


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of packed pieces. `wanted_R` are places in the flattened (B * T); `laws_R` the laws there."""

    tokens_BT: torch.Tensor
    positions_BT: torch.Tensor
    text_BT: torch.Tensor
    wanted_R: torch.Tensor
    laws_R: torch.Tensor


class Corpus:
    """All texts of some shards with their laws.

    Args:
        folder: of the shards.
        names: which of them.

    Attributes:
        states_PH: the target's last states at every position (`laws.unit`), where all shards have them.
    """

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.texts: list[Text] = [text for name in names for text in read(path_of(folder, name))]
        laws = [load_file(law_path(folder, name)) for name in names]
        self.ids_PK, self._log_p_PK, self._rest_P, self._own_P = (
            torch.cat([each[field] for each in laws]) for field in ("ids", "log_p", "rest", "own")
        )
        kept = [each["states"] for each in laws if "states" in each]
        self.states_PH = torch.cat(kept) if len(kept) == len(laws) else None
        self.counts = [len(text.tokens) - text.start for text in self.texts]
        self.following_P = torch.tensor([token for text in self.texts for token in text.tokens[text.start :]])

    @property
    def num_positions(self) -> int:
        """Positions with a law."""
        return len(self.following_P)

    def laws(self, laws_R: torch.Tensor, column_V: torch.Tensor) -> Laws:
        """Some of the laws over a draft's columns.

        Args:
            laws_R: which.
            column_V: the draft's column of each of the target's tokens, -1 for none.
        """
        p_RK = self._log_p_PK[laws_R].float().exp()
        rest_R = self._rest_P[laws_R]
        whole_R = p_RK.sum(-1) + rest_R  # 1 but for the rounding of what is kept
        return Laws(
            columns_RK=column_V[self.ids_PK[laws_R].long()],
            p_RK=p_RK / whole_R[:, None],
            rest_R=rest_R / whole_R,
            own_R=column_V[self.following_P[laws_R]],
            p_own_R=self._own_P[laws_R].exp(),
        )

    def mass_by_token(self, vocab: int) -> torch.Tensor:
        """The mass that the laws give each token (V), float64."""
        mass_V = torch.zeros(vocab, dtype=torch.float64)
        for ids_PK, log_p_PK in zip(self.ids_PK.split(PART), self._log_p_PK.split(PART), strict=True):
            mass_V.index_add_(0, ids_PK.flatten().long(), log_p_PK.double().exp().flatten())
        return mass_V


class Rows:
    """A corpus packed into rows of `length` tokens; `seed` None keeps the order of the texts."""

    def __init__(self, corpus: Corpus, *, length: int, seed: int | None) -> None:
        self.corpus = corpus
        self._length = length
        self._seed = seed
        pieces, law = [], 0
        for number, (text, count) in enumerate(zip(corpus.texts, corpus.counts, strict=True)):
            pieces += cut(number, text, length=length, law=law)
            law += count
        if seed is not None:
            random.Random(f"pack/{seed}").shuffle(pieces)
        self.rows = _filled(pieces, length)

    def batches(self, epoch: int, rows_a_batch: int) -> list[list[int]]:
        """Numbers of the rows of each batch of an epoch."""
        order = list(range(len(self.rows)))
        if self._seed is not None:
            random.Random(f"epoch/{self._seed}/{epoch}").shuffle(order)
        return [order[begin : begin + rows_a_batch] for begin in range(0, len(order), rows_a_batch)]

    def batch(self, numbers: Sequence[int]) -> Batch:
        """Some of the rows, cut to the longest one."""
        chosen = [self.rows[number] for number in numbers]
        width = max(sum(piece.end - piece.begin for piece in row) for row in chosen)
        tokens, positions = (torch.zeros(len(chosen), width, dtype=torch.int64) for _ in range(2))
        text = torch.full((len(chosen), width), -1, dtype=torch.int64)
        wanted: list[int] = []
        laws: list[int] = []
        for place, row in enumerate(chosen):
            at = 0
            for number, piece in enumerate(row):
                size = piece.end - piece.begin
                tokens[place, at : at + size] = torch.tensor(
                    self.corpus.texts[piece.text].tokens[piece.begin : piece.end]
                )
                positions[place, at : at + size] = torch.arange(piece.begin, piece.end)
                text[place, at : at + size] = number
                start = place * width + at + piece.first - piece.begin
                wanted += range(start, start + piece.count)
                laws += range(piece.law, piece.law + piece.count)
                at += size
        return Batch(tokens, positions, text, torch.tensor(wanted), torch.tensor(laws))


def cut(number: int, text: Text, *, length: int, law: int) -> list[Piece]:
    """A text in pieces of at most `length` tokens that together learn every position; `law` is its first one.

    The last token is never run: nothing is learnt behind it. Of a long prompt the last half row is kept.
    """
    end, first = len(text.tokens) - 1, text.start - 1
    begin = 0 if end <= length else max(0, min(first, text.start - length // 2))
    found = []
    while begin < end:
        stop = min(end, begin + length)
        learnt = max(first, begin)
        found.append(Piece(number, begin, stop, learnt, stop - learnt, law + learnt - first))
        begin = stop
    return found


def _filled(pieces: Sequence[Piece], length: int) -> list[list[Piece]]:
    """Pieces in rows: each goes into the first open row with room."""
    done: list[list[Piece]] = []
    open_: list[tuple[list[Piece], int]] = []
    for piece in pieces:
        size = piece.end - piece.begin
        for place, (row, room) in enumerate(open_):
            if size <= room:
                row.append(piece)
                open_[place] = (row, room - size)
                break
        else:
            row = [piece]
            done.append(row)
            open_.append((row, length - size))
            if len(open_) > OPEN_ROWS:
                open_.remove(min(open_, key=lambda entry: entry[1]))
    return done
