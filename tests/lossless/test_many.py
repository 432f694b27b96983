"""Many requests at once: a request's tokens are those it gets alone, whatever else runs, joins, leaves or is preempted.

A state machine drives the real engine over loopback with pages so few that rows are preempted all the time; the oracle
is AR, one request at a time, with room for everything and without the prefix cache. Kinds of engines differ in mode, in
what the draft proposes, in pages, chunks and the draft's own room.
"""

from __future__ import annotations

import functools
import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.lossless.conftest import TARGET, opened

from saguaro import LLM, SamplingParams
from saguaro.algorithm.options import Sampling
from saguaro.engine.interface import Engine
from saguaro.engine.sequence import Submission
from saguaro.engine.target import Failure

LENGTH = 96
TIGHT: dict[str, Any] = {"max_model_len": LENGTH, "max_batch": 4, "max_step_tokens": 40}
KINDS: dict[str, dict[str, Any]] = {
    "ar": {"mode": "ar", "page_size": 4, "kv_pages": 23, "prefill_chunk": 5},
    "ar-exact": {"mode": "ar", "page_size": 16, "kv_pages": 6, "prefill_chunk": 16},
    "sd": {"mode": "sd", "drafter": "mixed", "lookahead": 3, "page_size": 8, "kv_pages": 12, "prefill_chunk": 7},
    "hit": {
        "mode": "ssd", "drafter": "hit", "pacing": "lockstep", "lookahead": 4, "budget": 6, "page_size": 4,
        "kv_pages": 23, "prefill_chunk": 16, "draft_kv_pages": 200,
    },
    "miss": {
        "mode": "ssd", "drafter": "mixed", "fan_out": "none", "lookahead": 2, "page_size": 5, "kv_pages": 18,
        "prefill_chunk": 9, "mixed_chunk": 3, "draft_kv_pages": 40,
    },
    "mixed": {
        "mode": "ssd", "drafter": "mixed", "pacing": "lockstep", "lookahead": 3, "budget": 7, "page_size": 3,
        "kv_pages": 29, "prefill_chunk": 4, "draft_kv_pages": 45,
    },
    "short-draft": {
        "mode": "ssd", "lookahead": 5, "budget": 6, "page_size": 8, "kv_pages": 12, "prefill_chunk": 8,
        "draft_kv_pages": 9,
    },
    "uncached": {
        "mode": "ssd", "lookahead": 4, "budget": 5, "page_size": 8, "kv_pages": 12, "prefill_chunk": 6,
        "prefix_cache": False,
    },
}  # fmt: skip

Event = tuple[int, Any]
STEMS = [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] * 3, [20, 21, 22, 23, 24, 25, 26, 27, 28], [40]]

requests = st.tuples(
    st.integers(0, len(STEMS) - 1), st.integers(1, 36), st.lists(st.integers(0, 47), max_size=6),
    st.sampled_from([0.0, 1.0]), st.integers(0, 2), st.integers(1, 40), st.integers(0, 3),
)  # fmt: skip
OPTIONS: list[dict[str, Any]] = [
    {},
    {"top_k": 5, "repetition_penalty": 1.3},
    {"min_p": 0.05, "frequency_penalty": 0.5, "logit_bias": ((3, 4.0),)},
    {"bad_words": ((5, 6), (7,)), "min_tokens": 4, "stop_ids": (3, 9)},
]


def submission(number: int, drawn: tuple[Any, ...]) -> Submission:
    stem, cut, tail, temperature, seed, max_tokens, options = drawn
    prompt = (*STEMS[stem][:cut], *tail)
    sampling = Sampling(seed=seed, temperature=temperature, **OPTIONS[options])
    stops = frozenset({3, 9}) if options == 3 else frozenset()
    return Submission(number, prompt, sampling, min(max_tokens, LENGTH - len(prompt)), stops)


