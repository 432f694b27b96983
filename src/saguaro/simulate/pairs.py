"""What target and draft do in a round, without either: drawn from laws, or walked along recorded texts.

A token is known by its rank in the draft's own list, which is all that decides acceptance and hits: 0 is the draft's
first choice, the one it sends; `OWN` stands for a token that another source proposed. Laws are `theory.evidence`
values, one for each source of proposals. Must not know: clocks, costs, policies. Tests: tests/simulate/test_pairs.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, islice
from random import Random
from typing import NamedTuple

from saguaro.algorithm.odds import Guesses, guess_odds
from saguaro.algorithm.rounds import EndedRound
from saguaro.errors import ConfigError
from saguaro.simulate.curves import evidence_of, evidence_without_proposal
from saguaro.theory.evidence import LONGEST_CURVE, Evidence
from saguaro.theory.fan_out import PowerLaw

OWN, UNLISTED = -1, 1_000_000
DRAFTED, EMPTY = ("hit", "neural"), ("none", "random")
"""Sources whose tokens the draft drew, and those that are never right."""


class Drawn(NamedTuple):
    """One round of one row: the tokens sent, the target's own up to the bonus token, and the draft's guesses."""

    sent: tuple[int, ...]
    own: tuple[int, ...]
    guesses: list[Guesses]


class Pair(ABC):
    """Rounds of a target and a draft.

    Attributes:
        fixed: the guesses of a round depend on its source and depth alone, so that choices may be kept.
        sources: what can be proposed from.
        hints: what texts suggested, as `algorithm.hints.hint_places` tells it of their places; without any the draft
            gets none.
    """

    fixed: bool = False
    sources: frozenset[str] = frozenset()
    hints: Sequence[tuple[int, int]] = ()

    @abstractmethod
    def evidence(self, source: str) -> Evidence:
        """What is known of rounds that verify a proposal of this source.

        Raises:
            ConfigError: when the pair has none.
        """

    @abstractmethod
    def draw(self, row: int, source: str, depth: int, chance: Random) -> Drawn:
        """The next round of a row, whose proposal has `depth` tokens of `source`."""

    def onward(self, row: int, depth: int, count: int) -> list[tuple[float, ...]]:
        """How sure the draft is of its own next tokens after each outcome of the round that was drawn last.

        Returns:
            Entry k = 0 ... depth: the odds of its first choice at the next `count` positions after k accepted tokens.
        """
        return [tuple(self.evidence("hit").rates(count))] * (depth + 1)

    def left(self, row: int) -> int | None:
        """Tokens that the text of a row still has; None where it never ends."""
        return None


def curve_of(law: PowerLaw, *, first: float = 0.0) -> tuple[float, ...]:
    """A hit curve of a power law; with `first`, the first guess is right so often and the law is that of the others."""
    if not first:
        return tuple(law.hit(guesses) for guesses in range(LONGEST_CURVE + 1))
    return (0.0, *(1 - (1 - first) * law.miss(guesses - 1) for guesses in range(1, LONGEST_CURVE + 1)))


def consistent(acceptance: float, law: PowerLaw) -> Evidence:
    """Rounds of a text in which the draft's first choice is right with probability `acceptance` wherever it stands.

    Then position K needs no curve of its own: nothing is excluded there, so that its first guess is right as often as
    a drafted token, and the others follow the law of rejections.
    """
    return Evidence(acceptance, (), curve_of(law), curve_of(law, first=acceptance))


def unproposed(law: PowerLaw) -> Evidence:
    """Rounds whose proposal is never right (random tokens) or empty: one token, guessed by this law."""
    return Evidence(0.0, (), curve_of(law), curve_of(law))


class LawfulPair(Pair):
    """Rounds drawn from laws, independent of one another.

    Args:
        laws: by source; "draft" stands for `DRAFTED` and "none" for `EMPTY`; both are needed.
        sureness: how far the draft's own odds tell easy positions from hard ones. None: not at all, every position has
            the mean acceptance. A number s: acceptance is drawn anew at each position from a beta law with this mean
            and a + b = s, and the draft knows it; the smaller s, the surer the draft. Curves of position K are then
            those of `consistent`.
        listed: how many guesses of a position the draft lists.
        hints: see `Pair`.
    """

    def __init__(
        self,
        laws: Mapping[str, Evidence],
        *,
        sureness: float | None = None,
        listed: int = 32,
        hints: Sequence[tuple[int, int]] = (),
    ) -> None:
        if not {"draft", "none"} <= set(laws):
            raise ConfigError("a pair needs the laws of rounds with a drafted proposal and without one.")
        if sureness is not None and sureness <= 0:
            raise ConfigError("sureness is a number above 0, or None.")
        self._laws = {**dict.fromkeys(DRAFTED, laws["draft"]), **dict.fromkeys(EMPTY, laws["none"])}
        self._laws |= {name: law for name, law in laws.items() if name not in ("draft", "none")}
        self._sureness, self._listed = sureness, min(listed, LONGEST_CURVE)
        self.hints = hints
        self.fixed = sureness is None
        self.sources = frozenset(self._laws)
        self._guesses = cache(self._fixed_guesses)

    def evidence(self, source: str) -> Evidence:
        """See `Pair.evidence`."""
        if source not in self._laws:
            raise ConfigError(f"this pair has no law for proposals of {source!r}; it has {', '.join(self._laws)}.")
        return self._laws[source]

    def draw(self, row: int, source: str, depth: int, chance: Random) -> Drawn:
        """See `Pair.draw`."""
        law = self.evidence(source)
        first = 0 if source in DRAFTED else OWN
        rates = law.rates(depth)
        if self._sureness is None:
            guesses, last = self._guesses(source, depth), None
        else:
            rates, last = self._moods(rates, law.rate, chance)
            guesses = self._known_guesses(law, rates, last, first)
        accepted = 0
        while accepted < depth and chance.random() < rates[accepted]:
            accepted += 1
        rank = self._rank(law, whole=accepted == depth, last=last, chance=chance)
        # After a rejection the draft's first choice is out, if that is what was sent.
        bonus = rank + (accepted < depth and first == 0)
        return Drawn((first,) * depth, (first,) * accepted + (bonus,), guesses)

    def _moods(self, rates: Sequence[float], mean: float, chance: Random) -> tuple[list[float], float]:
        """Acceptance of this round's positions, and of the one after them."""
        spread = self._sureness or 1.0
        drawn = [
            chance.betavariate(rate * spread, (1 - rate) * spread) if 0 < rate < 1 else rate for rate in (*rates, mean)
        ]
        return drawn[:-1], drawn[-1]

    def _rank(self, law: Evidence, *, whole: bool, last: float | None, chance: Random) -> int:
        """Rank of the bonus token among those that are possible."""
        if whole and last:
            return 0 if chance.random() < last else 1 + _place(law.after_rejection, chance.random())
        return _place(law.after_all if whole else law.after_rejection, chance.random())

    def _fixed_guesses(self, source: str, depth: int) -> list[Guesses]:
        law = self.evidence(source)
        return self._known_guesses(law, law.rates(depth), None, 0 if source in DRAFTED else OWN)

    def _known_guesses(self, law: Evidence, rates: Sequence[float], last: float | None, first: int) -> list[Guesses]:
        """Candidates by rank, with the odds that a perfectly calibrated draft would give them."""
        others = _gains(law.after_rejection, self._listed)
        tokens = list(range(first, first + 1 + self._listed)) if first == OWN else list(range(self._listed + 1))
        before = [Guesses(tokens, [rate, *((1 - rate) * share for share in others)]) for rate in rates]
        if last:
            after = Guesses(list(range(self._listed + 1)), [last, *((1 - last) * share for share in others)])
        else:
            after = Guesses(list(range(self._listed)), list(_gains(law.after_all, self._listed)))
        return [*before, after]


