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


SAME_PLACE, REJECTED_TAIL, SHIFTED = 0, 1, 2
"""Grades of `propose_own_row`: what the tokens stood behind, when they were drafted."""


def propose_own_row(
    accepted: int,
    bonus: int,
    cached: Iterable[tuple[int, int, tuple[int, ...]]],
    *,
    rejected: Sequence[int] = (),
    depth: int,
) -> list[tuple[Proposal, int]]:
    """The row's own drafted tokens for a slightly different text: what follows is often the same.

    Args:
        accepted: k of the outcome that no branch covers.
        bonus: t* of it.
        cached: (k, t*, tokens) of the round's branches, likeliest first.
        rejected: the tokens of the proposal from the first rejected one on.
        depth: how many tokens to propose at most.

    Returns:
        Proposals of certain tokens with their grades, none of them empty: SAME_PLACE, the likeliest branch after as
        many accepted tokens, though for another bonus token; REJECTED_TAIL, what the draft put behind the token that
        was rejected; SHIFTED, what it put behind t* where it expected t* a few tokens later.
    """
    found: list[tuple[Proposal, int]] = []
    here = [(t, tokens) for k, t, tokens in cached if k == accepted and tokens]
    drafted = [*([tuple(rejected)] if rejected else []), *((t, *tokens) for t, tokens in here)]
    shifted = next((line[line.index(bonus) + 1 :] for line in drafted if bonus in line[:-1]), ())
    for grade, tokens in ((SAME_PLACE, here[0][1] if here else ()), (REJECTED_TAIL, rejected[1:]), (SHIFTED, shifted)):
        if tokens and depth > 0:
            found.append((Proposal(tuple(tokens[:depth]), PointMassLaw()), grade))
    return found
