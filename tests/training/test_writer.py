"""Texts that the target writes many at a time: those of the engine, whatever runs beside them, with their laws."""

import pytest
import torch
from tests.training.conftest import ENGINE, TARGET

from saguaro import LLM, SamplingParams
from saguaro.models.build import build_model, make_ops
from saguaro.models.checkpoint import open_checkpoint
from saguaro.training.laws import Reader, laws_of
from saguaro.training.texts import Job
from saguaro.training.writer import Writer, draw, goes_in_a_circle

PROMPTS = [tuple(1 + (7 * i + j) % 40 for j in range(2 + i % 5)) for i in range(11)]


@pytest.fixture(scope="module")
def model():
    return build_model(open_checkpoint(TARGET), make_ops("native", "float32"))


def write(model, jobs, **options):
    settings = {"max_tokens": 12, "max_length": 64, "top_k": 5, "stop_ids": {1}, "rows": 4} | options
    longest = max(len(job.prompt) for job in jobs)
    done = {written.index: written for written in Writer(model, **settings).write(enumerate(jobs), longest=longest)}
    return [done[index] for index in range(len(jobs))]


def test_greedy_texts_are_those_of_the_engine(model):
    found = write(model, [Job(prompt, 0.0, 0) for prompt in PROMPTS], stop_ids=open_checkpoint(TARGET).config.stop_ids)
    with LLM(TARGET, **ENGINE) as llm:
        outputs = llm.generate([list(prompt) for prompt in PROMPTS], SamplingParams(temperature=0.0, max_tokens=12))
    assert [each.text.tokens for each in found] == [
        (*prompt, *output.token_ids) for prompt, output in zip(PROMPTS, outputs, strict=True)
    ]
    assert len({len(each.text.tokens) - each.text.start for each in found}) > 1, "some ended before the others"


def test_a_text_is_a_function_of_its_job(model):
    jobs = [Job(prompt, 1.0, 100 + i) for i, prompt in enumerate(PROMPTS)]
    together, alone = write(model, jobs, rows=5), write(model, jobs, rows=1)
    assert [each.text for each in together] == [each.text for each in alone]
    other = write(model, [Job(job.prompt, 1.0, job.seed + 50) for job in jobs])
    assert [each.text for each in other] != [each.text for each in alone]


def test_laws_are_those_of_reading_the_text(model):
    for written in write(model, [Job(prompt, 1.0, i) for i, prompt in enumerate(PROMPTS[:4])]):
        expected = laws_of(Reader(model), [written.text], 5)
        assert torch.equal(written.laws["ids"], expected["ids"])
        for name in ("log_p", "rest", "own"):
            torch.testing.assert_close(written.laws[name], expected[name], rtol=1e-3, atol=1e-4)


def test_states_are_those_that_the_laws_were_made_from(model):
    [written] = write(model, [Job(PROMPTS[3], 0.0, 0)], states=True)
    norm_H, head_VH = (model.weights.final_norm_H, open_checkpoint(TARGET).weights().get("lm_head.weight"))
    logits = (written.laws["states"].float() * norm_H) @ head_VH.T
    expected = Reader(model).logits(written.text)
    torch.testing.assert_close(logits, expected, rtol=0, atol=0.05)
    assert expected.std() > 0.5
    read = laws_of(Reader(model), [written.text], 5, states=True)["states"]
    torch.testing.assert_close(read, written.laws["states"], rtol=0, atol=0.02)


def test_texts_end_with_the_context(model):
    [written] = write(model, [Job((3, 4, 5), 0.0, 0)], max_length=9, stop_ids=())
    assert len(written.text.tokens) == 9


def test_draws_follow_the_law():
    logits = torch.tensor([0.0, 1.0, -1.0, 0.5])
    for temperature in (0.5, 1.0):
        p = (logits / temperature).softmax(-1)
        numbers = torch.arange(2000) / 2000
        drawn = torch.tensor([draw(logits, temperature, float(number)) for number in numbers])
        torch.testing.assert_close(drawn.bincount(minlength=4) / 2000, p, rtol=0, atol=2e-3)
    assert draw(logits, 1.0, 1.0) == 3


def test_circles():
    assert goes_in_a_circle([9, *range(20)] + list(range(20)) * 3 + list(range(4)))
    assert not goes_in_a_circle(list(range(30)) * 3)
    assert not goes_in_a_circle([5] * 63)


def test_a_circle_ends_a_text(model, monkeypatch):
    monkeypatch.setattr("saguaro.training.writer.goes_in_a_circle", lambda tokens: True)
    jobs = [Job((3, 4, 5), 0.0, 0)]
    [short], [whole] = (write(model, jobs, max_tokens=30, stop_ids=(), ends_loops=ends) for ends in (True, False))
    assert len(short.text.tokens) - 3 == 16
    assert len(whole.text.tokens) - 3 == 30
