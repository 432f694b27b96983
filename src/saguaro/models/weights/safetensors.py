"""Weights from a directory of safetensors files, single or sharded with an index.

The headers are read by ourselves, so that shapes are known in milliseconds and without torch; the data comes through
the safetensors package when a tensor is asked for. Must not know: what the tensors mean.
Tests: tests/models/test_safetensors.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saguaro.errors import WeightsError
from saguaro.models.weights.names import DRAFT_TO_TARGET, TARGET_TO_DRAFT
from saguaro.models.weights.source import Stored

if TYPE_CHECKING:
    import torch

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
READABLE = ("F32", "F16", "BF16", "F64")
WHOLE_NUMBERS = {DRAFT_TO_TARGET: ("I64", "I32"), TARGET_TO_DRAFT: ("BOOL", "U8", "I64", "I32")}
"""Tensors of a draft's vocabulary, which hold no weights."""
MAX_HEADER = 100_000_000


class SafetensorsWeights:
    """Tensors of one directory (see `WeightSource`).

    Raises:
        WeightsError: no weights, a shard that the index names and that is not there, a damaged header, a tensor type
            that is not floating point (but for the map of a draft's vocabulary), or an index that disagrees with its
            shards.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file_of: dict[str, Path] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._open: dict[Path, Any] = {}
        for path, wanted in self._files().items():
            header = read_header(path)
            for name in wanted if wanted is not None else header:
                if name not in header:
                    raise WeightsError(f"{path.name} lacks the tensor {name}, which the index says it has.")
                if header[name]["dtype"] not in (*READABLE, *WHOLE_NUMBERS.get(name.removeprefix("model."), ())):
                    raise WeightsError(f"{name} is stored as {header[name]['dtype']}; only float tensors are read.")
                self._file_of[name] = path
                self._shapes[name] = tuple(header[name]["shape"])
            for name in header:
                if name not in self._file_of:
                    raise WeightsError(f"{path.name} holds the tensor {name}, which the index does not name.")
        self.files = sorted(set(self._file_of.values()))

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Every tensor with its shape."""
        return self._shapes

    def get(self, name: str) -> torch.Tensor:
        """The tensor as float32 (from F32, F16 and F64), bfloat16 (from BF16), or whole numbers as they are."""
        import torch
        from safetensors import safe_open

        path = self._file_of[name]
        if path not in self._open:
            try:
                self._open[path] = safe_open(path, framework="pt")
            except Exception as error:  # the package raises its own class
                raise WeightsError(f"{path.name} cannot be read: {error}.") from error
        tensor: torch.Tensor = self._open[path].get_tensor(name)
        return tensor.float() if tensor.is_floating_point() and tensor.dtype is not torch.bfloat16 else tensor

    def place(self, name: str) -> Stored | None:
        """Where a tensor lies; None without one of that name."""
        path = self._file_of.get(name)
        if path is None:
            return None
        entry = read_header(path)[name]
        with path.open("rb") as file:
            base = 8 + int.from_bytes(file.read(8), "little")
        begin, end = entry["data_offsets"]
        return Stored(path, base + begin, end - begin, entry["dtype"], tuple(entry["shape"]))

    def _files(self) -> dict[Path, list[str] | None]:
        """Files to read, each with the tensors expected in it (None: all that it has)."""
        index = self._directory / INDEX
        if not index.exists():
            found = sorted(self._directory.glob("*.safetensors"))
            single = self._directory / SINGLE
            if single in found:
                return {single: None}
            if len(found) == 1:
                return {found[0]: None}
            if found:
                raise WeightsError(f"{self._directory} has {len(found)} safetensors files but no {INDEX}.")
            if any(self._directory.glob("pytorch_model*.bin")):
                raise WeightsError(f"{self._directory} has only pickled weights; convert them to safetensors first.")
            raise WeightsError(f"{self._directory} holds no weights: no {SINGLE}, no {INDEX} and no GGUF file.")
        try:
            weight_map: dict[str, str] = json.loads(index.read_text("utf-8"))["weight_map"]
        except (ValueError, KeyError, TypeError) as error:
            raise WeightsError(f"{index} is damaged: {error}.") from error
        files: dict[Path, list[str] | None] = {}
        for name, shard in weight_map.items():
            path = self._directory / Path(shard).name
            if path not in files and not path.exists():
                raise WeightsError(f"the shard {shard}, which holds {name}, is missing from {self._directory}.")
            names = files.setdefault(path, [])
            assert names is not None
            names.append(name)
        return files


def tensor_names(directory: Path) -> set[str]:
    """Names of the tensors of a directory, as far as they can be told; what is damaged is found when it is read."""
    try:
        if (directory / INDEX).exists():
            return set(json.loads((directory / INDEX).read_text("utf-8"))["weight_map"])
        return {name for path in directory.glob("*.safetensors") for name in read_header(path)}
    except (WeightsError, ValueError, KeyError, TypeError):
        return set()


def read_header(path: Path) -> dict[str, dict[str, Any]]:
    """Name to {dtype, shape, data_offsets} of one file; checks that the data is all there."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(MAX_HEADER, path.stat().st_size - 8):
                raise ValueError("its header has an impossible length")
            header: dict[str, dict[str, Any]] = json.loads(file.read(length))
        header.pop("__metadata__", None)
        end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise WeightsError(f"{path} is no readable safetensors file: {error}.") from error
    if path.stat().st_size < 8 + length + end:
        raise WeightsError(f"{path} is cut short: {path.stat().st_size} bytes, expected {8 + length + end}.")
    return header
