"""From an opened checkpoint to a model that runs: choose the operations, pack or load packed weights, build.

Must not know: engines, rounds. Tests: tests/models/test_build.py, tests/conformance/test_models.py.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from saguaro.errors import ConfigError
from saguaro.models import packed_cache
from saguaro.models.causal_lm import CausalLM
from saguaro.models.checkpoint import Checkpoint
from saguaro.models.decoder import Decoder, DecoderWeights, pack_weights
from saguaro.models.layers import LAYER_OPS
from saguaro.models.layers.base import LayerOps
from saguaro.models.markov import MarkovModel
from saguaro.models.toy import ToyCheckpoint


def make_ops(name: str, kind: str, **options: Any) -> LayerOps:
    """A member of the table of layer operations.

    Args:
        name: "native", "torch" or a dotted path.
        kind: how weights are kept, "float32", "bfloat16", "int8" or "int4".
        options: of that member, for example `team` (native) or `device` (torch).

    Raises:
        ConfigError: an unknown member, or a kind that it does not have.
    """
    ops: LayerOps = LAYER_OPS.get(name)(kind, **options)
    return ops


def build_model(
    checkpoint: Checkpoint,
    ops: LayerOps,
    *,
    max_positions: int | None = None,
    cache_dir: Path | None = None,
    head_ids: Sequence[int] | None = None,
) -> CausalLM:
    """Read and pack the weights and build the model.

    Args:
        checkpoint: an opened model.
        ops: the arithmetic, from `make_ops`.
        max_positions: positions that will be asked for; by default the model's own, at most 8,192.
        cache_dir: folder of packed weights; None packs every time.
        head_ids: tokens that the head keeps (a draft's shortlist); column i of the logits is token head_ids[i].

    Raises:
        ConfigError, WeightsError: the checkpoint cannot be read as this kind.
    """
    config = checkpoint.config
    if isinstance(checkpoint, ToyCheckpoint) and checkpoint.markov is not None:
        if head_ids is not None:
            raise ConfigError("a table model has no head to cut down; leave the shortlist out.")
        return MarkovModel(config, checkpoint.markov, pool_dtype=ops.pool_dtype, max_positions=max_positions)
    head_ids_S = None if head_ids is None else torch.tensor(list(head_ids), dtype=torch.int64)

    def pack() -> DecoderWeights:
        return pack_weights(config, checkpoint.weights(), ops, head_ids_S=head_ids_S)

    if cache_dir is None or not ops.layout:
        weights = pack()
    else:
        path, key = _cache_place(cache_dir, checkpoint, ops, head_ids)
        weights = packed_cache.load_or_pack(path, key, ops, num_layers=config.num_layers, pack=pack)
    return Decoder(config, weights, ops, max_positions=max_positions)


def _cache_place(
    cache_dir: Path, checkpoint: Checkpoint, ops: LayerOps, head_ids: Sequence[int] | None
) -> tuple[Path, str]:
    """Where the packed weights lie, and the key that tells whether they are still the right ones.

    The place depends on what was asked for, the key also on the files' content and on the kernels: an update of either
    replaces the file instead of leaving gigabytes behind.
    """
    shortlist = "" if head_ids is None else ",".join(str(token) for token in head_ids)
    key = packed_cache.cache_key(checkpoint.fingerprint, ops.layout, shortlist)
    source = Path(checkpoint.source)
    where = str(source.resolve()) if os.path.exists(source) else checkpoint.source
    name = "".join(letter if letter.isalnum() else "-" for letter in source.stem)[-40:]
    place = packed_cache.cache_key(where, ops.kind, shortlist)
    return cache_dir / f"{name}-{ops.kind}-{place[:12]}.packed", key
