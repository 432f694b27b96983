"""A head that learns: what it computes, how chains are counted, and a tiny one trained, written, loaded and run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.models.eagle3_heads import head_tensors
from tests.models.eagle3_reference import NaiveHead, normed, taps_of
from tests.training.conftest import ENGINE, TRAIN, Heard, ask

from saguaro import LLM, SamplingParams
from saguaro.config import EngineConfig
from saguaro.engine.resolve import resolve
from saguaro.errors import ConfigError
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.eagle3_checkpoint import read_config
from saguaro.training import head
from saguaro.training.corpus import Batch
from saguaro.training.curve import by_position
from saguaro.training.folder import TRAIN as STAGE
from saguaro.training.head import Lessons, by_step, chosen, first_tensors, head_config
from saguaro.training.head_student import HeadStudent, Window, texts_of
from saguaro.training.loss import Laws
from saguaro.training.run import _open_target, distil
from saguaro.training.settings import TrainSettings
from saguaro.training.start import check_head
from saguaro.training.taps import tap_path, write_taps

TARGET = "toy:llama?seed=3&vocab=24&layers=6&hidden=32&ffn=64&scale=6"
PROMPTS = [[1 + i % 20, 2 + i % 7, 3 + i % 11] for i in range(30)]
HELD_OUT = [[21, 1 + i, 5] for i in range(8)]
LONE: dict[str, Any] = {**ENGINE, "target_device": "cpu:0", "max_batch": 32}
TRAINING = replace(TRAIN, eagle3=True, own_states=4, measured_states=6, steps=40, batch_tokens=256, lr=5e-3)


@pytest.mark.parametrize("going_on", [None, [(7, 7, 11)], [(0, 2, 5), (7, 8, 11)], [(0, 4, 7), (0, 1, 3)]])
def test_the_student_computes_what_the_head_does(going_on: list[tuple[int, int, int]] | None) -> None:
    """Two texts in a row: each step of each chain is what pairs one after the other give, in windows that go on."""
    target = open_checkpoint(TARGET)
    tensors, config = head_tensors(target.config)
    embedding = target.weights().get("model.embed_tokens.weight")
    shapes = {name.replace("midlayer.", "model.layers.0."): tuple(value.shape) for name, value in tensors.items()}
    student = HeadStudent(read_config(config, shapes), tensors, embedding)
    texts, steps = [[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 5]], 4
    taps = [taps_of(TARGET, (2, 3, 3), text) for text in texts]
    with torch.no_grad():
        states = student(
            torch.tensor([[*texts[0], *texts[1]]]),
            torch.tensor([[*range(7), *range(4)]]),
            torch.tensor([[0] * 7 + [1] * 4]),
            torch.cat(taps)[None],
            steps=steps,
            going_on=None if going_on is None else [Window(*each) for each in going_on],
        )
    known = [dict(zip(p[e].tolist(), x[e], strict=True)) for p, x, e in states]
    windows = going_on or [(0, 0, 7), (7, 7, 11)]
    naive = NaiveHead(tensors, config, embedding)
    for text, own, at in zip(texts, taps, (0, 7), strict=True):
        for begin in range(1, len(text)):  # a chain that begins with this token
            naive.keys, naive.values = [], []
            for place in range(1, begin + 1):
                state = naive.pair(text[place], naive.fuse(own[place - 1]))
            for step in range(min(steps, len(text) - begin)):
                if step:
                    state = naive.pair(text[begin + step], state)
                place = at + begin + step
                there = any(first <= place < end and place - first >= step - 1 for _, first, end in windows)
                assert (place in known[step]) == (step == 0 or there)
                if place in known[step]:
                    wanted = normed(state, tensors["norm.weight"], naive.eps)
                    torch.testing.assert_close(known[step].pop(place), wanted, rtol=1e-4, atol=1e-4)
    assert not any(known), "nothing else is said to exist"


def test_positions_are_counted_as_chains_go() -> None:
    taken = torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0])
    same = taken.expand(6, 5)
    assert by_step(same, same, torch.ones(6, 5), [3, 2]) == by_position(taken, taken, [3, 2])
    later = torch.stack([taken, torch.zeros(5)])
    assert by_step(later, later, torch.ones(2, 5), [5]) == (0.8, 0.0)
    missing = torch.ones(2, 5)
    missing[:, 0] = 0
    assert by_step(later, later, missing, [5]) == (0.75, 0.0)


class Copies:
    """A batch of one text several times, with its laws and taps, in place of a corpus."""

    def __init__(self, count: int, *, vocab: int, width: int) -> None:
        generator = torch.Generator().manual_seed(5)
        tokens, length = torch.randint(vocab, (7,), generator=generator), 7
        self.corpus = self
        self._taps = torch.randn(length, width, generator=generator).repeat(count, 1)
        self._p = torch.rand(length, 3, generator=generator).softmax(-1).mul(0.9)
        self._batch = Batch(
            tokens.repeat(count)[None],
            torch.arange(length).repeat(count)[None],
            torch.arange(count).repeat_interleave(length)[None],
            torch.arange(count * length),
            torch.arange(length).repeat(count),
        )

    def batch(self, *_: object) -> Any:
        """The rows, or their taps where rows are given, too."""
        return self._batch if len(_) == 1 else self._taps[None]

    def laws(self, laws_R: torch.Tensor, column_V: torch.Tensor) -> Laws:
        """Three tokens at each place."""
        p_RK, columns_RK = self._p[laws_R], column_V[(laws_R[:, None] + torch.arange(3)) % 20]
        return Laws(columns_RK, p_RK, 1 - p_RK.sum(-1), columns_RK[:, 0], p_RK[:, 0])


def test_windows_that_go_on_stand_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of the same text four times, in windows of whole texts: loss and gradients are those of all."""
    target = open_checkpoint(TARGET)
    config = head_config(target.config, draft_vocab=None)
    assert config.eagle3 is not None
    whole = [Window(7 * i, 7 * i, 7 * i + 7) for i in range(4)]
    monkeypatch.setattr(head, "chosen", lambda texts, wanted_R, share, key: whole[: int(4 * share)])
    found = []
    for share in (1.0, 0.5, 0.25):
        student = HeadStudent(
            config,
            first_tensors(target, config, draft_ids_N=None, seed=1),
            target.weights().get("model.embed_tokens.weight"),
        )
        rows: Any = Copies(4, vocab=24, width=config.eagle3.tap_width)
        lessons = Lessons(student, rows, rows, torch.arange(24), own_states=3, weight=0.8, share=share, seed=0)
        loss, count = lessons.learn(3, [0])
        assert count == 4 * 6  # the first place of a text has no pair
        found.append({"loss": torch.tensor(loss)} | {name: p.grad for name, p in student.trained().items()})
    for other in found[1:]:
        for name, value in found[0].items():
            torch.testing.assert_close(other[name], value, rtol=1e-4, atol=1e-6, msg=lambda m, n=name: f"{n}: {m}")


