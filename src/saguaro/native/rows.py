"""Single outputs of packed linear layers, moved from one layer to another without being rounded again.

An output is one lane of a block of 32: `pack` rounds each output by itself, so a layer of some outputs of another holds
the same bits for them. Orders: csrc/gemm_float.h, csrc/gemm_int8.h, csrc/gemm_int4.h. Shape letters: N rows moved.
Must not know: heads, vocabularies. Tests: tests/native/test_rows.py.
"""

from __future__ import annotations

import torch

from saguaro.native.library import library
from saguaro.native.linear import BLOCK, KINDS, PackedLinear
from saguaro.native.memory import allocate

RUN_BYTES, RUN_NIBBLES = 576, 512
"""Of int4: bytes of 32 inputs of a block, and how many of them come before the steps and minima."""


def select_rows(packed: PackedLinear, rows_N: torch.Tensor) -> PackedLinear:
    """A new layer of some outputs, in this order (int64; one may come twice)."""
    count = rows_N.numel()
    padded = -(-count // BLOCK) * BLOCK
    index = KINDS.index(packed.kind)
    tensors = {"weights": allocate(library().sgr_packed_bytes(index, count, packed.in_features))}
    for name in packed.tensors.keys() - {"weights"}:
        tensors[name] = allocate(padded * 4).view(torch.float32)
    chosen = PackedLinear(packed.kind, count, packed.in_features, tensors)
    copy_rows(packed, rows_N, chosen, torch.arange(count))
    return chosen


def copy_rows(source: PackedLinear, source_N: torch.Tensor, target: PackedLinear, target_N: torch.Tensor) -> None:
    """Output target_N[i] of `target` becomes output source_N[i] of `source`, in place. Rows are int64.

    Raises:
        ValueError: layers of different kinds or inputs. IndexError: a row that a layer does not have.
    """
    if (source.kind, source.in_features, source.tensors.keys()) != (
        target.kind, target.in_features, target.tensors.keys(),
    ):  # fmt: skip
        raise ValueError(
            f"rows of {source.kind} x {source.in_features} do not fit {target.kind} x {target.in_features}"
        )
    for rows_N, layer in ((source_N, source), (target_N, target)):
        if rows_N.numel() and not 0 <= int(rows_N.min()) <= int(rows_N.max()) < layer.out_features:
            raise IndexError(f"rows of a layer with {layer.out_features} outputs are 0 ... {layer.out_features - 1}")
    from_N, to_N = ((rows_N // BLOCK, rows_N % BLOCK) for rows_N in (source_N, target_N))
    for values, places in zip(_by_row(source), _by_row(target), strict=True):
        places[to_N] = values[from_N]


def _by_row(packed: PackedLinear) -> list[torch.Tensor]:
    """Views of everything that the layer keeps, each (blocks, 32, ...): block and lane of an output first."""
    blocks = -(-packed.out_features // BLOCK)
    weights = packed.tensors["weights"]
    views = [packed.tensors[name].view(blocks, BLOCK) for name in sorted(packed.tensors.keys() - {"weights"})]
    if packed.kind == "int4":
        runs_BR = weights.view(blocks, -1, RUN_BYTES)
        nibbles = runs_BR.view(torch.int32)[:, :, : RUN_NIBBLES // 4].view(*runs_BR.shape[:2], -1, BLOCK)
        steps = runs_BR[:, :, RUN_NIBBLES:].view(*runs_BR.shape[:2], 2, BLOCK)
        views += [part.permute(0, 3, 1, 2) for part in (nibbles, steps)]
    else:  # words of 1, 2 or 4 inputs of each lane in turn
        views.append(weights.view(torch.int32).view(blocks, -1, BLOCK).permute(0, 2, 1))
    return views
