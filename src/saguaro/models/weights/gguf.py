"""Weights from GGUF files: dequantised to float, in the row order of the safetensors layout.

Blocks are decoded by the `gguf` package, a piece at a time so that a vocabulary's matrix never needs several copies of
itself. Converters of `llama` files reorder the rows of each head of q and k from two halves to interleaved
pairs; this is undone here (rows stay whole, so it is done on the stored bytes). Sources: GGUF specification, block
layouts. Must not know: packing. Tests: tests/models/test_gguf.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from saguaro.errors import ConfigError, WeightsError
from saguaro.models.config import END_TEXTS, ModelConfig
from saguaro.models.families import FAMILIES
from saguaro.models.weights.gguf_header import TENSOR_TYPES, GgufFile, StringArray, TensorInfo
from saguaro.models.weights.names import GGUF_ROPE, from_gguf_name

if TYPE_CHECKING:
    import torch

CHUNK_BYTES = 1 << 16  # with its temporaries inside a core's own cache: three times as fast as a megabyte
CONTROL, USER_DEFINED, UNUSED = 3, 4, 5


class GgufWeights:
    """Tensors of a GGUF file under canonical names (see `WeightSource`)."""

    def __init__(self, file: GgufFile, config: ModelConfig) -> None:
        self._config = config
        self._infos = {from_gguf_name(name): info for name, info in file.tensors.items()}

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Every tensor with its shape."""
        return {name: info.shape for name, info in self._infos.items()}

    def get(self, name: str) -> torch.Tensor:
        """The tensor as float32, or bfloat16 where it is stored so."""
        import torch

        info = self._infos[name]
        raw = np.memmap(info.path, dtype=np.uint8, mode="r", offset=info.offset, shape=(info.num_bytes,))
        heads = self._permuted_heads(name)
        rows = info.shape[0] if len(info.shape) > 1 or heads else 1  # a permuted bias has rows of one element
        raw_RN = raw.reshape(rows, -1)
        if heads:
            raw_RN = unpermute(raw_RN, heads)
        if info.type_name == "BF16":
            bits = torch.from_numpy(np.ascontiguousarray(raw_RN).reshape(-1).view(np.int16).copy())
            return bits.view(torch.bfloat16).reshape(info.shape)
        return torch.from_numpy(dequantise(raw_RN, info.type_name).reshape(info.shape))

    def _permuted_heads(self, name: str) -> int:
        """Heads whose rows must be put back, or 0."""
        if not FAMILIES.get(self._config.architecture).gguf_permuted:
            return 0
        if ".q_proj." in name:
            return self._config.num_heads
        return self._config.num_kv_heads if ".k_proj." in name else 0


def unpermute(rows_RN: np.ndarray, heads: int) -> np.ndarray:
    """Interleaved pairs back to two halves: stored row 2j of a head is row j, row 2j + 1 is row j + d/2."""
    pairs = rows_RN.reshape(heads, -1, 2, rows_RN.shape[-1])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows_RN.shape)


def dequantise(raw_RN: np.ndarray, type_name: str) -> np.ndarray:
    """Stored rows (bytes) to float32 rows."""
    flat = np.ascontiguousarray(raw_RN)
    if type_name == "F32":
        return flat.view(np.float32).copy()
    if type_name == "F16":
        return flat.view(np.float16).astype(np.float32)
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    kind = GGMLQuantizationType[type_name]
    elements, num_bytes = next(row[1:] for row in TENSOR_TYPES.values() if row[0] == type_name)
    blocks = flat.reshape(-1, num_bytes)
    out = np.empty((blocks.shape[0], elements), dtype=np.float32)
    step = max(1, CHUNK_BYTES // num_bytes)
    for start in range(0, blocks.shape[0], step):
        # As one long row, which the package decodes at once; it would take rows of a matrix sixteen at a time.
        part = blocks[start : start + step]
        out[start : start + step] = dequantize(part.reshape(1, -1), kind).reshape(-1, elements)
    return out.reshape(flat.shape[0], -1)


def gguf_config(file: GgufFile) -> ModelConfig:
    """The configuration of a GGUF file, stop ids by text included.

    Raises:
        ConfigError, WeightsError: as `ModelConfig.from_gguf`.
    """
    if "general.architecture" not in file.metadata:
        raise WeightsError("the GGUF file names no architecture; it is not a language model.")
    named = file.metadata["general.architecture"]
    head = file.tensors.get("output.weight") or file.tensors.get("token_embd.weight")
    if head is None and named in FAMILIES:
        raise WeightsError("the GGUF file holds no token embedding; it is not a complete model.")
    divisors: tuple[float, ...] = ()
    if GGUF_ROPE in file.tensors:
        divisors = tuple(float(value) for value in _read_f32(file.tensors[GGUF_ROPE]))
    config = ModelConfig.from_gguf(
        file.metadata,
        vocab=head.shape[0] if head else 1,
        tied="output.weight" not in file.tensors,
        divisors=divisors,
    )
    return _with_stops(config, file.metadata)


def _with_stops(config: ModelConfig, metadata: Mapping[str, Any]) -> ModelConfig:
    tokens, types = metadata.get("tokenizer.ggml.tokens"), metadata.get("tokenizer.ggml.token_type")
    if not isinstance(tokens, StringArray) or not types:
        return config
    wanted = {text.encode() for text in END_TEXTS}
    by_text = {index for index, item in enumerate(tokens.items()) if item in wanted and types[index] == CONTROL}
    return replace(config, stop_ids=config.stop_ids | by_text)


def _read_f32(info: TensorInfo) -> np.ndarray:
    if info.type_name != "F32":
        raise ConfigError(f"{info.name} is stored as {info.type_name}; F32 is expected.")
    return np.fromfile(info.path, dtype=np.float32, count=info.num_bytes // 4, offset=info.offset)