def test_every_learnt_place_goes_on_in_its_turn() -> None:
    texts = texts_of(torch.tensor([[0] * 150 + [1] * 90 + [-1] * 10, [0] * 250]))
    assert texts == [(0, 0, 150), (150, 150, 240), (240, 240, 250), (250, 250, 500)]
    wanted = torch.tensor([*range(20, 150), *range(160, 240), *range(260, 500)])
    counts = torch.zeros(500)
    for i in range(400):
        picked = chosen(texts, wanted, 0.2, f"key/{i}")
        total = sum(each.end - each.begin for each in picked)
        assert 0.2 * len(wanted) <= total < 0.2 * len(wanted) + 64
        for each in picked:
            assert each.text == max(text.begin for text in texts if text.begin <= each.begin)
            counts[each.begin : each.end] += 1
    assert counts[wanted].min() > 60
    assert counts.sum() == counts[wanted].sum(), "places that are not learnt"
    assert chosen(texts, wanted, 0.2, "key") == chosen(texts, wanted, 0.2, "key")
    assert len(chosen(texts, wanted, 1e-9, "key")) == 1


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, Any]]:
    asked = ask(
        tmp_path_factory.mktemp("head"), target=TARGET, prompts=PROMPTS, held_out=HELD_OUT, train=TRAINING,
        plan=resolve(EngineConfig.from_options(TARGET, **LONE)),
    )  # fmt: skip
    record = distil(asked, Heard())
    assert record is not None
    return asked, record


def acceptance(record: dict[str, Any], place: int = -1, temperature: int = 0) -> list[float]:
    return record["curve"][place][f"temperature_{temperature}"]["by_position"]


