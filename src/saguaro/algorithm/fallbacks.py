"""Proposals that need no draft model, Section 4.3: answers to a miss that cost no time (T_b = 0).

Each is lawful: it carries the law its tokens were drawn from, so `rejection` stays exact; `shared_noise` needs no law
at all. The neural fallback drafts with the model and therefore lives with the draft.
Must not know: models, processes. Tests: tests/algorithm/test_fallbacks.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from saguaro.algorithm.sampling import uniform
from saguaro.algorithm.suffix_index import Corpus, SuffixIndex
from saguaro.algorithm.terms import NOTHING, PointMassLaw, Proposal, UniformLaw


def propose_nothing() -> Proposal:
    """Propose nothing: the round gives one token and costs one row."""
    return NOTHING


def propose_random(seed: int, choice: int, *, position: int, round_number: int, depth: int, vocab: int) -> Proposal:
    """`depth` tokens drawn uniformly from `vocab` ids, with that law.

    Args:
        seed: the request's key.
        choice: index of the choice.
        position: absolute position of the first proposed token.
        round_number: number of the verification that the proposal is for.
        depth: how many tokens to propose.
        vocab: V of the target.
    """
    tokens = tuple(
        min(
            int(
                vocab
                * uniform(seed, choice, position=position + i, round_number=round_number, branch=None, purpose="draft")
            ),
            vocab - 1,
        )
        for i in range(depth)
    )
    return Proposal(tokens, UniformLaw(vocab))


def propose_ngram(text: SuffixIndex, *, depth: int, corpus: Corpus | None = None) -> tuple[Proposal, int]:
    """What followed the last time that a text ended like this: the longest suffix of up to four tokens counts.

    Args:
        text: prompt and output of the row.
        depth: how many tokens to propose at most.
        corpus: earlier outputs, asked where the row's own text holds nothing as long.

    Returns:
        A proposal of certain tokens, and how many tokens of the suffix matched; nothing and 0 where the last token is
        new to both.
    """
    own = text.longest_of_end()
    if corpus is not None:
        size, tokens = corpus.longest(text.end, depth)
        if size > own.size and tokens:
            return Proposal(tokens, PointMassLaw()), size
    if not own.size or depth < 1:
        return NOTHING, 0
    return Proposal(text.following(own.place, depth), PointMassLaw()), own.size


ALONE, MAJORITY, UNANIMOUS, ELSEWHERE = range(4)
"""Grades of `propose_own_row`: how many of the lines drafted for a place begin alike, or that t* stood in another."""


def propose_own_row(
    accepted: int,
    bonus: int,
    cached: Iterable[tuple[int, int, tuple[int, ...]]],
    *,
    rejected: Sequence[int] = (),
    depth: int,
) -> list[tuple[Proposal, int]]:
    """The row's own drafted tokens, though they were drafted for a slightly different text.

    What follows t* is often what would have followed another token in its place: the lines drafted for this place are
    those of the branches after as many accepted tokens, and what the proposal had behind the token that was rejected.
    They are right about three times as often where several begin alike, hence the grades. And where t* itself stands
    in a line, the target has left something out or has come to another of the expected texts: what followed t* there
    follows it here.

    Args:
        accepted: k of the outcome that no branch covers.
        bonus: t* of it.
        cached: (k, t*, tokens) of the round's branches, likeliest first.
        rejected: the tokens of the proposal from the first rejected one on.
        depth: how many tokens to propose at most.

    Returns:
        At most two proposals of certain tokens with their grades, none of them empty.
    """
    if depth < 1:
        return []
    branches = [(k, (t, *tokens)) for k, t, tokens in cached if tokens]
    here = [line for k, line in branches if k == accepted] + ([tuple(rejected)] if len(rejected) > 1 else [])
    found: list[tuple[Proposal, int]] = []
    if here:
        firsts = [line[1] for line in here]
        votes = max(map(firsts.count, firsts))
        first = next(token for token in firsts if firsts.count(token) == votes)
        line = max((line for line in here if line[1] == first), key=len)
        grade = ALONE if votes == 1 else UNANIMOUS if votes == len(here) else MAJORITY
        found.append((Proposal(line[1 : depth + 1], PointMassLaw()), grade))
    elsewhere = here + [line for k, line in branches if k != accepted]
    for line in elsewhere:
        if bonus in line[:-1]:
            at = line.index(bonus) + 1
            found.append((Proposal(line[at : at + depth], PointMassLaw()), ELSEWHERE))
            break
    return found
