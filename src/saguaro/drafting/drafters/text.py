"""A language model with another tokenizer as the draft: it reads the target's tokens as text, and says the target's.

Outside, all is in ids and slots of the target: the drafter remembers for each slot which place of which text it is
(`reading.py`), so that rows, branches and moves work as for any other. Inside, the model runs the text in its own ids,
whose keys and values hang on a tree of beginnings (`prefix_tree.py`): where a text is encoded anew at its end, only
what changed is run. The scores are the draft's law of the target's next token (`models/text_bridge.py`): a function of
the text alone, so that it is a law like any other to both kinds of verification.
Must not know: rounds, outcomes. Tests: tests/drafting/test_text_drafter.py, tests/lossless/test_text_pairs.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from saguaro.drafting.drafters.base import Drafter
from saguaro.drafting.prefix_tree import Node, PrefixTree
from saguaro.drafting.reading import Reader, Reading
from saguaro.execution.batch import Span
from saguaro.execution.kv_pool import KVPool
from saguaro.execution.runner import Runner
from saguaro.models.causal_lm import CausalLM
from saguaro.models.text_bridge import NONE, TextBridge


@dataclass(slots=True)
class Job:
    """One run of the model's own tokens: nodes that follow each other, and the first whose scores are wanted."""

    nodes: list[Node]
    first: int


Place = tuple[Job, int]
"""Where scores come from: a job, and the index of the node in it."""


