"""A head that learns: what it computes, how chains are counted, and a tiny one trained, written, loaded and run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.eagle3_heads import head_tensors
from tests.models.eagle3_reference import NaiveHead, normed, taps_of
from tests.training.conftest import ENGINE, TRAIN, Heard, ask

from saguaro import LLM, SamplingParams
from saguaro.config import EngineConfig
from saguaro.engine.resolve import resolve
from saguaro.errors import ConfigError
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.eagle3_checkpoint import read_config
from saguaro.training.curve import by_position
from saguaro.training.folder import TRAIN as STAGE
from saguaro.training.head import by_step
from saguaro.training.head_student import HeadStudent
from saguaro.training.run import distil
from saguaro.training.settings import TrainSettings
from saguaro.training.start import check_head

TARGET = "toy:llama?seed=3&vocab=24&layers=6&hidden=32&ffn=64&scale=6"
PROMPTS = [[1 + i % 20, 2 + i % 7, 3 + i % 11] for i in range(30)]
HELD_OUT = [[21, 1 + i, 5] for i in range(8)]
LONE: dict[str, Any] = {**ENGINE, "target_device": "cpu:0", "max_batch": 32}
TRAINING = replace(TRAIN, eagle3=True, own_states=4, measured_states=6, steps=40, batch_tokens=256, lr=5e-3)


def test_the_student_computes_what_the_head_does() -> None:
    """Two texts in a row: each step of each chain is what pairs one after the other give."""
    target = open_checkpoint(TARGET)
    tensors, config = head_tensors(target.config)
    embedding = target.weights().get("model.embed_tokens.weight")
    shapes = {name.replace("midlayer.", "model.layers.0."): tuple(value.shape) for name, value in tensors.items()}
    student = HeadStudent(read_config(config, shapes), tensors, embedding)
    texts, steps = [[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 5]], 3
    taps = [taps_of(TARGET, (2, 3, 3), text) for text in texts]
    with torch.no_grad():
        states = student(
            torch.tensor([[*texts[0], *texts[1]]]),
            torch.tensor([[*range(7), *range(4)]]),
            torch.tensor([[0] * 7 + [1] * 4]),
            torch.cat(taps)[None],
            steps=steps,
        )
    naive = NaiveHead(tensors, config, embedding)
    for text, own, at in zip(texts, taps, (0, 7), strict=True):
        for begin in range(1, len(text)):  # a chain that begins with this token
            naive.keys, naive.values = [], []
            for place in range(1, begin + 1):
                state = naive.pair(text[place], naive.fuse(own[place - 1]))
            for step in range(min(steps, len(text) - begin)):
                if step:
                    state = naive.pair(text[begin + step], state)
                wanted = normed(state, tensors["norm.weight"], naive.eps)
                torch.testing.assert_close(states[step][0, at + begin + step], wanted, rtol=1e-4, atol=1e-4)


def test_positions_are_counted_as_chains_go() -> None:
    taken = torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0])
    same = taken.expand(6, 5)
    assert by_step(same, same, torch.ones(6, 5), [3, 2]) == by_position(taken, taken, [3, 2])
    later = torch.stack([taken, torch.zeros(5)])
    assert by_step(later, later, torch.ones(2, 5), [5]) == (0.8, 0.0)
    missing = torch.ones(2, 5)
    missing[:, 0] = 0
    assert by_step(later, later, missing, [5]) == (0.75, 0.0)


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
