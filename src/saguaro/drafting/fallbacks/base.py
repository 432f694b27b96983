"""The promise of a fallback: a lawful proposal for one missed row, or the wish that the draft makes one.

Must not know: caches, batches, processes, clocks. Tests: tests/conformance/test_fallbacks.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from saguaro.algorithm.terms import Proposal


@dataclass(frozen=True, slots=True)
class Missed:
    """A row whose outcome no branch covers. `tokens` are its committed tokens; the draws are keyed as in DESIGN D1.

    `accepted` is k of the outcome; `cached`, for fallbacks that read it, holds (k, tokens) of the round's branches,
    likeliest first.
    """

    tokens: tuple[int, ...]
    seed: int
    choice: int
    round: int
    lookahead: int
    vocab: int
    accepted: int = 0
    cached: tuple[tuple[int, tuple[int, ...]], ...] = ()


class Fallback(ABC):
    """One answer to a miss. `asks_draft` is True when the draft must draw the tokens (the target then waits),
    `reads_cache` when `Missed.cached` is wanted.
    """

    source: str
    asks_draft: bool = False
    reads_cache: bool = False

    @abstractmethod
    def propose(self, missed: Missed) -> Proposal:
        """A proposal drawn without a model; empty when there is none."""
