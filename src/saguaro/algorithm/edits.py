"""What a request changes in its logits before temperature: bias, penalties, tokens that may not come.

In this order, as the field does it: logit bias, repetition penalty (prompt and output), presence and frequency penalty
(output), then what a grammar does not allow, then bans. Every change is elementwise, so a row edited by the draft and
the same row edited by the target agree as far as their logits do. Shapes: V vocabulary. Must not know: models, rows,
proposals (a proposal's tokens are part of the output that is passed). Tests: tests/algorithm/test_edits.py.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import torch

from saguaro.algorithm.options import Sampling


def edit_(
    logits_V: torch.Tensor,
    sampling: Sampling,
    prompt: Sequence[int],
    output: Sequence[int],
    banned_V: torch.Tensor | None = None,
) -> None:
    """Change one row in place.

    Args:
        logits_V: raw logits of the token after `prompt` and `output`; column = id, the last ids may be left out.
        sampling: the options.
        prompt: token ids before the output.
        output: what has been generated, tokens under verification before this position included.
        banned_V: true for the ids that a grammar does not allow here (bool); may be wider than the row.
    """
    vocab = logits_V.shape[0]
    bias = [(token, value) for token, value in sampling.logit_bias if token < vocab]
    if bias:
        logits_V[torch.tensor([token for token, _ in bias])] += torch.tensor([value for _, value in bias])
    if sampling.repetition_penalty != 1:
        seen = _ids({*prompt, *output}, vocab)
        values = logits_V[seen]
        by = sampling.repetition_penalty
        logits_V[seen] = torch.where(values > 0, values / by, values * by)
    if sampling.presence_penalty or sampling.frequency_penalty:
        counts = Counter(output)
        said = _ids(counts, vocab)
        times = torch.tensor([counts[token] for token in said.tolist()], dtype=logits_V.dtype)
        logits_V[said] -= sampling.presence_penalty + sampling.frequency_penalty * times
    if banned_V is not None:
        logits_V.masked_fill_(banned_V[:vocab], -math.inf)
    banned = _ids(_banned(sampling, output, banned_V), vocab)
    if len(banned):
        logits_V[banned] = -math.inf


def _banned(sampling: Sampling, output: Sequence[int], banned_V: torch.Tensor | None) -> list[int]:
    banned = list(sampling.stop_ids) if len(output) < sampling.min_tokens else []
    if banned and banned_V is not None and _nothing_else(banned, banned_V):
        banned = []  # a text that the grammar has ended cannot be made longer
    for word in sampling.bad_words:
        before = len(word) - 1
        if before <= len(output) and list(output[len(output) - before :]) == list(word[:-1]):
            banned.append(word[-1])
    return banned


def _nothing_else(stops: Sequence[int], banned_V: torch.Tensor) -> bool:
    left_V = banned_V.clone()
    left_V[_ids(stops, len(left_V))] = True
    return bool(left_V.all())


def _ids(tokens: Iterable[int], vocab: int) -> torch.Tensor:
    return torch.tensor([token for token in tokens if token < vocab], dtype=torch.int64)
