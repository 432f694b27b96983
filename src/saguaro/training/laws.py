"""The target's law at every position that is learnt, kept as its k likeliest tokens: training then needs no target.

    laws-00007.safetensors   ids (P, k) int32 and log_p (P, k) float16, likeliest first; rest (P) float32, the mass of
                             all others; own (P) float32, the log probability of the token that followed

P counts the positions start - 1 ... length - 2 of each text of the shard, in order. The target runs as the engine runs
it, with the same packed weights. Must not know: students. Tests: tests/training/test_texts.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from saguaro.execution.batch import Span
from saguaro.execution.kv_pool import KVPool
from saguaro.execution.runner import Runner
from saguaro.models.causal_lm import CausalLM
from saguaro.training.texts import Text, path_of, read

PAGE, CHUNK = 64, 128


class Reader:
    """Runs the target over finished texts."""

    def __init__(self, model: CausalLM) -> None:
        self._model = model
        self._runner: Runner | None = None
        self._pages = 0

    def logits(self, text: Text) -> torch.Tensor:
        """Logits (P, V) float32 at the positions of a text that are learnt."""
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
            logits_WV = runner.run([span])
            if span.wanted and logits_WV is not None:
                found.append(logits_WV)
        return torch.cat(found)

    def _room_for(self, length: int) -> Runner:
        pages = -(-length // PAGE)
        if self._runner is None or pages > self._pages:
            pool = KVPool(self._model.config, pages * PAGE, self._model.pool_dtype)
            self._runner, self._pages = Runner(self._model, pool, PAGE), pages
        return self._runner


def law_path(folder: Path, name: str) -> Path:
    """The file of a shard's laws."""
    return folder / f"laws-{name}.safetensors"


def write_laws(
    folder: Path,
    names: Sequence[str],
    open_model: Callable[[], CausalLM],
    *,
    top_k: Callable[[str], int],
    goes_on: Callable[[str], bool],
    on_shard: Callable[[int], None],
) -> list[str]:
    """Write the laws that are not there yet, and return the names of all shards that have them now.

    Args:
        folder: of texts and laws.
        names: shards whose texts are there.
        open_model: the target, loaded when laws are missing.
        top_k: tokens that a shard keeps of each law.
        goes_on: asked before each shard is made, by name; False ends it.
        on_shard: told the positions of each shard.
    """
    reader: Reader | None = None
    done: list[str] = []
    for name in names:
        texts = read(path_of(folder, name))
        path = law_path(folder, name)
        if not path.exists():
            if not goes_on(name):
                break
            reader = reader or Reader(open_model())
            staging = path.with_name(path.name + ".writing")
            save_file(laws_of(reader, texts, top_k(name)), staging)
            staging.replace(path)
        done.append(name)
        on_shard(sum(len(text.tokens) - text.start for text in texts))
    return done


def laws_of(reader: Reader, texts: Sequence[Text], k: int) -> dict[str, torch.Tensor]:
    """The tensors of a shard."""
    ids, log_ps, rests, owns = [], [], [], []
    for text in texts:
        log_p_PV = reader.logits(text).log_softmax(-1)
        kept = log_p_PV.topk(min(k, log_p_PV.shape[-1]), dim=-1)
        ids.append(kept.indices.to(torch.int32))
        log_ps.append(kept.values.clamp(min=-60000).to(torch.float16))
        whole = k >= log_p_PV.shape[-1]
        rest = torch.zeros(len(log_p_PV)) if whole else 1 - kept.values.double().exp().sum(-1)
        rests.append(rest.clamp(min=0).float())
        following = torch.tensor(text.tokens[text.start :])
        owns.append(log_p_PV.gather(1, following[:, None])[:, 0])
    return {"ids": torch.cat(ids), "log_p": torch.cat(log_ps), "rest": torch.cat(rests), "own": torch.cat(owns)}
