"""The promise of a fallback: lawful proposals for one missed row, or the wish that the draft makes one.

A fallback says what is on offer; which offer is taken, and how much of it, is decided for the whole batch at once
(`algorithm/choosing_fallback.py`), before anything is drawn that could depend on the decision.
Must not know: caches, batches, processes, clocks, estimates. Tests: tests/conformance/test_fallbacks.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import NamedTuple

from saguaro.algorithm.suffix_index import Corpus, SuffixIndex
from saguaro.algorithm.terms import Proposal


@dataclass(frozen=True, slots=True)
class Missed:
    """A row whose outcome (`accepted`, `bonus`) no branch covers. The draws are keyed as in DESIGN D1.

    `length` counts the committed tokens, `lookahead` the tokens to propose at most. `text` holds the committed tokens
    and `corpus` earlier outputs, for fallbacks that read text; `cached`, for those that read it, holds (k, t*, tokens)
    of the round's branches, likeliest first, and `rejected` the proposal's tokens from the first rejected one on.
    """

    length: int
    seed: int
    choice: int
    round: int
    lookahead: int
    vocab: int
    accepted: int = 0
    bonus: int = 0
    text: SuffixIndex = field(default_factory=SuffixIndex)
    corpus: Corpus | None = None
    cached: tuple[tuple[int, int, tuple[int, ...]], ...] = ()
    rejected: tuple[int, ...] = ()


class Offer(NamedTuple):
    """Tokens with their law, where they come from, and a grade: offers of one source and grade are alike."""

    source: str
    proposal: Proposal
    grade: int = 0


class Fallback(ABC):
    """One answer to a miss. `asks_draft`: the draft may draw the tokens (the target then waits); `reads_text`,
    `reads_cache`: which fields of `Missed` are wanted; `chooses`: whether running estimates decide among several
    sources.
    """

    asks_draft: bool = False
    reads_text: bool = False
    reads_cache: bool = False
    chooses: bool = False

    @abstractmethod
    def offers(self, missed: Missed) -> list[Offer]:
        """What can be proposed without a model, none of it empty; no offer where there is nothing."""