def test_taps_of_texts_that_the_target_writes_are_those_of_reading_them(made: tuple[Any, dict[str, Any]]) -> None:
    asked, _ = made
    work = asked.work.path
    names = asked.work.read("shards")["names"]
    for name in names:
        kept = load_file(tap_path(work, name))["taps"]
        tap_path(work, name).unlink()
        write_taps(work, [name], lambda: _open_target(asked))
        torch.testing.assert_close(kept, load_file(tap_path(work, name))["taps"], rtol=0.02, atol=0.02)


@pytest.mark.slow
def test_a_tiny_head_learns_loads_and_is_exact(made: tuple[Any, dict[str, Any]]) -> None:
    asked, record = made
    assert len(acceptance(record)) == TRAINING.measured_states
    assert acceptance(record)[0] > acceptance(record, 0)[0] + 0.2
    assert record["model"]["taps"] == [2, 3, 3]
    assert "EAGLE-3 head on the inputs of layers 2, 3, 3" in (asked.out / "README.md").read_text()
    params = [SamplingParams(temperature=t, max_tokens=20, seed=3, ignore_eos=True) for t in (0.0, 1.0)]
    with LLM(TARGET, **LONE) as llm:
        wanted = [[c.token_ids for c in llm.generate(HELD_OUT, p)] for p in params]
    for mode in ("sd", "ssd"):
        with LLM(TARGET, str(asked.out), **{**LONE, "mode": mode}, lookahead=3, budget=12, pacing="lockstep") as llm:
            results = [llm.generate(HELD_OUT, p) for p in params]
            assert [[c.token_ids for c in each] for each in results] == wanted
            accepted, verified, hits, misses = (
                sum(getattr(c.metrics, name) for each in results for c in each)
                for name in ("accepted", "verified", "hits", "misses")
            )
            assert accepted > 0.3 * verified
            assert (hits > misses) == (mode == "ssd")


@pytest.mark.slow
def test_longer_chains_keep_acceptance_at_later_positions(made: tuple[Any, dict[str, Any]], tmp_path: Path) -> None:
    """The remedy that the paper names: what has gone on from its own states in training does so better later."""
    asked, _ = made
    later = []
    for own_states in (1, 6):
        asked.work.drop(STAGE)
        train = replace(TRAINING, own_states=own_states, steps=100, lr=3e-3)
        record = distil(replace(asked, train=train, out=tmp_path / str(own_states)), Heard())
        assert record is not None
        later.append(sum(acceptance(record, temperature=1)[3:]) / 3)
    assert later[1] > later[0] + 0.1


@pytest.mark.slow
def test_a_head_stored_as_int8_is_as_it_was_measured(made: tuple[Any, dict[str, Any]], tmp_path: Path) -> None:
    asked, _ = made
    asked.work.drop(STAGE)
    train = replace(TRAINING, stored="int8", steps=20)
    record = distil(replace(asked, train=train, out=tmp_path / "int8"), Heard())
    assert record is not None
    assert not (tmp_path / "int8" / "tokenizer.json").exists()
    params = SamplingParams(temperature=0.0, max_tokens=12, ignore_eos=True)
    with LLM(TARGET, **LONE) as llm:
        wanted = [c.token_ids for c in llm.generate(HELD_OUT, params)]
    with LLM(TARGET, str(tmp_path / "int8"), **{**LONE, "mode": "sd"}, lookahead=3) as llm:
        found = llm.generate(HELD_OUT, params)
    assert [c.token_ids for c in found] == wanted
    accepted, compared = (sum(getattr(c.metrics, name) for c in found) for name in ("accepted", "verified"))
    assert accepted > 0.3 * compared
    with pytest.raises(ConfigError, match="it runs beside that model only"):
        open_checkpoint(str(tmp_path / "int8"), target=TARGET.replace("seed=3", "seed=4"))


def test_what_cannot_be_asked() -> None:
    target = open_checkpoint(TARGET)
    for source, train, word in (
        ("toy:llama?seed=4&vocab=24", TRAINING, "--from"),
        (TARGET, replace(TRAINING, layers=(0,)), "--layers"),
    ):
        with pytest.raises(ConfigError, match=word):
            check_head(target, open_checkpoint(source), train)
    for few, word in (("toy:markov?vocab=24", "table"), ("toy:llama?vocab=24&layers=2", "too few")):
        with pytest.raises(ConfigError, match=word):
            check_head(open_checkpoint(few), open_checkpoint(few), TRAINING)
    with pytest.raises(ConfigError, match="own_states"):
        TrainSettings(eagle3=True, own_states=0)
