"""A language model with another tokenizer as the draft: it reads the target's tokens as text, and says the target's.

Outside, all is in ids and slots of the target: the drafter remembers for each slot which place of which text it is
(`reading.py`), so that rows, branches and moves work as for any other. Inside, the model runs the text in its own ids,
whose keys and values hang on a tree of beginnings (`text_runs.py`): where a text is encoded anew at its end, only what
changed is run. The scores are the draft's law of the target's next token (`target_law.py`), for which it runs the
likeliest token of its own in advance; mostly that is the next one to run anyway. They are a function of the text alone,
so that they are a law like any other to both kinds of verification.
Must not know: rounds, outcomes. Tests: tests/drafting/test_text_drafter.py, tests/lossless/test_text_pairs.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from saguaro.drafting.drafters.base import Drafter
from saguaro.drafting.prefix_tree import Node
from saguaro.drafting.reading import Reader, Reading
from saguaro.drafting.target_law import TargetLaw
from saguaro.drafting.text_runs import TextRuns
from saguaro.execution.batch import Span
from saguaro.models.causal_lm import CausalLM
from saguaro.models.text_bridge import TextBridge


class TextDrafter(Drafter):
    """See `Drafter`.

    Args:
        model: of the draft's own ids.
        bridge: to and from the target's.
        target_vocab: ids of the target that may be proposed.
        num_slots: places of texts, and tokens of its own that there is room for.
        page_size: of the target's page tables.
        max_positions: longest text, in tokens of the target. A text with more tokens of the draft's own than the model
            has positions gets no scores.
    """

    def __init__(
        self,
        model: CausalLM,
        *,
        bridge: TextBridge,
        target_vocab: int,
        num_slots: int,
        page_size: int,
        max_positions: int,
    ) -> None:
        self.num_slots = num_slots
        self.max_positions = max_positions
        self._page_size = page_size
        self._law = TargetLaw(bridge, target_vocab=target_vocab)
        self.vocab = len(self._law.ids_C)
        self._runs = TextRuns(model, num_slots)
        self._reader = Reader(bridge, self._runs.tree)
        self._readings: list[Reading | None] = [None] * num_slots

    @property
    def token_ids(self) -> torch.Tensor | None:
        """The target's ids that the draft may say now."""
        return self._law.ids_C

    def run(self, spans: Sequence[Span], *, interrupt: Callable[[], bool] | None = None) -> torch.Tensor | None:
        self._runs.tree.begin()
        wanted: list[Node] = []
        others: list[Node] = []
        timed: set[Node] = set()
        for span in spans:
            known = self._before(span)
            leaves = self._read(span, known or self._reader.start)
            wanted += leaves[len(leaves) - span.wanted :]
            others += leaves[: len(leaves) - span.wanted]
            if known is None:  # a step that is only timed, behind a context that nobody has read
                timed.update(leaves)
        if not self._runs.run(wanted, others, again=timed, interrupt=interrupt):
            return None
        ahead = {node: self._ahead(node) for node in wanted if node not in timed}
        due = [node for node in ahead.values() if node is not None]
        if due and not self._runs.run(due, interrupt=interrupt):
            return None
        return self._rows(wanted, ahead) if wanted else torch.empty(0, 0)

    def move(self, sources: list[int], targets: list[int]) -> None:
        for target, reading in zip(targets, [self._readings[source] for source in sources], strict=True):
            self._readings[target] = reading

    def _read(self, span: Span, place: Reading) -> list[Node]:
        """Note the places of a span; the draft's last ids at those that are wanted, and at the last in any case."""
        read: list[Reading] = []
        for slot, token in zip(span.slots, span.tokens, strict=True):
            place = self._readings[slot] = Reading(place, token)
            read.append(place)
        return [self._reader.leaf(one) for one in read[-max(1, span.wanted) :]]

    def _ahead(self, node: Node) -> Node | None:
        """The likeliest token of the draft's own behind a place."""
        logits_D = self._runs.logits(node)
        return None if logits_D is None else self._runs.tree.descend(node, [int(logits_D.argmax())])

    def _rows(self, wanted: Sequence[Node], ahead: dict[Node, Node | None]) -> torch.Tensor:
        """Scores (W, C): those of places that could not run are -inf."""
        rows_WC = torch.full((len(wanted), self.vocab), float("-inf"))
        found = [(w, row_D) for w, node in enumerate(wanted) if (row_D := self._runs.logits(node)) is not None]
        if found:
            then = [ahead.get(wanted[w]) for w, _ in found]
            second = [None if node is None else self._runs.logits(node) for node in then]
            places = [w for w, _ in found]
            rows_WC[places] = self._law.scores(torch.stack([row_D for _, row_D in found]), second)
        return rows_WC

    def _before(self, span: Span) -> Reading | None:
        """The place before a span's first token; None where nothing was read."""
        if span.own:
            return self._readings[span.own[-1]]
        if not span.start:
            return self._reader.start
        page, offset = divmod(span.start - 1, self._page_size)
        return self._readings[span.pages[page] * self._page_size + offset]
