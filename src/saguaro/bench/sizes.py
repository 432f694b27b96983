"""How many bytes a model keeps and reads: formulas over its configuration, nothing loaded.

Must not know: engines, terminals. Tests: tests/bench/test_sizes.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path

from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.weights.names import EMBEDDING, parameters

# Bytes of a packed weight: int8 has a scale a channel (not counted), int4 a 16-bit scale and minimum for 32 weights.
WEIGHT_BYTES = {"float32": 4.0, "bfloat16": 2.0, "int8": 1.0, "int4": 0.5 + 4 / 32}


@dataclass(frozen=True)
class Sizes:
    """One model in one dtype.

    Attributes:
        streamed: weights that every pass reads in full: linears and head.
        table: values of the embedding, of which a pass reads a few rows.
        dtype: how the weights are kept.
        slot_bytes: keys and values of one token, over all layers.
    """

    streamed: int
    table: int
    dtype: str
    slot_bytes: int

    @property
    def streamed_bytes(self) -> int:
        """Bytes that every pass reads."""
        return int(self.streamed * WEIGHT_BYTES[self.dtype])

    @property
    def table_bytes(self) -> int:
        """Bytes of the embedding."""
        return self.table * activation_bytes(self.dtype)


def sizes(source: str, dtype: str, *, hub_cache: Path | None = None) -> Sizes:
    """Sizes of the model at `source` kept as `dtype`.

    Raises:
        ConfigError, WeightsError: as `open_checkpoint`.
    """
    config = open_checkpoint(source, hub_cache=hub_cache).config
    counts = {name: prod(shape) for name, shape in parameters(config).items()}
    table = counts.pop(EMBEDDING, 0)  # a head without one uses its target's
    streamed = sum(counts.values()) + (table if config.tied else 0)
    return Sizes(streamed, table, dtype, config.kv_bytes_per_token(activation_bytes(dtype)))


def activation_bytes(dtype: str) -> int:
    """Bytes of a value of the embedding and of keys and values."""
    return 4 if dtype == "float32" else 2