@pytest.fixture(scope="module")
def alone() -> Iterator[Any]:
    """The tokens of a request in AR, alone."""
    with opened("ar", "float32", "loopback", max_model_len=LENGTH, prefix_cache=False) as llm:
        engine = llm._engine

        @functools.cache
        def tokens(drawn: Submission) -> tuple[int, ...]:
            found: list[int] = []
            engine.submit(drawn)
            while True:
                for _, report in engine.poll(0):
                    found += report.tokens
                    if report.finish is not None:
                        return tuple(found)

        def expected(one: Submission) -> list[int]:
            fields = {name: getattr(one, name) for name in ("prompt", "sampling", "max_tokens", "stop_ids")}
            return list(tokens(Submission(request=0, **fields)))

        yield expected


@pytest.fixture(scope="module")
def engines() -> Iterator[Any]:
    """One engine of each kind; it keeps its state (cache, estimates) from one example to the next."""
    with ExitStack() as stack:

        @functools.cache
        def engine(kind: str) -> LLM:
            options = {**TIGHT, **KINDS[kind]}
            return stack.enter_context(opened(options.pop("mode"), "float32", "loopback", **options))

        yield engine


class Clients:
    """Requests under way on one engine, and what each has been given."""

    def __init__(self, engine: Engine, first: int) -> None:
        self.engine = engine
        self.number = first
        self.open: dict[int, Submission] = {}
        self.got: dict[int, list[int]] = {}
        self.ended: dict[int, Submission] = {}

    def submit(self, drawn: tuple[Any, ...]) -> None:
        self.number += 1
        one = submission(self.number, drawn)
        self.open[self.number], self.got[self.number] = one, []
        self.engine.submit(one)

    def abort(self, pick: int) -> None:
        if self.open:
            request = sorted(self.open)[pick % len(self.open)]
            self.engine.abort(request)
            del self.open[request]

    def poll(self) -> None:
        for event in self.engine.poll(0.5):
            assert not isinstance(event, Failure), event.message
            request, report = event
            if request not in self.open:
                continue  # aborted
            self.got[request] += report.tokens
            if report.finish is not None:
                self.ended[request] = self.open.pop(request)

    def finish(self) -> None:
        for _ in range(5000):
            if not self.open:
                return
            self.poll()
        raise AssertionError(f"{len(self.open)} requests never ended")


numbers = iter(range(1, 1 << 40, 1 << 20))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(actions=st.lists(st.one_of(requests, st.integers(0, 9)), min_size=1, max_size=25))
def test_tokens_are_those_of_the_request_alone(kind: str, actions: list[Any], engines: Any, alone: Any) -> None:
    """A tuple submits, 0 aborts, other numbers let the engine run."""
    engine = engines(kind)._engine
    clients = Clients(engine, next(numbers))
    for action in actions:
        if isinstance(action, tuple):
            clients.submit(action)
        elif action == 0:
            clients.abort(len(clients.ended) + clients.number)
        else:
            clients.poll()
    clients.finish()
    for request, one in clients.ended.items():
        assert clients.got[request] == alone(one)
    statistics = engine.statistics()
    assert statistics["pages_used"] == 0
    if "draft" in statistics:
        with torch.inference_mode():
            engine.draft.step()  # reads that the rows are gone
        assert engine.draft.statistics()["pages_used"] == 0
        assert engine.draft.statistics()["rows"] == 0


def soak(llm: LLM, count: int, alone: Any, *, check_every: int = 10) -> int:
    """Random requests, at most 24 open at a time, random aborts; returns how many were aborted."""
    random_ = random.Random(7)
    clients, aborted = Clients(llm._engine, 1 << 50), 0
    for _ in range(count):
        tail = [random_.randrange(48) for _ in range(random_.randrange(6))]
        clients.submit(
            (random_.randrange(3), random_.randint(1, 36), tail, random_.choice([0.0, 1.0]), random_.randrange(50),
             random_.randint(1, 40), random_.randrange(4))
        )  # fmt: skip
        while len(clients.open) >= 24:
            clients.poll()
        if random_.random() < 0.1:
            clients.abort(random_.randrange(100))
            aborted += 1
    clients.finish()
    assert len(clients.ended) + aborted == count
    for request, one in clients.ended.items():
        if request % check_every == 0:
            assert clients.got[request] == alone(one)
    return aborted


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_tight(kind: str, engines: Any, alone: Any) -> None:
    """The machine above does what it is for: with these pages rows are preempted."""
    soak(engines(kind), 60, alone)
    assert engines(kind)._engine.statistics()["preemptions"] > 0


