"""Weights from one `pytorch_model.bin`, which some published EAGLE-3 heads come in; only tensors are unpickled.

Must not know: what the tensors mean. Tests: tests/models/test_eagle3_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from saguaro.errors import WeightsError

if TYPE_CHECKING:
    import torch

NAME = "pytorch_model.bin"


class PickledWeights:
    """Tensors of one directory (see `WeightSource`), mapped from the file.

    Raises:
        WeightsError: a file that holds anything but tensors, or that is damaged.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / NAME
        self.files = [self._path]

    @cached_property
    def _tensors(self) -> dict[str, torch.Tensor]:
        import torch

        try:
            found = torch.load(self._path, map_location="cpu", mmap=True, weights_only=True)
        except Exception as error:  # the package raises what its unpickler raises
            line = str(error).strip().split("\n", 1)[0].rstrip(".")
            raise WeightsError(f"{self._path} cannot be read as plain tensors: {line}.") from error
        if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
            raise WeightsError(f"{self._path} does not hold a table of tensors.")
        return found

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Every tensor with its shape."""
        return {name: tuple(tensor.shape) for name, tensor in self._tensors.items()}

    def get(self, name: str) -> torch.Tensor:
        """The tensor as float32 or bfloat16, or whole numbers as they are."""
        import torch

        tensor = self._tensors[name]
        return tensor.float() if tensor.is_floating_point() and tensor.dtype is not torch.bfloat16 else tensor
