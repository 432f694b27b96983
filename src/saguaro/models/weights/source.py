"""What a reader of weights offers, and the strict check that every one of them passes through.

A checkpoint that lacks a tensor, has one too many or has one of the wrong shape is refused by name before any memory
is filled: a skipped tensor is the kind of damage that shows only as strange text. Must not know: formats.
Tests: tests/models/test_strict.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from saguaro.errors import WeightsError

if TYPE_CHECKING:
    import torch

SHOWN = 4


@dataclass(frozen=True)
class Stored:
    """Where a tensor lies: bytes of a file, and how they are to be read."""

    path: Path
    offset: int
    num_bytes: int
    kind: str
    shape: tuple[int, ...]


class WeightSource(Protocol):
    """Named tensors that are read when asked for."""

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Every tensor of the file under its canonical name, with its shape; reads no data."""
        ...

    def get(self, name: str) -> torch.Tensor:
        """The tensor, float32 or bfloat16, in the canonical row order."""
        ...


def check_names(
    expected: Mapping[str, tuple[int, ...]],
    found: Mapping[str, tuple[int, ...]],
    *,
    where: str,
    may_ignore: Callable[[str], bool] = lambda name: False,
) -> None:
    """Compare what a configuration needs with what a file has.

    Args:
        expected: name and shape of every parameter.
        found: name and shape of every tensor of the file.
        where: the file, for messages.
        may_ignore: says which surplus tensors mean nothing (a head beside a tied embedding, old frequency buffers).

    Raises:
        WeightsError: naming the tensors that are missing, unknown or of another shape.
    """
    missing = [name for name in expected if name not in found]
    unknown = [name for name in found if name not in expected and not may_ignore(name)]
    wrong = [
        f"{name} is {list(found[name])} instead of {list(shape)}"
        for name, shape in expected.items()
        if name in found and tuple(found[name]) != tuple(shape)
    ]
    faults = []
    for label, names in (("missing", missing), ("unknown", unknown), ("of the wrong shape", wrong)):
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            faults.append(f"{label}: {', '.join(names[:SHOWN])}{more}")
    if faults:
        raise WeightsError(f"{where} does not hold this model's tensors ({'; '.join(faults)}).")


class Ledger:
    """Hands out tensors and notes that each parameter was taken exactly once.

    Raises:
        WeightsError: from `close`, naming what was never taken.
    """

    def __init__(self, source: WeightSource, expected: Mapping[str, tuple[int, ...]]) -> None:
        self._source = source
        self._expected = dict(expected)
        self._taken: set[str] = set()

    def take(self, name: str) -> torch.Tensor:
        """The tensor called `name`, checked once more for its shape as it was really read."""
        assert name in self._expected, f"{name} is no parameter of this model"
        assert name not in self._taken, f"{name} is taken twice"
        self._taken.add(name)
        tensor = self._source.get(name)
        if tuple(tensor.shape) != tuple(self._expected[name]):
            raise WeightsError(f"{name} was read as {list(tensor.shape)}, expected {list(self._expected[name])}.")
        return tensor

    def close(self) -> None:
        """End of loading: every parameter must have been taken."""
        left = [name for name in self._expected if name not in self._taken]
        if left:
            raise WeightsError(f"{len(left)} parameters were never filled, among them {', '.join(left[:SHOWN])}.")
