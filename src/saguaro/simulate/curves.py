"""What recorded rounds say of a pair: acceptance by position, ranks of bonus tokens, tokens a round by lookahead.

Rounds without a proposal (prefill, the end of a request) say nothing about rejections and are left out of curves.
Must not know: engines. Tests: tests/simulate/test_curves.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from saguaro.algorithm.rounds import EndedRound
from saguaro.theory.evidence import LONGEST_CURVE, Evidence, assumed

CURVE_WEIGHT, RATE_WEIGHT = 4.0, 2.0
"""Rounds that an assumption counts as, beside those that were seen."""


class Place(NamedTuple):
    """One position of a text: the target's own token, the draft's first choice, and the token's rank in its list."""

    token: int
    first: int
    rank: int | None


def proposed(rounds: Sequence[EndedRound]) -> list[EndedRound]:
    """The rounds that verified something and of which the candidates of the outcome were listed."""
    return [each for each in rounds if each.sent and each.accepted < len(each.tokens)]


def bonus_ranks(rounds: Sequence[EndedRound], *, after_all: bool) -> list[int | None]:
    """Rank of the bonus token without the sent one, after a rejection or after all were accepted; None: not listed."""
    return [each.bonus_rank() for each in proposed(rounds) if each.whole == after_all]


def start_ranks(rounds: Sequence[EndedRound]) -> list[int | None]:
    """Rank of the first token of each round's text, with nothing excluded.

    This is the only outcome of a round that verifies nothing, as after a miss that was answered by nothing, and very
    nearly that of one that verifies random tokens: what p_hit,b is made of.
    """
    return [_rank(each.tokens[0], each.drawn[0]) for each in rounds if each.number > 0 and each.tokens]


def accepted_and_tried(rounds: Sequence[EndedRound]) -> tuple[list[int], list[int]]:
    """Accepted and verified tokens of each position, up to the first rejection."""
    depth = max((len(each.sent) for each in rounds), default=0)
    accepted, tried = [0] * depth, [0] * depth
    for each in rounds:
        for place in range(min(each.accepted + 1, len(each.sent))):
            tried[place] += 1
            accepted[place] += place < each.accepted
    return accepted, tried


def evidence_of(rounds: Sequence[EndedRound]) -> Evidence:
    """What a draft may expect that has seen these rounds: measured curves, leaning a little on the assumed ones."""
    accepted, tried = accepted_and_tried(rounds)
    start = assumed()
    rate = (RATE_WEIGHT * start.rate + sum(accepted)) / (RATE_WEIGHT + sum(tried))
    by_place = tuple(
        (RATE_WEIGHT * rate + kept) / (RATE_WEIGHT + count) for kept, count in zip(accepted, tried, strict=True)
    )
    curves = [
        hit_curve(bonus_ranks(rounds, after_all=kind), prior)
        for kind, prior in ((False, start.after_rejection), (True, start.after_all))
    ]
    return Evidence(rate, by_place, curves[0], curves[1])


def evidence_without_proposal(rounds: Sequence[EndedRound]) -> Evidence:
    """The same for rounds whose proposal is never right: the first token of the text is the bonus token."""
    curve = hit_curve(start_ranks(rounds), assumed().after_all)
    return Evidence(0.0, (), curve, curve)


def hit_curve(
    ranks: Sequence[int | None], prior: Sequence[float], *, weight: float = CURVE_WEIGHT
) -> tuple[float, ...]:
    """Entry F: how likely the bonus token is among the first F guesses; entry 0 is 0.

    Args:
        ranks: as `bonus_ranks` gives them.
        prior: such a curve, which counts as `weight` rounds.
        weight: 0 gives the shares as they were seen.
    """
    found = [0] * LONGEST_CURVE
    for rank in ranks:
        if rank is not None and rank < LONGEST_CURVE:
            found[rank] += 1
    total, curve = 0, [0.0]
    for guesses in range(1, LONGEST_CURVE + 1):
        total += found[guesses - 1]
        curve.append((weight * prior[guesses] + total) / max(weight + len(ranks), 1e-9))
    return tuple(curve)


def cut(rounds: Sequence[EndedRound], lookahead: int) -> list[EndedRound]:
    """The rounds as proposals of `lookahead` tokens would have ended."""
    return [each.cut(lookahead) for each in rounds]


def texts(rounds: Sequence[EndedRound]) -> Iterator[list[Place]]:
    """Each request's output as the draft saw it, position by position, as far as candidates were listed."""
    for own in _by_request(rounds).values():
        yield [Place(token, row[0], _rank(row, token)) for token, row, _ in _listed(own)]


def walked(rounds: Sequence[EndedRound], lookahead: int) -> list[EndedRound]:
    """The rounds that whole proposals of another lookahead would have had on the same texts, up to their ends.

    Every position of a text was ranked by the draft after a right prefix, so the rounds of any lookahead follow: a
    proposal is right until the draft's first choice is not the target's token. Candidates after a token that was
    refused are those of the text as it went on.
    """
    found = []
    for request, own in _by_request(rounds).items():
        places = list(_listed(own))
        at = number = depth = 0  # the first token comes from the prompt, whose round verifies nothing
        while at + depth < len(places):
            window = places[at : at + depth + 1]
            sent = tuple(row[0] for _, row, _ in window[:depth])
            accepted = 0
            while accepted < depth and sent[accepted] == window[accepted][0]:
                accepted += 1
            lists, scores = tuple(row for _, row, _ in window), tuple(row for _, _, row in window)
            bonus = window[accepted][0]
            found.append(EndedRound(request, number, True, sent, accepted, bonus, lookahead, lists, scores))
            at, number, depth = at + accepted + 1, number + 1, lookahead
    return found


def _by_request(rounds: Sequence[EndedRound]) -> dict[int, list[EndedRound]]:
    found: dict[int, list[EndedRound]] = {}
    for each in rounds:
        found.setdefault(each.request, []).append(each)
    return found


def _listed(own: Sequence[EndedRound]) -> Iterator[tuple[int, tuple[int, ...], tuple[float, ...]]]:
    """Token, candidates and their scores of each position of one request, up to the first that was not listed."""
    for each in own:
        if each.accepted >= len(each.tokens) or not all(each.tokens[: each.accepted + 1]):
            break
        yield from zip(each.drawn, each.tokens, each.scores, strict=False)


def tokens_a_round(rounds: Sequence[EndedRound], most: int) -> list[float]:
    """E(0) ... E(most): tokens a round of plain decoding with a lookahead, exact on the recorded texts."""
    expected = [1.0]
    for lookahead in range(1, most + 1):
        own = [each.accepted + 1 for each in walked(rounds, lookahead) if each.number]
        expected.append(sum(own) / len(own) if own else expected[-1])
    return expected


def _rank(listed: Sequence[int], token: int) -> int | None:
    return listed.index(token) if token in listed else None
