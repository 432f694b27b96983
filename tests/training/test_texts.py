"""Shards of texts and laws: jobs, cuts, what is kept of a law, and that nothing is made twice."""

import pytest
import torch
from tests.training.conftest import TARGET

from saguaro.models.build import build_model, make_ops
from saguaro.models.checkpoint import open_checkpoint
from saguaro.training.laws import Reader, laws_of, write_laws
from saguaro.training.texts import SHARD, Text, pieces, plan_jobs, read, shards_of, write_texts


@pytest.fixture(scope="module")
def model():
    return build_model(open_checkpoint(TARGET), make_ops("native", "float32"))


def nobody():
    raise AssertionError("the model is not needed")


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


def test_shards_that_are_there_are_not_made_again(tmp_path, model):
    counts = []
    own = [("00000", [Text((1, 2, 3), 1), Text((4, 5), 1)])]
    options = {"max_tokens": 4, "goes_on": lambda name: True, "on_shard": lambda *count: counts.append(count)}
    assert write_texts(tmp_path, own, nobody, **options) == ["00000"]
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert write_texts(tmp_path, own, nobody, **options) == ["00000"]
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    assert counts == [(2, 3), (2, 3)]
    assert read(tmp_path / "texts-00000.safetensors") == [Text((1, 2, 3), 1), Text((4, 5), 1)]
    laws = {"top_k": lambda name: 3, "on_shard": lambda count: None}
    assert write_laws(tmp_path, ["00000"], nobody, goes_on=lambda name: False, **laws) == []
    assert write_laws(tmp_path, ["00000"], lambda: model, goes_on=lambda name: True, **laws) == ["00000"]
    assert write_laws(tmp_path, ["00000"], nobody, goes_on=lambda name: False, **laws) == ["00000"]


def test_time_that_is_over_ends_it_before_the_next_shard(tmp_path):
    shards = [(name, [Text((1, 2), 1)]) for name in ("first", "second")]
    done = write_texts(
        tmp_path, shards, nobody, max_tokens=4, goes_on=lambda name: name == "first", on_shard=lambda *count: None
    )
    assert done == ["first"]
