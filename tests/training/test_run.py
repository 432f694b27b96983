"""Whole distillations of toys: what is learnt, going on after a stop, and the draft in the engine."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from tests.training.conftest import DATA, ENGINE, TARGET, TRAIN, Heard, ask

from saguaro import LLM, SamplingParams
from saguaro.errors import ConfigError
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.vocabulary import compare
from saguaro.training.corpus import Corpus, Rows
from saguaro.training.folder import DATA as DATA_STAGE
from saguaro.training.folder import TRAIN as TRAIN_STAGE
from saguaro.training.run import distil
from saguaro.training.student import Student
from saguaro.training.texts import path_of, read


def first(point, temperature) -> float:
    return point[f"temperature_{temperature}"]["by_position"][0]


def nobody(*_):
    raise AssertionError("the target is not needed")


def test_acceptance_rises(made):
    _, heard, record = made
    before, after = record["curve"][0], record["curve"][-1]
    assert first(after, 0) > first(before, 0) + 0.08
    assert first(after, 1) > first(before, 1) + 0.09
    assert heard.losses[-1] < 0.75 * heard.losses[0]
    assert len(heard.points) == len(record["curve"]) == 1 + 7 + 1
    assert [point["step"] for point in record["curve"]] == [0, 5, 10, 15, 20, 25, 30, 35, 40]


def test_outputs_end_where_the_target_ends_them(made):
    asked, _, record = made
    stops = asked.target.config.stop_ids
    texts = read(path_of(asked.work.path, "00000"))
    assert any(text.tokens[-1] in stops for text in texts)
    assert not any(set(text.tokens[text.start : -1]) & stops for text in texts)
    assert record["data"]["texts"] == 120


def test_the_directory_is_a_checkpoint_with_a_card(made):
    asked, _, record = made
    draft = open_checkpoint(str(asked.out))
    assert draft.config.num_layers == 1
    assert draft.config.stop_ids == asked.target.config.stop_ids
    assert compare(asked.target.signature(), draft.signature()) is None
    draft.weights()
    card = (asked.out / "README.md").read_text("utf-8")
    assert f"{first(record['curve'][-1], 0):.3f}" in card
    assert record["command"] in card
    assert json.loads((asked.out / "training.json").read_text("utf-8")) == record


def test_the_draft_is_exact_in_the_engine(made):
    asked, _, _ = made
    params = SamplingParams(temperature=0.7, seed=3, max_tokens=12, ignore_eos=True)
    prompts = [[41, 3, 5], [41, 9, 5, 2]]
    sizes = {"lookahead": 3, "pacing": "lockstep", "fan_out": "uniform"}
    found = {}
    for mode in ("ar", "sd", "ssd"):
        more = {} if mode == "ar" else {"draft": str(asked.out), **sizes}
        with LLM(TARGET, **{**ENGINE, "mode": mode, **more}) as llm:
            outputs = llm.generate(prompts, params)
        found[mode] = [output.token_ids for output in outputs]
        accepted = sum(output.metrics.accepted for output in outputs)
        assert (accepted > 0) == (mode != "ar")
    assert found["sd"] == found["ssd"] == found["ar"]


def test_a_stopped_run_goes_on_to_bitwise_the_same_draft(made, tmp_path, monkeypatch):
    whole, _, record = made
    asked = ask(tmp_path)
    for path in whole.work.path.glob("*-*.safetensors"):
        (asked.work.path / path.name).write_bytes(path.read_bytes())
    heard = Heard(stop_after=13)
    monkeypatch.setattr("saguaro.training.run.load", nobody)
    assert distil(asked, heard, should_stop=heard.should_stop) is None
    assert not asked.out.exists()
    heard = Heard(stop_after=9)
    assert distil(asked, heard, should_stop=heard.should_stop) is None
    found = distil(asked, heard := Heard())
    assert len(heard.losses) == 40 - 13 - 9
    assert [first(point, 1) for point in found["curve"]] == [first(point, 1) for point in record["curve"]]
    expected, tensors = (load_file(each.out / "model.safetensors") for each in (whole, asked))
    assert all((tensors[name] == value).all() for name, value in expected.items())
    assert tensors.keys() == expected.keys()


def test_a_table_model_teaches_a_decoder_with_a_vocabulary_of_its_own(tmp_path):
    target, source = "toy:markov?seed=2&vocab=24&scale=3", "toy:llama?vocab=24&layers=1&hidden=32&ffn=64"
    train = replace(TRAIN, draft_vocab=16, trained="head", steps=30, lr=1e-2, stored="bfloat16")
    prompts = [[1 + i % 23] for i in range(60)]
    asked = ask(
        tmp_path, target=target, source=source, train=train, data=replace(DATA, max_tokens=8, held_out=2),
        prompts=prompts, held_out=[[3], [7]], own_text=[1 + i * i % 23 for i in range(70)],
    )  # fmt: skip
    record = distil(asked, Heard())
    assert first(record["curve"][-1], 1) > first(record["curve"][0], 1) + 0.2
    assert record["data"]["own_texts"] == 3
    tensors, config = load_file(asked.out / "model.safetensors"), json.loads((asked.out / "config.json").read_text())
    assert tensors["lm_head.weight"].shape == (16, 32)
    assert tensors["model.embed_tokens.weight"].shape == (24, 32)
    assert (config["draft_vocab_size"], config["vocab_size"], config["tie_word_embeddings"]) == (16, 24, False)
    ids = (tensors["d2t"] + range_like(tensors["d2t"])).tolist()
    assert str(tensors["d2t"].dtype) == "torch.int64"
    assert ids == sorted(set(ids))
    assert asked.target.config.stop_ids <= set(ids) <= set(range(24))


def range_like(tensor):
    return tensor.new_tensor(list(range(len(tensor))))


def test_minutes_end_a_run(made, tmp_path, monkeypatch):
    """Time stands still but for the steps: each takes a tenth of what is left for the training."""
    whole, _, _ = made
    train = replace(TRAIN, steps=None, minutes=10.0)
    asked = ask(tmp_path, train=train)
    for path in whole.work.path.glob("*-*.safetensors"):
        (asked.work.path / path.name).write_bytes(path.read_bytes())
    heard = Heard()
    monkeypatch.setattr("saguaro.training.run.Training", ticking(heard, seconds=60.0))
    assert distil(asked, heard) is not None
    assert len(heard.losses) == 10
    assert len(heard.points) == 1 + 7 + 1


def ticking(heard, *, seconds):
    from saguaro.training.loop import Training

    return lambda *given, **named: Training(*given, **named, clock=lambda: seconds * len(heard.losses))


def test_other_settings_do_not_lose_what_was_made(made):
    asked, _, _ = made
    with pytest.raises(ConfigError, match=r"lr.*--retrain"):
        distil(replace(asked, train=replace(TRAIN, lr=1e-3)), Heard())
    with pytest.raises(ConfigError, match=r"max_tokens.*--fresh"):
        distil(replace(asked, data=replace(DATA, max_tokens=9)), Heard())
    assert asked.work.read(DATA_STAGE) is not None


def test_nothing_else_is_written_over(made, tmp_path):
    asked, _, _ = made
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="something else"):
        distil(replace(asked, out=tmp_path), Heard())
    with pytest.raises(ConfigError, match="is a file"):
        distil(replace(asked, out=tmp_path / "notes.txt"), Heard())
    with pytest.raises(ConfigError, match="make it first"):
        distil(replace(asked, out=tmp_path / "no" / "draft"), Heard())


@pytest.fixture(scope="module")
def borrowing(made, tmp_path_factory):
    """A draft without embedding and head, trained on some rows of the head at a time."""
    whole, _, _ = made
    folder = tmp_path_factory.mktemp("borrowing")
    asked = ask(folder, train=replace(TRAIN, stored="int8", head_rows=24))
    for path in whole.work.path.glob("*-*.safetensors"):
        (asked.work.path / path.name).write_bytes(path.read_bytes())
    return asked, distil(asked, Heard())


def test_a_draft_that_borrows_its_embedding_learns_and_is_exact(borrowing):
    asked, record = borrowing
    assert first(record["curve"][-1], 1) > first(record["curve"][0], 1) + 0.1
    files = {path.name for path in asked.out.iterdir()}
    assert files == {"config.json", "model.safetensors", "training.json", "README.md"}
    params = SamplingParams(temperature=0.0, max_tokens=12, ignore_eos=True)
    found = {}
    for mode in ("ar", "sd"):
        more = {} if mode == "ar" else {"draft": str(asked.out), "lookahead": 3}
        with LLM(TARGET, **{**ENGINE, "mode": mode, **more}) as llm:
            [output] = llm.generate([[41, 3, 5]], params)
        found[mode] = output.token_ids
    assert found["sd"] == found["ar"]
    assert output.metrics.accepted > 0


def test_a_draft_that_borrows_fits_its_target_only(borrowing, tmp_path):
    asked, _ = borrowing
    other = TARGET.replace("seed=0", "seed=5")
    with pytest.raises(ConfigError, match="has another one"):
        LLM(other, **{**ENGINE, "mode": "sd", "draft": str(asked.out)})
    with pytest.raises(ConfigError, match="leaves the embedding to the target"):
        ask(tmp_path, source=other, train=replace(TRAIN, stored="int8"))


def test_states_of_the_target_are_imitated(tmp_path):
    """The last states of the student come nearer to the target's than by KL alone."""
    distances = []
    for weight in (0.0, 5.0):
        folder = tmp_path / str(weight)
        folder.mkdir()
        data = replace(DATA, max_tokens=8, keep_states=True)
        asked = ask(folder, data=data, train=replace(TRAIN, states=weight, steps=20))
        heard = Heard()
        assert distil(asked, heard) is not None
        rows = Rows(Corpus(asked.work.path, ["00000"]), length=32, seed=None)
        batch = rows.batch(range(len(rows.rows)))
        tensors = load_file(asked.out / "model.safetensors")
        student = Student(open_checkpoint(str(asked.out)).config, tensors)
        with torch.no_grad():
            hidden = student(batch.tokens_BT, batch.positions_BT, batch.text_BT).flatten(0, 1)[batch.wanted_R]
        wanted = rows.corpus.states_PH[batch.laws_R].float() * asked.target.weights().get("model.norm.weight")
        distances.append(float(((hidden - wanted).square().sum(-1) / wanted.square().sum(-1)).mean()))
    assert distances[1] < 0.9 * distances[0]


def test_fewer_texts_and_then_more(made, tmp_path):
    whole, _, _ = made
    counts = []
    for texts in (64, 65):
        asked = ask(tmp_path, train=replace(TRAIN, texts=texts, steps=1))
        asked.work.drop(TRAIN_STAGE)
        counts.append(distil(asked, Heard())["data"]["texts"])
    assert counts == [64, 120]
    for name in ("texts-00000", "laws-00001"):
        found, expected = (load_file(each.work.path / f"{name}.safetensors") for each in (asked, whole))
        assert all((found[key] == value).all() for key, value in expected.items())
