"""Proposals that need no draft model, Section 4.3: answers to a miss that cost no time (T_b = 0).

Each is lawful: it carries the law its tokens were drawn from, so `rejection` stays exact; `shared_noise` needs no law
at all. The neural fallback drafts with the model and therefore lives with the draft.
Must not know: models, processes. Tests: tests/algorithm/test_fallbacks.py.
"""

from __future__ import annotations

from saguaro.algorithm.sampling import uniform
from saguaro.algorithm.terms import NOTHING, Proposal, UniformLaw


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
