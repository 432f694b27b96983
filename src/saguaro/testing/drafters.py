"""Scripted drafts. Each is a language-model drafter whose logits are edited by absolute position, so that any pattern
of acceptances, hits and misses can be forced with the target's own weights as the draft.

Letters of a script, one for the token at each absolute position modulo its length:

    .   untouched: with the target's weights the token is accepted, and the bonus token is the first guess
    w   wrong, but close: an unlikely token is proposed, the right one is the second candidate (a hit is possible)
    m   lost: only a few unlikely tokens are candidates (rejected, and the outcome is not covered)

Tests: tests/conformance/test_drafters.py.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from saguaro.drafting.drafters.base import Drafter
from saguaro.drafting.drafters.lm import LanguageModelDrafter
from saguaro.errors import ConfigError
from saguaro.execution.batch import Span
from saguaro.models.causal_lm import CausalLM

SCRIPTS = {"hit": ".", "close": "..w", "miss": "m", "mixed": "..w.m...w"}
FAR = 1e6
LOST_CANDIDATES = 4


class ScriptedDrafter(LanguageModelDrafter):
    """Edits the rows of a model by a script (a name of SCRIPTS, or letters)."""

    def __init__(self, model: CausalLM, *, script: str = "hit", **sizes: Any) -> None:
        super().__init__(model, **sizes)
        self._script = SCRIPTS.get(script, script)
        if set(self._script) - set(".wm"):
            raise ConfigError(f"a script is made of '.', 'w' and 'm', not {script!r}.")

    def run(self, spans: Sequence[Span], *, interrupt: Callable[[], bool] | None = None) -> torch.Tensor | None:
        logits_WV = super().run(spans, interrupt=interrupt)
        if logits_WV is None:
            return None
        row = 0
        for span in spans:
            end = span.start + len(span.tokens)
            for position in range(end - span.wanted + 1, end + 1):
                self._edit(logits_WV[row], self._script[position % len(self._script)])
                row += 1
        return logits_WV

    @staticmethod
    def _edit(logits_V: torch.Tensor, letter: str) -> None:
        if letter == "w":
            logits_V[logits_V.argmin()] += FAR
        elif letter == "m":
            unlikely = logits_V.topk(min(LOST_CANDIDATES, len(logits_V) - 1), largest=False).indices
            logits_V[unlikely] += FAR


class OracleDrafter(Drafter):
    """Knows the texts: after a prefix of one of them it expects the token that comes there, after any other nothing.

    `texts` is a JSON file with lists of token ids, prompts included. Its keys and values are the tokens themselves,
    read back through pages and slots as attention would read them, so a wrong slot is a wrong guess. It runs no model.
    """

    def __init__(
        self, model: CausalLM, *, texts: str, num_slots: int, page_size: int, max_positions: int, **_: Any
    ) -> None:
        self.vocab = model.config.vocab
        self.num_slots = num_slots
        self.max_positions = max_positions
        self._page_size = page_size
        self._slots = [-1] * num_slots
        self._next: dict[tuple[int, ...], int] = {}
        for text in json.loads(Path(texts).read_text()):
            self._next |= {tuple(text[:length]): text[length] for length in range(1, len(text))}

    def run(self, spans: Sequence[Span], *, interrupt: Callable[[], bool] | None = None) -> torch.Tensor | None:
        if interrupt is not None and interrupt():
            return None
        rows = []
        for span in spans:
            for slot, token in zip(span.slots, span.tokens, strict=True):
                self._slots[slot] = token
            for place in range(len(span.tokens) - span.wanted, len(span.tokens)):
                rows.append(self._row(self._prefix(span, place)))
        return torch.stack(rows) if rows else torch.empty(0, 0)

    def _prefix(self, span: Span, place: int) -> tuple[int, ...]:
        """The tokens that a token of a span sees, itself included."""
        seen = span.start + place + 1 if span.shared is None else span.shared
        size = self._page_size
        slots = [span.pages[position // size] * size + position % size for position in range(seen)]
        if span.shared is not None:
            slots += [*span.own, span.slots[place]]
        return tuple(self._slots[slot] for slot in slots)

    def _row(self, prefix: tuple[int, ...]) -> torch.Tensor:
        row_V = torch.zeros(self.vocab)
        token = self._next.get(prefix)
        if token is not None:
            row_V[token] = FAR
        return row_V

    def move(self, sources: list[int], targets: list[int]) -> None:
        for target, token in zip(targets, [self._slots[source] for source in sources], strict=True):
            self._slots[target] = token


class FaultyDrafter(LanguageModelDrafter):
    """Does something terrible at its `after`-th pass: `kill`, `stop` (by real signals), `slow`, or `garble`."""

    def __init__(self, model: CausalLM, *, fault: str, after: int = 5, **sizes: Any) -> None:
        super().__init__(model, **sizes)
        self._fault = fault
        self._after = after
        self._passes = 0

    def run(self, spans: Sequence[Span], *, interrupt: Callable[[], bool] | None = None) -> torch.Tensor | None:
        self._passes += 1
        if self._passes == self._after and self._fault in ("kill", "stop"):
            os.kill(os.getpid(), signal.SIGKILL if self._fault == "kill" else signal.SIGSTOP)
        if self._passes >= self._after and self._fault == "slow":
            time.sleep(0.2)
        if self._fault == "garble":
            spans = [replace(span, tokens=[token % self.vocab for token in span.tokens]) for span in spans]
        logits_WV = super().run(spans, interrupt=interrupt)
        if logits_WV is not None and self._fault == "garble":
            wide = torch.full((logits_WV.shape[0], 4), FAR)
            logits_WV = torch.cat([logits_WV, wide], dim=1)  # ids beyond the target's vocabulary
        return logits_WV