class TextDrafter(Drafter):
    """See `Drafter`.

    Args:
        model: of the draft's own ids.
        bridge: to and from the target's.
        num_slots: places of texts, and tokens of its own that there is room for.
        page_size: of the target's page tables.
        max_positions: longest text, in tokens of the target. A text with more tokens of the draft's own than the model
            has positions gets no scores.
    """

    def __init__(
        self, model: CausalLM, *, bridge: TextBridge, num_slots: int, page_size: int, max_positions: int
    ) -> None:
        self.num_slots = num_slots
        self.max_positions = max_positions
        self.vocab = len(bridge.token_ids)
        self._page_size = page_size
        self._longest = model.max_positions
        self._ids_C = torch.tensor(bridge.token_ids, dtype=torch.int32)
        self._pool = KVPool(model.config, num_slots, model.pool_dtype)
        self._runner = Runner(model, self._pool, 1)
        self._columns = Columns(bridge)
        self._tree = PrefixTree(num_slots)
        self._reader = Reader(bridge, self._tree)
        self._readings: list[Reading | None] = [None] * num_slots

    @property
    def token_ids(self) -> torch.Tensor | None:
        """The target's ids that the draft may say."""
        return self._ids_C

    def run(self, spans: Sequence[Span], *, interrupt: Callable[[], bool] | None = None) -> torch.Tensor | None:
        self._tree.begin()
        jobs: list[Job] = []
        new: list[Node] = []
        there: dict[Node, Place] = {}
        places = [place for span in spans for place in self._schedule(span, jobs, new, there)]
        logits_RD = self._runner.run([self._span(job) for job in jobs], interrupt=interrupt) if jobs else None
        if logits_RD is None and (jobs or (interrupt is not None and interrupt())):
            self._tree.drop(new)
            return None
        if not places:
            return torch.empty(0, 0)
        return self._rows(places, jobs, logits_RD)

    def move(self, sources: list[int], targets: list[int]) -> None:
        for target, reading in zip(targets, [self._readings[source] for source in sources], strict=True):
            self._readings[target] = reading

    def _schedule(self, span: Span, jobs: list[Job], new: list[Node], there: dict[Node, Place]) -> list[Place | None]:
        """Note the places of a span, and what has to run for those that are wanted, and for the last in any case."""
        reading = self._before(span)
        read: list[Reading] = []
        for slot, token in zip(span.slots, span.tokens, strict=True):
            reading = self._readings[slot] = Reading(reading, token)
            read.append(reading)
        last = read[-max(1, span.wanted) :]
        found: list[Place | None] = []
        for one in reversed(last):  # the longest first: the others are mostly on its way
            leaf = self._reader.leaf(one)
            if leaf not in there:
                self._add(leaf, jobs, new, there, again=span.wanted > 0)
            place = there.get(leaf)
            if place is not None and span.wanted:
                job, index = place
                job.first = min(job.first, index)
            found.append(place)
        return found[::-1][len(found) - span.wanted :]

    def _add(self, leaf: Node, jobs: list[Job], new: list[Node], there: dict[Node, Place], *, again: bool) -> None:
        """A job for a place that is in none: what is missing on its way, or (`again`) its last token once more."""
        nodes = self._tree.missing(leaf)
        if leaf.depth > self._longest:
            self._tree.forget(nodes)
            return
        if not self._tree.take(nodes):
            return
        new += nodes
        if not nodes:
            if leaf is self._tree.root or not again:
                return
            self._tree.use(leaf)
            nodes = [leaf]
        job = Job(nodes, len(nodes))
        jobs.append(job)
        there.update((node, (job, index)) for index, node in enumerate(nodes))

    def _span(self, job: Job) -> Span:
        nodes = job.nodes
        slots = [node.slot for node in nodes if node.slot is not None]
        return Span(
            [node.token for node in nodes],
            nodes[0].depth - 1,
            self._tree.slots_to(nodes[-1]),
            slots,
            wanted=len(nodes) - job.first,
        )

    def _rows(
        self, places: Sequence[Place | None], jobs: Sequence[Job], logits_RD: torch.Tensor | None
    ) -> torch.Tensor:
        """Scores (W, C): those of places that could not run are -inf."""
        rows_WC = torch.full((len(places), self.vocab), float("-inf"))
        if logits_RD is None:
            return rows_WC
        starts, at = {}, 0
        for job in jobs:
            starts[id(job)] = at - job.first
            at += len(job.nodes) - job.first
        known = [w for w, place in enumerate(places) if place is not None]
        sources = [starts[id(place[0])] + place[1] for place in places if place is not None]
        if known:
            rows_WC[known] = self._columns.of(logits_RD[sources])
        return rows_WC

    def _before(self, span: Span) -> Reading:
        """The place before a span's first token. Where nothing was read (steps that are only timed), the beginning."""
        found: Reading | None = None
        if span.own:
            found = self._readings[span.own[-1]]
        elif span.start:
            page, offset = divmod(span.start - 1, self._page_size)
            found = self._readings[span.pages[page] * self._page_size + offset]
        return self._reader.start if found is None else found


class Columns:
    """From logits over the draft's ids (W, D) to those over the target's (W, C), on the same scale: what is added to or
    multiplied with a logit later (penalties) means the same.
    """

    def __init__(self, bridge: TextBridge) -> None:
        column_D = torch.tensor(bridge.column_of)
        self._num = len(bridge.token_ids)
        order = torch.arange(len(column_D))[column_D != NONE]
        first = torch.full((self._num,), len(column_D), dtype=torch.int64)
        first.scatter_reduce_(0, column_D[order], order, "amin")
        others = torch.ones(len(column_D), dtype=torch.bool)
        others[first] = False
        self._first_C = first
        self._others_E = order[others[order]]
        self._column_E = column_D[self._others_E]

    def of(self, logits_WD: torch.Tensor) -> torch.Tensor:
        """The mass of all ids of the draft that count for a token of the target; -inf where it vanishes."""
        scale_W1 = torch.logsumexp(logits_WD, dim=1, keepdim=True)
        law_WD = torch.exp(logits_WD - scale_W1)
        law_WC = law_WD[:, self._first_C]
        if len(self._column_E):
            law_WC.index_add_(1, self._column_E, law_WD[:, self._others_E])
        return law_WC.log_().add_(scale_W1)