def resident(pid: int) -> int:
    """Bytes that a process holds in memory, but not those that it maps from files."""
    with open(f"/proc/{pid}/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["RssAnon"].split()[0]) << 10


@pytest.mark.parametrize("count", [150, pytest.param(2000, marks=pytest.mark.slow)])
def test_soak(count: int, alone: Any) -> None:
    """Real processes, few pages, many requests, some given up: everybody ends once, nothing leaks, memory is flat."""
    options = {**TIGHT, "page_size": 4, "kv_pages": 23, "draft_kv_pages": 60, "lookahead": 3, "budget": 5}
    with opened("ssd", "float32", "processes", **options) as llm:
        engine: Any = llm._engine
        pids = [engine._target.process.pid, engine.supervisor.current.worker.process.pid, os.getpid()]
        soak(llm, count // 2, alone)
        before = [resident(pid) for pid in pids[:2]]
        soak(llm, count // 2, alone)
        after = [resident(pid) for pid in pids[:2]]
        deadline = time.monotonic() + 20
        while (statistics := llm.statistics())["draft"]["rows"] and time.monotonic() < deadline:
            time.sleep(0.05)  # the draft reads that rows are gone when its pass is over
        assert statistics["preemptions"] > count // 25
        assert statistics["pages_used"] == statistics["running"] == statistics["waiting"] == 0
        assert statistics["draft"]["pages_used"] == statistics["draft"]["rows"] == 0
        assert statistics["draft_restarts"] == 0
        for old, new in zip(before, after, strict=True):
            assert new < old + (16 << 20)


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
def test_a_real_model_under_pressure(dtype: str, models_directory: Path) -> None:
    """SmolLM2 with its own first layers as the draft: 64 requests over few pages give what each gives alone in AR."""
    model = models_directory / "smollm2-135m-instruct-q4_1.gguf"
    if not model.exists():
        pytest.skip(f"{model.name} is missing; run saguaro pull all")
    random_ = random.Random(3)
    lines = (Path(__file__).parents[2] / "benchmarks/prompts/mt_bench/prompts.jsonl").read_text().splitlines()
    texts = [json.loads(line)["prompt"] for line in lines[:16]]
    prompts = [texts[i % 16][: random_.randint(40, 400)] for i in range(64)]
    params = [
        SamplingParams(
            temperature=random_.choice([0.0, 1.0]), seed=i, max_tokens=random_.randint(8, 64), ignore_eos=True,
            top_k=random_.choice([0, 40]), repetition_penalty=random_.choice([1.0, 1.2]),
        )
        for i in range(64)
    ]  # fmt: skip
    common: dict[str, Any] = {"dtype": dtype, "max_model_len": 512, "target_device": "cpu:0"}
    with LLM(model, mode="ar", prefix_cache=False, **common) as llm:
        wanted = [llm.generate(*each)[0].token_ids for each in zip(prompts, params, strict=True)]
    draft = f"toy:truncate=6:{model}"
    tight = {"max_batch": 8, "page_size": 16, "kv_pages": 24, "draft_kv_pages": 60, "lookahead": 4, "budget": 6}
    preemptions = 0
    for mode in ("ar", "sd", "ssd"):
        with LLM(model, None if mode == "ar" else draft, mode=mode, **common, **tight) as llm:
            results = llm.generate(prompts, params)
            assert [r.token_ids for r in results] == wanted
            preemptions += llm.statistics()["preemptions"]
    assert preemptions > 0


def test_the_target_is_the_same_model(alone: Any) -> None:
    """The oracle and `LLM` agree, so that a mistake in the machine above cannot hide one in the engine."""
    one = submission(1, (0, 12, [1], 1.0, 3, 20, 0))
    with LLM(TARGET, mode="ar", dtype="float32", channel="loopback", max_model_len=LENGTH) as llm:
        params = SamplingParams(temperature=1.0, seed=3, max_tokens=20, ignore_eos=True)
        assert llm.generate([list(one.prompt)], params)[0].token_ids == alone(one)
