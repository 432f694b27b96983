"""Runs a model over texts that hang on a tree of beginnings, each token once, and keeps the latest logits.

What is asked for are nodes: the logits behind some, keys and values of others. Whatever is missing on their ways runs
in one pass, each chain as one span. Must not know: text, targets, rows. Tests: tests/drafting/test_text_drafter.py.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import torch

from saguaro.drafting.prefix_tree import Node, PrefixTree
from saguaro.execution.batch import Span
from saguaro.execution.kv_pool import KVPool
from saguaro.execution.runner import Runner
from saguaro.models.causal_lm import CausalLM

KEPT = 64
"""Rows of logits that are kept at least until the next pass."""


@dataclass(slots=True)
class Job:
    """Nodes that follow each other and run now, and the first whose logits are wanted."""

    nodes: list[Node]
    first: int


class TextRuns:
    """A model with its tree.

    Args:
        model: of the draft's own ids.
        num_slots: tokens that there is room for.
    """

    def __init__(self, model: CausalLM, num_slots: int) -> None:
        self.tree = PrefixTree(num_slots)
        self._longest = model.max_positions
        self._pool = KVPool(model.config, num_slots, model.pool_dtype)
        self._runner = Runner(model, self._pool, 1)
        self._logits: OrderedDict[Node, torch.Tensor] = OrderedDict()

    def logits(self, node: Node) -> torch.Tensor | None:
        """Logits (D) behind a node, if the last passes had them."""
        return self._logits.get(node)

    def run(
        self,
        wanted: Collection[Node],
        others: Iterable[Node] = (),
        *,
        again: Collection[Node] = (),
        interrupt: Callable[[], bool] | None = None,
    ) -> bool:
        """Have the logits behind `wanted`, and keys and values up to `others`. Nodes for which there is no room are
        left out.

        Args:
            wanted: they run unless their logits are there.
            others: they run unless their keys and values are.
            again: these of `wanted` run in any case.
            interrupt: asked between two layers.

        Returns:
            False when the pass was given up.
        """
        due = {node for node in wanted if node in again or node not in self._logits}
        jobs: list[Job] = []
        new: list[Node] = []
        there: dict[Node, tuple[Job, int]] = {}
        for node in sorted(
            {*due, *others}, key=lambda each: -each.depth
        ):  # others are mostly on the way of the longest
            if node not in there:
                self._add(node, jobs, new, there, again=node in due)
            if node in there and node in due:
                job, index = there[node]
                job.first = min(job.first, index)
        if not jobs:
            return interrupt is None or not interrupt()
        logits_RD = self._runner.run([self._span(job) for job in jobs], interrupt=interrupt)
        if logits_RD is None:
            self.tree.drop(new)
            return False
        found = [node for job in jobs for node in job.nodes[job.first :]]
        rows = (row_D.clone() for row_D in logits_RD)  # a view would keep all of the pass
        self._keep(dict(zip(found, rows, strict=True)), wanted)
        return True

    def _keep(self, new: dict[Node, torch.Tensor], wanted: Collection[Node]) -> None:
        for node in wanted:
            if node in self._logits:
                self._logits.move_to_end(node)
        self._logits |= new
        while len(self._logits) > max(KEPT, 2 * len(wanted) + len(new)):
            self._logits.popitem(last=False)

    def _add(
        self, leaf: Node, jobs: list[Job], new: list[Node], there: dict[Node, tuple[Job, int]], *, again: bool
    ) -> None:
        """A job for a node that is in none: what is missing on its way, or (`again`) itself once more."""
        nodes = self.tree.missing(leaf)
        if leaf.depth > self._longest:
            self.tree.forget(nodes)
            return
        if not self.tree.take(nodes):
            return
        new += nodes
        if not nodes:
            if leaf is self.tree.root or not again:
                return
            self.tree.use(leaf)
            nodes = [leaf]
        job = Job(nodes, len(nodes))
        jobs.append(job)
        there.update((node, (job, index)) for index, node in enumerate(nodes))

    def _span(self, job: Job) -> Span:
        nodes = job.nodes
        slots = [node.slot for node in nodes if node.slot is not None]
        pages = self.tree.slots_to(nodes[-1])
        return Span([node.token for node in nodes], nodes[0].depth - 1, pages, slots, wanted=len(nodes) - job.first)
