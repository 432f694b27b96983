"""The target's law at every position that is learnt, kept as its k likeliest tokens: training then needs no target.

    laws-00007.safetensors   ids (P, k) int32 and log_p (P, k) float16, likeliest first; rest (P) float32, the mass of
                             all others; own (P) float32, the log probability of the token that followed; where
                             asked for, states (P, H) bfloat16, what the last norm made of the hidden states, unweighted

P counts the positions start - 1 ... length - 2 of each text of the shard, in order. The target runs as the engine runs
it, with the same packed weights. Must not know: students. Tests: tests/training/test_texts.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch.nn import functional

from saguaro.execution.batch import Span, pack
from saguaro.execution.kv_pool import KVPool
from saguaro.execution.runner import Runner
from saguaro.models.causal_lm import CausalLM
from saguaro.training.texts import Text

PAGE, CHUNK = 64, 128
BLOCK = 64

Laws = dict[str, torch.Tensor]
"""The tensors of some positions, as they are stored."""


class Reader:
    """Runs the target over finished texts."""

    def __init__(self, model: CausalLM) -> None:
        self._model = model
        self._runner: Runner | None = None
        self._pages = 0

    def logits(self, text: Text) -> torch.Tensor:
        """Logits (P, V) float32 at the positions of a text that are learnt."""
        return self.run(text)[0]

    def run(self, text: Text) -> tuple[torch.Tensor, torch.Tensor]:
        """The same, and the states (P, H) that they were made from (see `run`)."""
        tokens, first = text.tokens[:-1], text.start - 1
        runner = self._room_for(len(tokens))
        found = []
        for begin in range(0, len(tokens), CHUNK):
            part = tokens[begin : begin + CHUNK]
            end = begin + len(part)
            span = Span(
                tokens=part,
                start=begin,
                pages=range(-(-end // PAGE)),
                slots=range(begin, end),
                wanted=max(0, min(len(part), end - first)),
            )
            if span.wanted:
                found.append(run(runner, [span]))
            else:
                runner.run([span])
        return torch.cat([logits for logits, _ in found]), torch.cat([states for _, states in found])

    def _room_for(self, length: int) -> Runner:
        pages = -(-length // PAGE)
        if self._runner is None or pages > self._pages:
            pool = KVPool(self._model.config, pages * PAGE, self._model.pool_dtype)
            self._runner, self._pages = Runner(self._model, pool, PAGE), pages
        return self._runner


def run(runner: Runner, spans: Sequence[Span]) -> tuple[torch.Tensor, torch.Tensor]:
    """One pass: logits (W, V) float32 of the wanted tokens, and their hidden states (W, H) before the last norm."""
    batch = pack(spans, runner.page_size)
    hidden_TH = runner.model.forward(batch.tokens_T, batch.plan, runner.pool)
    assert hidden_TH is not None
    hidden_WH = hidden_TH[batch.wanted_W]
    return runner.model.logits(hidden_WH), hidden_WH


def law_path(folder: Path, name: str) -> Path:
    """The file of a shard's laws."""
    return folder / f"laws-{name}.safetensors"


def laws_of(reader: Reader, texts: Sequence[Text], k: int, *, states: bool = False) -> Laws:
    """The tensors of a shard."""
    found: list[Laws] = []
    for text in texts:
        logits_PV, hidden_PH = reader.run(text)
        values_PK, ids_PK = likeliest(logits_PV, min(k, logits_PV.shape[-1]))
        found.append(laws_from(logits_PV, values_PK, ids_PK, torch.tensor(text.tokens[text.start :])))
        if states:
            found[-1]["states"] = unit(hidden_PH)
    return {name: torch.cat([each[name] for each in found]) for name in found[0]}


def laws_from(
    logits_PV: torch.Tensor, values_PK: torch.Tensor, ids_PK: torch.Tensor, following_P: torch.Tensor
) -> Laws:
    """Laws as they are stored.

    Args:
        logits_PV: the target's.
        values_PK: the largest of them, largest first.
        ids_PK: the tokens that have them.
        following_P: the token that followed each position.
    """
    whole_P = logits_PV.logsumexp(-1)
    log_p_PK = values_PK - whole_P[:, None]
    if ids_PK.shape[-1] == logits_PV.shape[-1]:
        rest_P = torch.zeros_like(whole_P)
    else:
        rest_P = (1 - log_p_PK.double().exp().sum(-1)).clamp(min=0).float()
    return {
        "ids": ids_PK.to(torch.int32),
        "log_p": log_p_PK.clamp(min=-60000).to(torch.float16),
        "rest": rest_P,
        "own": logits_PV.gather(1, following_P[:, None])[:, 0] - whole_P,
    }


def unit(hidden_PH: torch.Tensor) -> torch.Tensor:
    """States as they are stored: bfloat16, brought to the root mean square 1, as the last norm does."""
    return functional.rms_norm(hidden_PH, (hidden_PH.shape[-1],)).to(torch.bfloat16)


def likeliest(logits_PV: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Values and ids (P, k) of the largest logits, largest first.

    Of a large vocabulary only the k columns of a table with the largest maxima are looked at: the k largest logits are
    in them, and finding maxima takes a tenth of the time of sorting.
    """
    rows, vocab = logits_PV.shape
    width = vocab // BLOCK
    if width < 4 * k or vocab % BLOCK:
        found = logits_PV.topk(k, dim=-1)
        return found.values, found.indices
    table_PBC = logits_PV.view(rows, BLOCK, width)
    columns_PK = table_PBC.amax(1).topk(k, dim=-1).indices
    candidates = table_PBC.gather(2, columns_PK[:, None, :].expand(-1, BLOCK, -1)).flatten(1)
    found = candidates.topk(k, dim=-1)
    block_PK, column_PK = found.indices // k, found.indices % k
    return found.values, block_PK * width + columns_PK.gather(1, column_PK)
