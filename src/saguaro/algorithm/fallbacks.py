"""Proposals that need no draft model, Section 4.3: answers to a miss that cost no time (T_b = 0).

Each is lawful: it carries the law its tokens were drawn from, so `rejection` stays exact; `shared_noise` needs no law
at all. The neural fallback drafts with the model and therefore lives with the draft.
Must not know: models, processes. Tests: tests/algorithm/test_fallbacks.py.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from saguaro.algorithm.sampling import uniform
from saguaro.algorithm.terms import NOTHING, PointMassLaw, Proposal, UniformLaw

LONGEST_SUFFIX = 4


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


def propose_ngram(tokens: Sequence[int], *, depth: int) -> Proposal:
    """What followed the last time that the text ended like this: the longest suffix of up to four tokens counts.

    Args:
        tokens: prompt and output.
        depth: how many tokens to propose at most.

    Returns:
        A proposal of certain tokens; nothing where the last token is new to the text.
    """
    text = array("i", tokens).tobytes()
    for size in range(min(LONGEST_SUFFIX, len(tokens) - 1), 0, -1):
        suffix = text[-4 * size :]
        at = text.rfind(suffix, 0, len(text) - 4)
        while at % 4 and at > 0:  # bytes that match across tokens
            at = text.rfind(suffix, 0, at + len(suffix) - 1)
        if at >= 0 and at % 4 == 0:
            start = at // 4 + size
            return Proposal(tuple(tokens[start : start + depth]), PointMassLaw())
    return NOTHING


def propose_own_row(accepted: int, cached: Iterable[tuple[int, tuple[int, ...]]], *, depth: int) -> Proposal:
    """The tokens of the row's likeliest branch after as many accepted tokens, though it guessed another bonus token:
    what follows is often the same.

    Args:
        accepted: k of the outcome that no branch covers.
        cached: (k, tokens) of the round's branches, likeliest first.
        depth: how many tokens to propose at most.
    """
    for position, tokens in cached:
        if position == accepted and tokens:
            return Proposal(tuple(tokens[:depth]), PointMassLaw())
    return NOTHING
