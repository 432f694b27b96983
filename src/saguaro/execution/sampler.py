"""The target's own draw at every position, exactly as it would be without speculation (DESIGN D1).

The fast path draws argmax(logit / T - log E) in one native pass over the row; filters take the row through
`algorithm/sampling.py`, which is also the oracle of the fast path. Which path is taken depends on the request alone,
never on the batch. Must not know: proposals, outcomes, caches. Tests: tests/execution/test_sampler.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from saguaro import native
from saguaro.algorithm import sampling
from saguaro.algorithm.edits import edit_
from saguaro.algorithm.options import Sampling
from saguaro.algorithm.ranking import stable_topk
from saguaro.models.grammar import Allowed
from saguaro.request import TokenLogprob


@dataclass(frozen=True, slots=True)
class Draw:
    """How one row is drawn: the options of its choice and its absolute position.

    `prompt` and `output` are the tokens before that position; they may be left out where the options change no logits.
    `allowed` is what a grammar lets come there; None lets anything.
    """

    sampling: Sampling
    position: int
    prompt: Sequence[int] = ()
    output: Sequence[int] = ()
    allowed: Allowed | None = None

    @property
    def key(self) -> tuple[int, int]:
        """The noise key (two 32-bit words)."""
        return self.sampling.key(self.position)

    @property
    def only(self) -> int | None:
        """The one token that a grammar allows here, if there is just one."""
        return None if self.allowed is None else self.allowed.only


def edit_rows_(logits_RV: torch.Tensor, draws: Sequence[Draw], ids_V: torch.Tensor | None = None) -> None:
    """Bias, penalties, grammar and bans of each row, in place; before anything is drawn or ranked.

    `ids_V` (int32): token of each column, where column is not id.
    """
    for row, one in enumerate(draws):
        if one.sampling.edited:
            banned_V = None if one.allowed is None else one.allowed.banned_V
            row_V = logits_RV[row] if ids_V is None else _by_token(logits_RV[row], ids_V)
            edit_(row_V, one.sampling, one.prompt, one.output, banned_V)
            if ids_V is not None:
                logits_RV[row] = row_V[ids_V]


def _by_token(values_S: torch.Tensor, ids_S: torch.Tensor) -> torch.Tensor:
    """Logits of some tokens as a row over all ids up to the largest; the others cannot come."""
    row_V = torch.full((int(ids_S.max()) + 1,), -math.inf)
    row_V[ids_S] = values_S
    return row_V


def draw_tokens(logits_RV: torch.Tensor, draws: Sequence[Draw]) -> list[int]:
    """The token of each row; -1 where the row holds a NaN (that row fails, no other)."""
    out_R = torch.empty(len(draws), dtype=torch.int32)
    native.argmax_noisy(logits_RV, *_keys_and_temperatures(draws), out_R)
    tokens = out_R.tolist()
    for row, one in enumerate(draws):
        if one.sampling.filtered and tokens[row] >= 0:
            scores_V = _filtered_scores(logits_RV[row : row + 1], one)
            tokens[row] = int(torch.argmax(scores_V))
    return tokens


def top_candidates(
    logits_RV: torch.Tensor, draws: Sequence[Draw], count: int, ids_V: torch.Tensor | None = None
) -> tuple[list[list[int]], list[list[float]]]:
    """The `count` likeliest tokens of each row under its noise, best first, and their noisy scores: what the draft
    expects the target to draw. `ids_V` (int32): token of each column, where column is not id.
    """
    count = min(count, logits_RV.shape[1])
    ids_Rn = torch.empty(len(draws), count, dtype=torch.int32)
    scores_Rn = torch.empty(len(draws), count, dtype=torch.float32)
    native.top_noisy(logits_RV, *_keys_and_temperatures(draws), ids_Rn, scores_Rn, token_ids_V=ids_V)
    ranked, scores = ids_Rn.tolist(), scores_Rn.tolist()
    for row, one in enumerate(draws):
        if one.sampling.filtered:
            best = torch.topk(_filtered_scores(logits_RV[row : row + 1], one, ids_V), count)
            ids_n = best.indices if ids_V is None else ids_V[best.indices]
            ranked[row], scores[row] = ids_n.tolist(), best.values.tolist()
        fine = sum(1 for score in scores[row] if score > float("-inf"))
        ranked[row], scores[row] = ranked[row][:fine], scores[row][:fine]
    return ranked, scores


def token_logprobs(logits_RV: torch.Tensor, tokens: Sequence[int], count: int) -> list[TokenLogprob]:
    """Log probability of row r's token and of its `count` likeliest tokens, under softmax of the logits as they are."""
    logprobs_RV = torch.log_softmax(logits_RV[: len(tokens)], dim=-1)
    chosen = logprobs_RV.gather(1, torch.tensor(tokens)[:, None])[:, 0].tolist()
    if not count:
        return [TokenLogprob(token, value) for token, value in zip(tokens, chosen, strict=True)]
    values, ids = stable_topk(logprobs_RV, count)
    tops = [list(zip(i, v, strict=True)) for i, v in zip(ids.tolist(), values.tolist(), strict=True)]
    return [TokenLogprob(*each) for each in zip(tokens, chosen, tops, strict=True)]


def _keys_and_temperatures(draws: Sequence[Draw]) -> tuple[torch.Tensor, torch.Tensor]:
    keys_R2 = torch.tensor([(0, 0) if d.sampling.temperature == 0 else d.key for d in draws], dtype=torch.int64)
    temperature_R = torch.tensor([d.sampling.temperature for d in draws], dtype=torch.float32)
    return keys_R2, temperature_R


def laws(logits_RV: torch.Tensor, draws: Sequence[Draw]) -> torch.Tensor:
    """The law (R, V) that each row is drawn from."""
    columns = zip(*(filters(d.sampling) for d in draws), strict=True)
    return sampling.law(logits_RV, *(list(column) for column in columns))


def filters(options: Sampling) -> tuple[float, float, float, float]:
    """Temperature, top-k, top-p and min-p, in the order in which `algorithm/sampling.py` takes them."""
    return options.temperature, options.top_k, options.top_p, options.min_p


def _filtered_scores(logits_1V: torch.Tensor, one: Draw, ids_V: torch.Tensor | None = None) -> torch.Tensor:
    """Noisy scores of one row under its filters; what is filtered out is -inf."""
    scores_1V = sampling.processed_scores(logits_1V, *filters(one.sampling))
    gumbel_V = torch.empty(scores_1V.shape[1], dtype=torch.float32)
    native.gumbel(one.key, gumbel_V, token_ids_V=ids_V)
    return scores_1V[0] + gumbel_V
