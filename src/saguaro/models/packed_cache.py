"""Packed weights in one file, so that a second start copies memory instead of reading and packing a model again.

    magic | length and hash of the header | header (JSON) | pad | layers and norms | pad | head | pad | embedding

On loading, layers, norms and head are read into one block of aligned huge-page memory (a linear is read whole in every
step); the embedding, of which a step reads a few rows, stays mapped from the file and shared between processes. So does
the head where only some of its rows are wanted (`short_head.py`).
A file that was made for other weights or other kernels is replaced, so that none is left behind by an update; one that
is cut short or damaged is packed again with a warning. It is written beside its place and renamed, so that a reader
never sees half of it. Must not know: what the tensors mean. Tests: tests/models/test_packed_cache.py.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from saguaro import native
from saguaro.models.decoder import DecoderWeights, LayerWeights
from saguaro.models.layers.base import LayerOps, StoredLinear

LOGGER = logging.getLogger(__name__)
MAGIC = b"SAGUARO1"
ORDER = "layers, head, embedding"
"""Part of the key: a file of another order is replaced."""
PAGE = 4096
ALIGNMENT = 64
LINEARS = ("qkv", "o", "gate_up", "down")
VECTORS = ("input_norm_H", "q_norm_D", "k_norm_D", "post_norm_H")


class StaleError(Exception):
    """A cache file that was made for other weights or other kernels; never leaves this module."""


class DamagedError(Exception):
    """A cache file whose bytes are wrong; never leaves this module."""


def load_or_pack(
    path: Path, key: str, ops: LayerOps, *, num_layers: int, pack: Callable[[], DecoderWeights], map_head: bool = False
) -> DecoderWeights:
    """The weights from `path` when it was written for `key`, else packed now and written there.

    With `map_head` the head is for copying rows from, not for running.

    A folder that cannot be written only costs the next start its time.
    """
    try:
        return load(path, key, ops, num_layers=num_layers, map_head=map_head)
    except (FileNotFoundError, StaleError):
        pass
    except (DamagedError, OSError) as error:
        LOGGER.warning("the packed weights in %s cannot be used (%s); packing again", path, error)
    weights = pack()
    try:
        save(path, key, weights, ops)
    except OSError as error:
        LOGGER.warning("the packed weights were not kept in %s: %s", path, error)
    return weights


def cache_key(*parts: str) -> str:
    """One key of a fingerprint, a layout and whatever else decides the packed bytes."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def save(path: Path, key: str, weights: DecoderWeights, ops: LayerOps) -> None:
    """Write the file under another name, then rename it.

    Raises:
        OSError: the folder cannot be written or is full.
    """
    plan = _Layout()
    for index, layer in enumerate(weights.layers):
        for name in LINEARS:
            plan.add_linear(f"{index}.{name}", ops.store(getattr(layer, name)))
        for name in VECTORS:
            vector = getattr(layer, name)
            if vector is not None:
                plan.add(f"{index}.{name}", vector)
    plan.add("final_norm_H", weights.final_norm_H)
    plan.close_block()
    plan.add_linear("head", ops.store(weights.head))
    plan.close_block()
    plan.add("embedding_VH", weights.embedding_VH)
    header = {
        "key": key,
        "blocks": plan.blocks,
        "sums": plan.checksums(),
        "size": plan.size,
        "linears": plan.linears,
        "tensors": plan.tensors,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            start = _write_header(file, header)
            for entry, data in plan.data:
                file.seek(start + entry["offset"])
                file.write(data)
            file.truncate(start + plan.size)
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def load(path: Path, key: str, ops: LayerOps, *, num_layers: int, map_head: bool = False) -> DecoderWeights:
    """Read the file.

    Raises:
        FileNotFoundError: there is none.
        StaleError: it was written for another key.
        DamagedError: it is cut short, or its bytes do not add up.
    """
    with path.open("rb") as file:
        header, start = _read_header(file)
        if header["key"] != key:
            raise StaleError
        if path.stat().st_size != start + header["size"]:
            raise DamagedError("it is cut short")
        ends, sums = header["blocks"], header["sums"]
        read = ends[:1] if map_head else ends
        block = native.allocate(read[-1])
        file.seek(start)
        view = block.numpy()
        if file.readinto(view.data) != read[-1]:
            raise DamagedError("its content is damaged")
        for begin, end, total in zip([0, *ends], read, sums, strict=False):
            if _sum(view[begin:end]) != total:
                raise DamagedError("its content is damaged")
    mapped = np.memmap(path, dtype=np.uint8, mode="c", offset=start, shape=(header["size"],))

    def tensor(entry: dict[str, Any]) -> torch.Tensor:
        begin, end = entry["offset"], entry["offset"] + entry["bytes"]
        raw = block[begin:end] if end <= read[-1] else torch.from_numpy(mapped[begin:end])
        return raw.view(getattr(torch, entry["dtype"])).reshape(entry["shape"])

    def linear(name: str) -> Any:
        entry = header["linears"][name]
        parts = {part: tensor(header["tensors"][f"{name}/{part}"]) for part in entry["parts"]}
        return ops.restore(StoredLinear(entry["kind"], entry["out"], entry["in"], parts))

    def vector(name: str) -> Any:
        return tensor(header["tensors"][name]) if name in header["tensors"] else None

    try:
        layers = tuple(
            LayerWeights(
                **{name: linear(f"{index}.{name}") for name in LINEARS},
                **{name: vector(f"{index}.{name}") for name in VECTORS},
            )
            for index in range(num_layers)
        )
        embedding, norm = tensor(header["tensors"]["embedding_VH"]), tensor(header["tensors"]["final_norm_H"])
        return DecoderWeights(embedding, layers, norm, linear("head"))
    except (KeyError, RuntimeError, AttributeError) as error:
        raise DamagedError(f"its table does not fit ({error})") from error


class _Layout:
    """Where each tensor goes; offsets count from the end of the header."""

    def __init__(self) -> None:
        self.size = 0
        self.linears: dict[str, Any] = {}
        self.tensors: dict[str, Any] = {}
        self.data: list[tuple[dict[str, Any], memoryview]] = []
        self.blocks: list[int] = []
        self._parts: list[list[tuple[dict[str, Any], memoryview]]] = []

    def add(self, name: str, tensor: torch.Tensor) -> None:
        flat = tensor.contiguous().flatten().view(torch.uint8)
        offset = -(-self.size // ALIGNMENT) * ALIGNMENT
        dtype = str(tensor.dtype).removeprefix("torch.")
        entry = {"offset": offset, "bytes": flat.numel(), "dtype": dtype, "shape": list(tensor.shape)}
        self.tensors[name] = entry
        self.data.append((entry, flat.numpy().data))
        self.size = offset + flat.numel()

    def add_linear(self, name: str, stored: StoredLinear) -> None:
        for part, tensor in stored.tensors.items():
            self.add(f"{name}/{part}", tensor)
        self.linears[name] = {
            "kind": stored.kind,
            "out": stored.out_features,
            "in": stored.in_features,
            "parts": list(stored.tensors),
        }

    def close_block(self) -> None:
        """End of what is copied into memory at once; what follows starts at a page."""
        self.size = -(-self.size // PAGE) * PAGE
        self.blocks.append(self.size)
        self._parts.append(self.data[sum(map(len, self._parts)) :])

    def checksums(self) -> list[int]:
        """Of each block as it will stand in memory, gaps being zero."""
        assert all(entry["offset"] % 8 == 0 for part in self._parts for entry, _ in part)
        totals = [sum(_sum(np.frombuffer(data, dtype=np.uint8)) for _, data in part) for part in self._parts]
        return [total % (1 << 64) for total in totals]


def _sum(data: np.ndarray) -> int:
    """Sum of 64-bit words: notices any changed or missing part at the speed of memory."""
    whole = data.size // 8 * 8
    total = int(data[:whole].view(np.uint64).sum(dtype=np.uint64))
    tail = int.from_bytes(data[whole:].tobytes(), "little")
    return (total + tail) % (1 << 64)


def _write_header(file: BinaryIO, header: dict[str, Any]) -> int:
    raw = json.dumps(header, separators=(",", ":")).encode()
    file.write(MAGIC + len(raw).to_bytes(8, "little") + hashlib.blake2b(raw, digest_size=16).digest() + raw)
    return -(-file.tell() // PAGE) * PAGE


def _read_header(file: BinaryIO) -> tuple[dict[str, Any], int]:
    head = file.read(len(MAGIC) + 24)
    if len(head) < len(MAGIC) + 24 or not head.startswith(MAGIC):
        raise DamagedError("it is no file of packed weights")
    length = int.from_bytes(head[8:16], "little")
    raw = file.read(length) if length < 1 << 28 else b""
    if len(raw) != length or hashlib.blake2b(raw, digest_size=16).digest() != head[16:32]:
        raise DamagedError("its header is damaged")
    header: dict[str, Any] = json.loads(raw)
    return header, -(-file.tell() // PAGE) * PAGE