@cache
def _gains(curve: tuple[float, ...], count: int) -> tuple[float, ...]:
    return tuple(curve[place + 1] - curve[place] for place in range(min(count, len(curve) - 1)))


def _place(curve: Sequence[float], chance: float) -> int:
    """The rank whose hit curve first passes `chance`."""
    guesses = bisect_right(curve, chance)
    return guesses - 1 if guesses < len(curve) else UNLISTED


class RecordedPair(Pair):
    """The texts of recorded rounds, walked again with any proposals.

    Which token stood where, and which candidates the draft listed there, does not depend on what was proposed; so every
    depth and source can be tried. Candidates after a token that was rejected are taken from the text as it went on.
    Texts follow one another without end.

    Args:
        rounds: as recorded, those of a request from its first on; `simulate.curves.texts` says how far they reach.
        listed: candidates of a position that count.
        ends: texts end one by one, as requests do (`left`), so that no proposal may reach into the next one; rows begin
            with texts of their own. Otherwise a row walks them as if they were one.
        longest: tokens of each text that are walked; recorded ones lack the tokens of their last round. None is all.
        known: the rounds that evidence is taken from; None takes `rounds`.
        hints: see `Pair`; those of the same texts.
    """

    fixed = False
    sources = frozenset((*DRAFTED, *EMPTY))

    def __init__(
        self,
        rounds: Sequence[EndedRound],
        *,
        listed: int = 32,
        ends: bool = False,
        longest: int | None = None,
        known: Sequence[EndedRound] | None = None,
        hints: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.hints = hints
        seen = rounds if known is None else known
        self._evidence = {
            **dict.fromkeys(DRAFTED, evidence_of(seen)),
            **dict.fromkeys(EMPTY, evidence_without_proposal(seen)),
        }
        texts = [list(islice(each, longest)) for each in _texts(rounds, listed)]
        self._places = [place for each in texts for place in each]
        if len(self._places) < 2:
            raise ConfigError("the recorded rounds hold no text; record some with candidates (`observe=True`).")
        self._sure = [guesses.odds[0] if guesses.odds else 0.0 for _, guesses in self._places]
        self._ends = list(accumulate(len(each) for each in texts if each)) if ends else []
        self._at: dict[int, int] = {}
        self._from: dict[int, int] = {}

    def evidence(self, source: str) -> Evidence:
        """See `Pair.evidence`."""
        if source not in self._evidence:
            raise ConfigError(f"recorded rounds say nothing of proposals of {source!r}.")
        return self._evidence[source]

    def draw(self, row: int, source: str, depth: int, chance: Random) -> Drawn:
        """See `Pair.draw`; rows begin at places of their own."""
        at = self._begun(row)
        window = [self._places[(at + i) % len(self._places)] for i in range(depth + 1)]
        sent = tuple(guesses.tokens[0] if source in DRAFTED else OWN for _, guesses in window[:depth])
        accepted = 0
        while accepted < depth and sent[accepted] == window[accepted][0]:
            accepted += 1
        self._from[row] = at
        self._at[row] = at + accepted + 1
        return Drawn(sent, tuple(token for token, _ in window[: accepted + 1]), [guesses for _, guesses in window])

    def onward(self, row: int, depth: int, count: int) -> list[tuple[float, ...]]:
        """See `Pair.onward`; after a wrong bonus token the draft is taken to be as sure as after the right one."""
        first, places = self._from.get(row, 0) + 1, len(self._sure)
        return [tuple(self._sure[(first + k + i) % places] for i in range(count)) for k in range(depth + 1)]

    def left(self, row: int) -> int | None:
        """See `Pair.left`: of the text in which the round that was drawn last began."""
        if not self._ends:
            return None
        at = self._begun(row)
        began = self._from.get(row, at)
        inside = began % len(self._places)
        return self._ends[bisect_right(self._ends, inside)] - inside - (at - began)

    def _begun(self, row: int) -> int:
        if self._ends:
            starts = [0, *self._ends[:-1]]
            return self._at.setdefault(row, starts[row % len(starts)])
        return self._at.setdefault(row, row * 997 % len(self._places))


def _texts(rounds: Sequence[EndedRound], listed: int) -> Iterator[Iterator[tuple[int, Guesses]]]:
    """Token and candidates of every position of each text."""
    by_request: dict[int, list[EndedRound]] = {}
    for each in rounds:
        by_request.setdefault(each.request, []).append(each)
    for own in by_request.values():
        yield _places(own, listed)


def _places(own: Sequence[EndedRound], listed: int) -> Iterator[tuple[int, Guesses]]:
    for each in own:
        if each.accepted >= len(each.tokens) or not all(each.tokens[: each.accepted + 1]):
            break
        for token, row, scores in zip(each.drawn, each.tokens, each.scores, strict=False):
            yield token, Guesses(list(row[:listed]), guess_odds(scores[:listed]), scores[:listed])
