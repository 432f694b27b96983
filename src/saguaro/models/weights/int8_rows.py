"""Weights kept as int8 with one scale a row: a quarter of float32, for drafts that are handed on.

    NAME         matrices int8 (rows, columns); vectors float32, as they are; the map `d2t` int64
    NAME.scale   float32 (rows): row i of the matrix is NAME[i] * NAME.scale[i]

All in one `model.safetensors`. Must not know: what the tensors mean. Tests: tests/models/test_borrowed.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from saguaro.errors import WeightsError
from saguaro.models.weights.names import DRAFT_TO_TARGET
from saguaro.models.weights.safetensors import SINGLE, read_header

if TYPE_CHECKING:
    import torch

SCALE = ".scale"
LEVELS = 127


def to_rows(tensors: Iterable[tuple[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Tensors as they are stored."""
    import torch

    stored: dict[str, torch.Tensor] = {}
    for name, value in tensors:
        if value.dim() == 1:
            stored[name] = value.detach().float().cpu().contiguous()
            continue
        weight_NK = value.detach().float().cpu()
        scale_N = (weight_NK.abs().amax(1) / LEVELS).clamp(min=torch.finfo(torch.float32).tiny)
        stored[name] = (weight_NK / scale_N[:, None]).round().clamp(-LEVELS, LEVELS).to(torch.int8)
        stored[name + SCALE] = scale_N
    return stored


def from_rows(name: str, stored: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """One tensor as float32."""
    value = stored[name]
    return value.float() * stored[name + SCALE][:, None] if name + SCALE in stored else value.float()


class Int8Rows:
    """Tensors of one directory (see `WeightSource`).

    Raises:
        WeightsError: no file, a damaged header, or a matrix and scales that do not belong together.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / SINGLE
        self.files = [self._path]
        header = read_header(self._path)
        kinds = {name: (entry["dtype"], tuple(entry["shape"])) for name, entry in header.items()}
        self._shapes = {name: shape for name, (_, shape) in kinds.items() if not name.endswith(SCALE)}
        for name, shape in self._shapes.items():
            wanted = {name: ("F32", shape)}
            if name == DRAFT_TO_TARGET:
                wanted = {name: ("I64", shape)}
            elif len(shape) > 1:
                wanted = {name: ("I8", shape), name + SCALE: ("F32", shape[:1])}
            if any(kinds.get(each) != kind for each, kind in wanted.items()):
                raise WeightsError(f"{self._path} does not hold {name} as int8 with a scale for each of its rows.")
        lost = [name for name in kinds if name.endswith(SCALE) and name.removesuffix(SCALE) not in kinds]
        if lost:
            raise WeightsError(f"{self._path} holds {lost[0]}, and no tensor that it belongs to.")

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Every tensor with its shape, scales left out."""
        return self._shapes

    def get(self, name: str) -> torch.Tensor:
        """The tensor as float32; a map as it is."""
        from safetensors import safe_open

        with safe_open(self._path, framework="pt") as file:
            if name == DRAFT_TO_TARGET:
                return file.get_tensor(name)
            names = [name, name + SCALE] if len(self._shapes[name]) > 1 else [name]
            return from_rows(name, {each: file.get_tensor(each) for each in names})
