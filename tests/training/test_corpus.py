"""Packing loses no position and gives each its own law; the draft's vocabulary and its map."""

import pytest
import torch
from safetensors.torch import save_file

from saguaro.training.corpus import Corpus, Rows, cut
from saguaro.training.draft_vocabulary import columns, d2t, likeliest
from saguaro.training.laws import law_path
from saguaro.training.texts import Text, path_of, save

LENGTHS = [(5, 2), (40, 30), (12, 1), (3, 2), (33, 5), (16, 8)]


@pytest.fixture
def corpus(tmp_path):
    """Laws that name their own place: the first kept token of law i is i."""
    texts = [Text(tuple(range(100 * n, 100 * n + length)), start) for n, (length, start) in enumerate(LENGTHS)]
    save(path_of(tmp_path, "a"), texts[:4])
    save(path_of(tmp_path, "b"), texts[4:])
    at = 0
    for name, part in (("a", texts[:4]), ("b", texts[4:])):
        count = sum(len(text.tokens) - text.start for text in part)
        ids = torch.stack([torch.arange(at, at + count), torch.full((count,), 999)], dim=1).int()
        laws = {"ids": ids, "log_p": torch.tensor([[0.75, 0.125]]).log().half().repeat(count, 1)}
        laws |= {"rest": torch.full((count,), 0.125), "own": torch.full((count,), -1.0)}
        save_file(laws, law_path(tmp_path, name))
        at += count
    return Corpus(tmp_path, ["a", "b"])


@pytest.mark.parametrize("seed", [None, 0, 7])
def test_every_position_is_learnt_once_from_its_own_law(corpus, seed):
    rows = Rows(corpus, length=16, seed=seed)
    learnt = []
    for numbers in rows.batches(3, 2):
        batch = rows.batch(numbers)
        assert batch.tokens_BT.shape[1] <= 16
        tokens, positions = batch.tokens_BT.flatten()[batch.wanted_R], batch.positions_BT.flatten()[batch.wanted_R]
        assert torch.equal(tokens % 100, positions)
        assert torch.equal(corpus.following_P[batch.laws_R], tokens + 1), "the law is that of the token that follows"
        assert (batch.text_BT.flatten()[batch.wanted_R] >= 0).all()
        learnt += batch.laws_R.tolist()
    assert sorted(learnt) == list(range(corpus.num_positions))
    assert corpus.num_positions == sum(length - start for length, start in LENGTHS)


def test_rows_are_filled_and_their_order_is_a_function_of_seed_and_epoch(corpus):
    rows = [Rows(corpus, length=64, seed=seed) for seed in (1, 1, 2)]
    used = sum(length - 1 for length, _ in LENGTHS)
    assert len(rows[0].rows) <= 1 + used // 32
    assert rows[0].rows == rows[1].rows != rows[2].rows
    small = Rows(corpus, length=16, seed=1)
    assert small.batches(0, 1) == small.batches(0, 1) != small.batches(1, 1)


def test_a_long_prompt_keeps_its_end():
    found = cut(0, Text(tuple(range(50)), 40), length=16, law=100)
    assert [(piece.begin, piece.end) for piece in found] == [(32, 48), (48, 49)]
    assert [(piece.first, piece.count, piece.law) for piece in found] == [(39, 9, 100), (48, 1, 109)]


def test_laws_are_brought_to_the_sum_one(corpus):
    laws = corpus.laws(torch.tensor([3, 5]), columns(None, target_vocab=1000, draft_vocab=1000))
    torch.testing.assert_close(laws.p_RK.sum(-1) + laws.rest_R, torch.ones(2))
    assert laws.columns_RK[:, 0].tolist() == [3, 5]


def test_the_draft_has_the_likeliest_tokens_and_the_stop_ids():
    mass = torch.tensor([0.0, 5, 1, 1, 0, 9], dtype=torch.float64)
    ids = likeliest(mass, 4, always={0})
    assert ids.tolist() == [0, 1, 2, 5]
    assert (torch.arange(4) + d2t(ids)).tolist() == ids.tolist()
    assert columns(ids, target_vocab=6, draft_vocab=6).tolist() == [0, 1, 2, -1, -1, 3]


def test_a_draft_with_fewer_rows_than_the_target_lacks_the_last_tokens():
    assert columns(None, target_vocab=5, draft_vocab=3).tolist() == [0, 1, 2, -1, -1]
    assert columns(None, target_vocab=3, draft_vocab=5).tolist() == [0, 1, 2]


def test_mass_by_token(corpus):
    mass = corpus.mass_by_token(1000)
    assert float(mass[4]) == pytest.approx(0.75, rel=1e-3)
    assert float(mass[999]) == pytest.approx(0.125 * corpus.num_positions, rel=1e-3)
