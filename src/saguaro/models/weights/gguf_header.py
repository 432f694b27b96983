"""The container of a GGUF file: metadata and the table of tensors, read in a tenth of a second and without torch.

    "GGUF" version u32 | tensor count u64 | key count u64 | key, type, value ... | name, dims, type, offset ... | data

Little-endian; dims run fastest first and are turned round here; offsets count from the data section, which starts at
the next multiple of `general.alignment`. String arrays (a vocabulary has 152,000 of them) are kept as their raw bytes
and decoded only when asked for, so that two vocabularies can be compared without building either. Splits
(`-00001-of-0000N`) are joined. Source: the GGUF specification. Must not know: models. Tests: tests/models/test_gguf.py.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saguaro.errors import WeightsError

MAGIC = b"GGUF"
STRING, ARRAY, BOOL = 8, 9, 7
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
# type id -> (name, elements of a block, bytes of a block)
TENSOR_TYPES = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    30: ("BF16", 1, 2),
}
SPLIT_NAME = re.compile(r"^(.*)-(\d{5})-of-(\d{5})\.gguf$")


@dataclass(frozen=True)
class TensorInfo:
    """One tensor: where it is and how it is stored. `shape` is rows first."""

    name: str
    shape: tuple[int, ...]
    type_name: str
    path: Path
    offset: int
    num_bytes: int


class StringArray:
    """A string array of the metadata as raw bytes, decoded on demand."""

    def __init__(self, raw: bytes, count: int) -> None:
        self.raw = raw
        self._count = count

    def __len__(self) -> int:
        return self._count

    def items(self) -> Iterator[bytes]:
        """The strings, as UTF-8 bytes."""
        unpack, raw, at = struct.Struct("<Q").unpack_from, self.raw, 0
        for _ in range(self._count):
            (length,) = unpack(raw, at)
            at += 8 + length
            yield raw[at - length : at]

    def decode(self) -> list[str]:
        """The strings."""
        return [item.decode("utf-8", errors="replace") for item in self.items()]


class GgufFile:
    """Metadata and tensor table of a GGUF file, all its splits included.

    Attributes:
        metadata: key to int, float, bool, str, list of numbers or `StringArray`.
        tensors: name to `TensorInfo`.
        paths: the file, or its splits in order.

    Raises:
        WeightsError: not a GGUF file, cut short, an unknown tensor type, a missing split.
    """

    def __init__(self, path: Path) -> None:
        self.paths = _splits(path)
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, TensorInfo] = {}
        for index, part in enumerate(self.paths):
            metadata, tensors = _read(part)
            if index == 0:
                self.metadata = metadata
            for tensor in tensors:
                if tensor.name in self.tensors:
                    raise WeightsError(f"{part.name} holds the tensor {tensor.name} a second time.")
                self.tensors[tensor.name] = tensor
        total = self.metadata.get("split.tensors.count")
        if total is not None and total != len(self.tensors):
            raise WeightsError(f"the splits of {path.name} hold {len(self.tensors)} tensors, expected {total}.")


def _splits(path: Path) -> list[Path]:
    match = SPLIT_NAME.match(path.name)
    if match is None:
        return [path]
    base, _, count = match.groups()
    parts = [path.with_name(f"{base}-{index:05d}-of-{count}.gguf") for index in range(1, int(count) + 1)]
    for part in parts:
        if not part.exists():
            raise WeightsError(f"the split {part.name} is missing beside {path.name}.")
    return parts


def _read(path: Path) -> tuple[dict[str, Any], list[TensorInfo]]:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Cursor(path, data).read()
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError) as error:
        raise WeightsError(f"{path} is damaged or cut short inside its header ({error}).") from error
    except ValueError as error:
        if isinstance(error, WeightsError):
            raise
        raise WeightsError(f"{path} is not a GGUF file.") from error


class _Cursor:
    """A position in one mapped file."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path, self._data, self._at = path, data, 0

    def read(self) -> tuple[dict[str, Any], list[TensorInfo]]:
        if self._data[:4] != MAGIC:
            raise WeightsError(f"{self._path} is not a GGUF file.")
        self._at = 4
        version = self._one("I")
        if version not in (2, 3):
            raise WeightsError(f"{self._path} has GGUF version {version}; versions 2 and 3 are read.")
        num_tensors, num_keys = self._one("Q"), self._one("Q")
        metadata = {}
        for _ in range(num_keys):
            key = self._string()
            metadata[key] = self._value(self._one("I"))
        entries = [self._entry() for _ in range(num_tensors)]
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise WeightsError(f"{self._path} gives an impossible alignment.")
        start = -(-self._at // alignment) * alignment
        return metadata, [self._info(*entry, start) for entry in entries]

    def _one(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self._data, self._at)
        self._at += struct.calcsize("<" + code)
        return value

    def _string(self) -> str:
        length = self._one("Q")
        raw = self._data[self._at : self._at + length]
        if len(raw) != length:
            raise IndexError("a string runs past the end")
        self._at += length
        return raw.decode("utf-8", errors="replace")

    def _value(self, kind: int) -> Any:
        if kind == STRING:
            return self._string()
        if kind == ARRAY:
            return self._array()
        if kind not in SCALARS:
            raise WeightsError(f"{self._path} uses the unknown metadata type {kind}.")
        return self._one(SCALARS[kind])

    def _array(self) -> Any:
        kind, count = self._one("I"), self._one("Q")
        if kind == STRING:
            start, at, data = self._at, self._at, self._data
            unpack = struct.Struct("<Q").unpack_from
            for _ in range(count):
                at += 8 + unpack(data, at)[0]
            if at > len(data):
                raise IndexError("a string runs past the end")
            self._at = at
            return StringArray(data[start:at], count)
        if kind == ARRAY:
            return [self._array() for _ in range(count)]
        if kind not in SCALARS:
            raise WeightsError(f"{self._path} uses the unknown metadata type {kind}.")
        if self._at + count > len(self._data):
            raise IndexError("an array runs past the end")
        values = struct.unpack_from(f"<{count}{SCALARS[kind]}", self._data, self._at)
        self._at += struct.calcsize(f"<{count}{SCALARS[kind]}")
        return list(values)

    def _entry(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._string()
        num_dims = self._one("I")
        if num_dims > 8:
            raise IndexError("a tensor has too many dimensions")
        dims = tuple(self._one("Q") for _ in range(num_dims))
        return name, dims[::-1], self._one("I"), self._one("Q")

    def _info(self, name: str, shape: tuple[int, ...], kind: int, offset: int, start: int) -> TensorInfo:
        if kind not in TENSOR_TYPES:
            known = ", ".join(row[0] for row in TENSOR_TYPES.values())
            raise WeightsError(f"the tensor {name} is stored in GGUF type {kind}, which is not read; read are {known}.")
        type_name, block, block_bytes = TENSOR_TYPES[kind]
        elements = 1
        for size in shape:
            elements *= size
        if shape and shape[-1] % block:
            raise WeightsError(f"the rows of {name} are no multiple of {block}, as {type_name} needs.")
        num_bytes = elements // block * block_bytes
        if start + offset + num_bytes > len(self._data):
            raise WeightsError(f"{self._path} is cut short: the tensor {name} runs past its end.")
        return TensorInfo(name, shape, type_name, self._path, start + offset, num_bytes)
