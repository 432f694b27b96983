"""The promise of a drafter (DESIGN D1, D5).

A drafter runs spans and returns a row of scores over *target* token ids for each wanted token. Rows may leave ids out
(score -inf): such tokens are never proposed, and the law that travels gives them probability 0, so verification stays
lossless. It owns its keys and values. Must not know: rounds, outcomes, branches, processes.
Tests: tests/conformance/test_drafters.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch

from saguaro.execution.batch import Span


class Drafter(ABC):
    """A draft model, ready to run.

    Attributes:
        vocab: width of the rows returned; row index = token id. At most the target's vocabulary.
        num_slots: slots of keys and values that it owns.
        max_positions: longest context that it can run.
    """

    vocab: int
    num_slots: int
    max_positions: int

    @abstractmethod
    def run(self, spans: Sequence[Span], *, interrupt: Callable[[], bool] | None = None) -> torch.Tensor | None:
        """Scores (W, vocab) float32 of the wanted tokens in span order; None when `interrupt` gave the pass up."""

    @abstractmethod
    def move(self, sources: list[int], targets: list[int]) -> None:
        """Copy keys and values between slots."""

    def close(self) -> None:
        """Free what is held."""
        return
