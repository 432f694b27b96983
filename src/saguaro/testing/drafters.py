"""Scripted drafts. Each is a language-model drafter whose logits are edited by absolute position, so that any pattern
of acceptances, hits and misses can be forced with the target's own weights as the draft.

Letters of a script, one for the token at each absolute position modulo its length:

    .   untouched: with the target's weights the token is accepted, and the bonus token is the first guess
    w   wrong, but close: an unlikely token is proposed, the right one is the second candidate (a hit is possible)
    m   lost: only a few unlikely tokens are candidates (rejected, and the outcome is not covered)

Tests: tests/engine/test_scripted.py.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

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
