"""Jobs, cuts, and what is kept of a law."""

import pytest
import torch
from tests.training.conftest import TARGET

from saguaro.models.build import build_model, make_ops
from saguaro.models.checkpoint import open_checkpoint
from saguaro.training.laws import Reader, laws_of, likeliest
from saguaro.training.texts import SHARD, Text, pieces, plan_jobs, shards_of


@pytest.fixture(scope="module")
def model():
    return build_model(open_checkpoint(TARGET), make_ops("native", "float32"))


def test_jobs_are_a_function_of_the_seed():
    jobs = plan_jobs([[1], [2]], (0.0, 1.0), samples=3, seed=4)
    assert len(jobs) == 2 * (1 + 3)
    assert len({job.seed for job in jobs}) == len(jobs)
    assert jobs == plan_jobs([[1], [2]], (0.0, 1.0), samples=3, seed=4)
    assert jobs != plan_jobs([[1], [2]], (0.0, 1.0), samples=3, seed=5)


def test_a_long_text_is_cut():
    assert [text.tokens for text in pieces(range(9), 4)] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert [len(items) for items in shards_of([Text((1, 2), 1)] * (SHARD + 1))] == [SHARD, 1]


@pytest.mark.parametrize("k", [5, 48])
def test_a_law_is_its_likeliest_tokens_and_the_rest(model, k):
    texts = [Text((1, 2, 3, 4, 5, 6, 7, 8, 9, 10), 4), Text((3, 4), 1)]
    found = laws_of(Reader(model), texts, k)
    logits = torch.cat([Reader(model).logits(text) for text in texts])
    p = logits.softmax(-1)
    assert logits.shape == (7, 48)
    torch.testing.assert_close(found["log_p"].float().exp(), p.topk(k).values, rtol=4e-3, atol=1e-6)
    assert torch.equal(found["ids"].long(), p.topk(k).indices)
    torch.testing.assert_close(found["rest"], 1 - p.topk(k).values.sum(-1), rtol=0, atol=1e-6)
    following = torch.tensor([5, 6, 7, 8, 9, 10, 4])
    torch.testing.assert_close(found["own"], p.gather(1, following[:, None])[:, 0].log())


def test_a_law_does_not_depend_on_how_the_text_is_run(model, monkeypatch):
    text = Text(tuple(range(1, 31)), 12)
    whole = Reader(model).logits(text)
    monkeypatch.setattr("saguaro.training.laws.CHUNK", 7)
    assert torch.equal(Reader(model).logits(text), whole)


def test_laws_of_a_table_model_are_the_table():
    model = build_model(open_checkpoint("toy:markov?seed=1&vocab=16"), make_ops("native", "float32"))
    found = Reader(model).logits(Text((3, 9, 4), 1))
    expected = torch.stack([model.logits_after(model.context_key([token])) for token in (3, 9)])
    assert torch.equal(found, expected)


@pytest.mark.parametrize(("vocab", "k"), [(64 * 40, 8), (64 * 40, 11), (100, 8)])
def test_the_likeliest_are_found_by_columns(vocab, k):
    logits = torch.randn(5, vocab, generator=torch.Generator().manual_seed(vocab + k))
    logits[0, :6] = 9.0 + torch.arange(6)  # several of one block, and of one column below
    logits[1, 3::40] += 5.0
    values, ids = likeliest(logits, k)
    expected = logits.topk(k, dim=-1)
    assert torch.equal(values, expected.values)
    assert torch.equal(ids, expected.indices)
