"""The promise of a drafter (DESIGN D1, D5).

A drafter runs spans and returns a row of scores over *target* token ids for each wanted token. Rows may leave ids out
(by `token_ids`, or with score -inf): such tokens are never proposed, and the law that travels gives them probability
0, so verification stays lossless. It owns its keys and values. Must not know: rounds, outcomes, branches, processes.
Tests: tests/conformance/test_drafters.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

import torch

from saguaro.execution.batch import Span


class Drafter(ABC):
    """A draft model, ready to run.

    Attributes:
        vocab: width of the rows returned. At most the target's vocabulary.
        token_ids: int32, token of each column, each below the target's vocabulary and there once; None where column =
            id. It may be another tensor after `expect`, but is never changed in place.
        num_slots: slots of keys and values that it owns.
        max_positions: longest context that it can run.
        tap_width: numbers of the target's hidden states that it reads for each token (`Span.taps`); 0 for a draft that
            reads text alone. One that reads them runs no first token of a row, and has the keys, values and state of
            the token at position p in slot p - 1.
    """

    tap_width: int = 0
    vocab: int
    num_slots: int
    max_positions: int

    @property
    def token_ids(self) -> torch.Tensor | None:
        """Token of each column; None where column = id."""
        return None

    def expect(self, tokens: Iterable[int]) -> None:
        """Tokens that are likely to be said, the surest last: a drafter that cannot know all makes room for them. Cheap
        enough to be called for every outcome.
        """
        return

    @abstractmethod
    def run(self, spans: Sequence[Span], *, interrupt: Callable[[], bool] | None = None) -> torch.Tensor | None:
        """Scores (W, vocab) float32 of the wanted tokens in span order; None when `interrupt` gave the pass up."""

    @abstractmethod
    def move(self, sources: list[int], targets: list[int]) -> None:
        """Copy keys and values between slots."""

    def close(self) -> None:
        """Free what is held."""
        return
