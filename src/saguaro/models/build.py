"""From an opened checkpoint to a model that runs: choose the operations, pack or load packed weights, build.

Must not know: engines, rounds. Tests: tests/models/test_build.py, tests/conformance/test_models.py.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from saguaro.errors import ConfigError
from saguaro.models import packed_cache
from saguaro.models.causal_lm import CausalLM
from saguaro.models.checkpoint import Checkpoint
from saguaro.models.decoder import Decoder, DecoderWeights, pack_weights
from saguaro.models.layers import LAYER_OPS
from saguaro.models.layers.base import LayerOps
from saguaro.models.markov import MarkovModel
from saguaro.models.short_head import ShortHead
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
    fixed: int | None = None,
) -> CausalLM:
    """Read and pack the weights and build the model.

    Args:
        checkpoint: an opened model.
        ops: the arithmetic, from `make_ops`.
        max_positions: positions that will be asked for; by default the model's own, at most 8,192.
        cache_dir: folder of packed weights; None packs every time.
        head_ids: tokens that the head of a draft keeps; column i of the logits is token head_ids[i]. None keeps all.
            Of a head with a vocabulary of its own (`Checkpoint.draft_ids`) they must be among its tokens.
        fixed: so many of them are meant to stay (`ShortHead`).

    Raises:
        ConfigError, WeightsError: the checkpoint cannot be read as this kind, or has a vocabulary of its own and no
            `head_ids` are given, so that columns would be taken for ids.
    """
    config, own = checkpoint.config, checkpoint.draft_ids()
    if own is not None and head_ids is None:
        raise ConfigError(
            f"{checkpoint.source!r} has a vocabulary of {len(own)} tokens of its own; it can only be a draft."
        )
    if isinstance(checkpoint, ToyCheckpoint) and checkpoint.markov is not None:
        if head_ids is not None:
            raise ConfigError("a table model has no head to cut down; leave the shortlist out.")
        return MarkovModel(config, checkpoint.markov, pool_dtype=ops.pool_dtype, max_positions=max_positions)

    def pack() -> DecoderWeights:
        return pack_weights(config, checkpoint.weights(), ops)

    if cache_dir is None or not ops.layout:
        weights = pack()
    else:
        path, key = _cache_place(cache_dir, checkpoint, ops)
        weights = packed_cache.load_or_pack(
            path, key, ops, num_layers=config.num_layers, pack=pack, map_head=head_ids is not None
        )
    short_head = None
    if own is not None and head_ids is not None:
        row_of = {token: row for row, token in enumerate(own)}
        short_head = ShortHead(weights.head, head_ids, ops, rows=[row_of[token] for token in head_ids])
    elif head_ids is not None:
        short_head = ShortHead(weights.head, head_ids, ops, fixed=fixed)
    return Decoder(config, weights, ops, max_positions=max_positions, short_head=short_head)


def _cache_place(cache_dir: Path, checkpoint: Checkpoint, ops: LayerOps) -> tuple[Path, str]:
    """Where the packed weights lie, and the key that tells whether they are still the right ones.

    The place depends on what was asked for, the key also on the files' content, on the kernels and on the order of the
    file: an update of any replaces the file instead of leaving gigabytes behind. A short head takes its rows from the
    same file.
    """
    key = packed_cache.cache_key(checkpoint.fingerprint, ops.layout, packed_cache.ORDER)
    source = Path(checkpoint.source)
    where = str(source.resolve()) if os.path.exists(source) else checkpoint.source
    name = "".join(letter if letter.isalnum() else "-" for letter in source.stem)[-40:]
    place = packed_cache.cache_key(where, ops.kind)
    return cache_dir / f"{name}-{ops.kind}-{place[:12]}.packed", key
