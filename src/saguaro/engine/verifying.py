"""From logits to outcomes (Algorithm 1, line 8): what the target draws at each position, and what then holds.

Bias, penalties, grammar and bans are applied first, at each position for the tokens before it, those under verification
included. Must not know: channels, the draft, clocks. Tests: tests/lossless/.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows

import torch

from saguaro.algorithm import sampling, verify, verify_tree
from saguaro.algorithm.proposal_tree import ProposalTree
from saguaro.algorithm.terms import DenseLaw, Outcome, Proposal
from saguaro.engine.sequence import Sequence
from saguaro.execution.sampler import draw_tokens, edit_rows_, filters

NOTHING_LEFT = "bad_words leave no token that the grammar allows; drop one of them."
BEYOND_WORDS = "the model has no token with which this text of the grammar could go on."


def outcomes(logits_WV: torch.Tensor, rows: Rows[Sequence], *, rejection: bool) -> list[list[int]]:
    """Accepted tokens and the bonus token of each row; an empty list where none can be drawn (`Sequence.failure`).

    Bias, penalties, grammar and bans are applied to `logits_WV` in place.
    """
    result: list[list[int]] = []
    at = 0
    draws = [draw for s in rows for draw in s.draws()]
    edit_rows_(logits_WV, draws)
    own = [] if rejection else draw_tokens(logits_WV, draws)
    for s in rows:
        end = at + len(s.proposed.tokens) + 1
        if s.proposed.tree is not None:
            tokens = _on_tree(logits_WV[at:end], own[at:end], s, s.proposed.tree)
        else:
            tokens = _rejection(logits_WV[at:end], s) if rejection else _shared_noise(own[at:end], s.proposed.tokens)
        if s.grammar is not None and (s.grammar.error or not tokens):
            tokens, s.failure = [], _failure(s, logits_WV[at:end])
        result.append(tokens)
        at = end
    return result


def _shared_noise(own: list[int], proposed: tuple[int, ...]) -> list[int]:
    outcome = verify.verify_shared_noise(own, proposed)
    kept = own[: outcome.accepted + 1]
    return [] if -1 in kept else kept


def _on_tree(logits_JV: torch.Tensor, own: list[int], s: Sequence, tree: ProposalTree) -> list[int]:
    """The path on which a walk of the tree ends, and the bonus token; `own` is empty under rejection."""
    outcome = verify_tree.verify_tree_shared_noise(own, tree) if own else _tree_rejection(logits_JV, s, tree)
    s.proposed.node = outcome.accepted
    return [] if outcome.bonus < 0 else [*tree.tokens_to(outcome.accepted), outcome.bonus]


def _tree_rejection(logits_JV: torch.Tensor, s: Sequence, tree: ProposalTree) -> Outcome:
    """Nodes of a tree that was grown are certain, given what precedes them, and so are siblings of a chain whose own
    tokens were drawn; a row that holds NaN ends without a token.
    """
    if bool(torch.isnan(logits_JV).any()):
        return Outcome(0, sampling.BROKEN_ROW)
    own = s.submission.sampling
    accept, residual = verify_tree.tree_uniforms(
        own.seed, own.choice, position=len(s.tokens), round_number=s.round, tree=tree
    )
    p_JV, law = sampling.law(logits_JV, *filters(own)), s.proposed.law
    laws = dict(enumerate(law.q_KV)) if isinstance(law, DenseLaw) else None
    return verify_tree.verify_tree_rejection(
        p_JV, tree, laws, accept_uniforms=accept, residual_uniforms=residual, first_only=True
    )


def _rejection(logits_JV: torch.Tensor, s: Sequence) -> list[int]:
    if bool(torch.isnan(logits_JV).any()):
        return []
    own, p = s.submission.sampling, s.proposed
    empty_J = _empty(logits_JV) if s.grammar is not None else torch.zeros(len(logits_JV), dtype=torch.bool)
    p_JV = sampling.law(torch.where(empty_J[:, None], 0.0, logits_JV), *filters(own))
    accept, residual = verify.rejection_uniforms(
        own.seed, own.choice, position=len(s.tokens), round_number=s.round, branch=None, depth=len(p.tokens)
    )
    outcome = verify.verify_rejection(
        p_JV, Proposal(p.tokens, p.law), accept_uniforms=accept, residual_uniforms=residual
    )
    if bool(empty_J[: outcome.accepted + 1].any()):
        return []
    return [*p.tokens[: outcome.accepted], outcome.bonus]


def _empty(logits_JV: torch.Tensor) -> torch.Tensor:
    """Rows of which no token is left."""
    return logits_JV.amax(dim=1) == float("-inf")


def _failure(s: Sequence, logits_JV: torch.Tensor) -> str:
    """Why a row with a grammar drew nothing."""
    assert s.grammar is not None
    if s.grammar.error:
        return f"the grammar became too much work: {s.grammar.error}."
    if not bool(_empty(logits_JV).any()):
        return s.failure
    return NOTHING_LEFT if s.submission.sampling.bad_words else BEYOND_WORDS


def asked_for_it(s: Sequence) -> bool:
    """Whether the request itself is why nothing could be drawn: its grammar, or its grammar and its bad words."""
    return s.grammar is not None and (bool(s.grammar.error) or s.failure in (NOTHING_LEFT, BEYOND_WORDS))
