"""The target writes many texts at once, and its law is kept at every position as it goes: one pass for texts and laws.

A text that has ended makes room for the next one at once, so that the rows stay full across shards. Tokens at a
temperature above 0 are drawn by inverting the cumulated law at a number of the job's own sequence, so that a text is a
function of its job alone. The target runs as the engine runs it, with the same packed weights. Letters: W rows that
run, V vocabulary, K kept tokens of a law. Must not know: students, shards' order.
Tests: tests/training/test_writer.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import torch

from saguaro.execution.batch import Span
from saguaro.execution.kv_pool import KVPool
from saguaro.execution.runner import Runner
from saguaro.models.causal_lm import CausalLM
from saguaro.training.laws import Laws, laws_from, likeliest, run, unit
from saguaro.training.texts import Job, Text

PAGE = 64
ROWS = 96
"""Texts that are written at once: the weights are read once for all of them."""
PROMPT_TOKENS = 1024
"""Tokens of prompts that may begin beside the rows of one pass; a longer prompt is taken alone."""
LOOP_TOKENS, LOOP_PERIOD = 64, 24
"""A text goes in a circle when its last so many tokens repeat with a period of at most so many."""


@dataclass(frozen=True)
class Written:
    """One text with its laws (the tensors of `laws.py`), the place of its job among all, and taps (`taps.py`) where
    they are kept.
    """

    index: int
    text: Text
    laws: Laws
    taps_NW: torch.Tensor | None = None


@dataclass
class Row:
    """A text that is being written; its first `known` tokens have keys and values."""

    index: int
    job: Job
    draws: random.Random
    tokens: list[int]
    known: int = 0
    laws: list[Laws] = field(default_factory=list)
    taps: list[torch.Tensor] = field(default_factory=list)


class Writer:
    """Continues prompts.

    Args:
        model: the target, packed.
        max_tokens: longest output.
        max_length: prompt and output together.
        top_k: tokens of a law that are kept.
        stop_ids: a text ends behind one of them.
        rows: texts at once.
        ends_loops: end a text that goes in a circle; what follows would teach nothing new.
        states: keep the target's last states, too.
        taps: gives the hidden states (T, W) of the last pass's tokens, which are kept where it is given.
    """

    def __init__(
        self,
        model: CausalLM,
        *,
        max_tokens: int,
        max_length: int,
        top_k: int,
        stop_ids: Iterable[int],
        rows: int = ROWS,
        ends_loops: bool = True,
        states: bool = False,
        taps: Callable[[], torch.Tensor] | None = None,
    ) -> None:
        self._model = model
        self._max_tokens = max_tokens
        self._max_length = max_length
        self._top_k = top_k
        self._stops = frozenset(stop_ids)
        self._rows = rows
        self._ends_loops = ends_loops
        self._states = states
        self._taps = taps
        self._runner: Runner | None = None
        self._pages = 0

    def write(self, jobs: Iterable[tuple[int, Job]], *, longest: int) -> Iterator[Written]:
        """Texts as they end, in no particular order.

        Args:
            jobs: numbered; the next one is taken when there is room for it.
            longest: tokens of the longest prompt.
        """
        self._make_room(min(longest + self._max_tokens, self._max_length))
        waiting = iter(jobs)
        running: dict[int, Row] = {}
        while True:
            self._admit(waiting, running)
            if not running:
                return
            drawn, found = self._step(running)
            for number, (place, row) in enumerate(list(running.items())):
                row.known = len(row.tokens)
                row.tokens.append(drawn[number])
                row.laws.append({name: value[number] for name, value in found.items()})
                if self._ended(row):
                    del running[place]
                    laws = {name: torch.stack([each[name] for each in row.laws]) for name in found}
                    taps_NW = torch.cat(row.taps) if row.taps else None
                    yield Written(row.index, Text(tuple(row.tokens), len(row.job.prompt)), laws, taps_NW)

    def _make_room(self, length: int) -> None:
        """Keys and values of all rows; each has its own pages."""
        pages = -(-length // PAGE)
        if self._runner is None or pages > self._pages:
            pool = KVPool(self._model.config, self._rows * pages * PAGE, self._model.pool_dtype)
            self._runner, self._pages = Runner(self._model, pool, PAGE), pages

    def _admit(self, waiting: Iterator[tuple[int, Job]], running: dict[int, Row]) -> None:
        """Put the next jobs into empty places, as many as one pass should take."""
        tokens = 0
        for place in range(self._rows):
            if place in running:
                continue
            if tokens >= PROMPT_TOKENS:
                return
            taken = next(waiting, None)
            if taken is None:
                return
            index, job = taken
            running[place] = Row(index, job, random.Random(job.seed), list(job.prompt))
            tokens += len(job.prompt)

    def _span(self, place: int, row: Row) -> Span:
        """The tokens of a row that have no keys and values yet."""
        first, end = place * self._pages, len(row.tokens)
        return Span(
            tokens=row.tokens[row.known :],
            start=row.known,
            pages=range(first, first + -(-end // PAGE)),
            slots=range(first * PAGE + row.known, first * PAGE + end),
            wanted=1,
        )

    def _step(self, running: dict[int, Row]) -> tuple[list[int], Laws]:
        """The next token of each row, and the laws that they were drawn from."""
        assert self._runner is not None
        spans = [self._span(place, row) for place, row in running.items()]
        logits_WV, hidden_WH = run(self._runner, spans)
        if self._taps is not None:
            parts = self._taps().split([len(span.tokens) for span in spans])
            for row, part_NW in zip(running.values(), parts, strict=True):
                row.taps.append(part_NW)
        values_WK, ids_WK = likeliest(logits_WV, min(self._top_k, logits_WV.shape[-1]))
        drawn = [int(token) for token in ids_WK[:, 0]]
        for number, row in enumerate(running.values()):
            if row.job.temperature > 0:
                drawn[number] = draw(logits_WV[number], row.job.temperature, row.draws.random())
        laws = laws_from(logits_WV, values_WK, ids_WK, torch.tensor(drawn))
        if self._states:
            laws["states"] = unit(hidden_WH)
        return drawn, laws

    def _ended(self, row: Row) -> bool:
        count = len(row.tokens) - len(row.job.prompt)
        full = count >= self._max_tokens or len(row.tokens) >= self._max_length
        if row.tokens[-1] in self._stops or full:
            return True
        return self._ends_loops and count % 16 == 0 and goes_in_a_circle(row.tokens[len(row.job.prompt) :])


def goes_in_a_circle(tokens: list[int]) -> bool:
    """Whether the last LOOP_TOKENS tokens repeat with one period of at most LOOP_PERIOD."""
    last = tokens[-LOOP_TOKENS:]
    if len(last) < LOOP_TOKENS:
        return False
    return any(last[period:] == last[:-period] for period in range(1, LOOP_PERIOD + 1))


def draw(logits_V: torch.Tensor, temperature: float, number: float) -> int:
    """The token at which the cumulated law at a temperature passes `number` in 0 ... 1."""
    cumulated_V = (logits_V / temperature).softmax(-1).cumsum(-1, dtype=torch.float64)
    place = int(torch.searchsorted(cumulated_V, number * float(cumulated_V[-1]), right=True))
    return min(place, len(logits_V) - 1)
