"""Packed linear layers and the fused steps of a decoder layer around attention.

Weight kinds: float32; bfloat16 (activations rounded to bfloat16, sums in float32); int8 (one scale an output,
activations int8 with one scale for each 64 inputs of a row); int4 (scale and minimum for each 32 inputs of an output,
4.5 bits a weight, activations as for int8: for drafts). Orders and arithmetic: csrc/gemm_*.h, csrc/prepare.h.
Each row of a result is bitwise the same for any number of rows and threads.
Shape letters: T packed tokens, H hidden, K inputs, N outputs. Must not know: models.
Tests: tests/native/test_linear.py, tests/native/test_pack.py.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import torch

from saguaro.errors import CapacityError, WeightsError
from saguaro.native.library import library
from saguaro.native.memory import allocate
from saguaro.native.team import Team
from saguaro.registry import unknown

KINDS = ("float32", "bfloat16", "int8", "int4")
BLOCK = 32
GROUP = 64
_TENSORS = {"float32": (), "bfloat16": (), "int8": ("scales",), "int4": ("scales", "mins")}


class _Linear(ctypes.Structure):
    """`Linear` of csrc/saguaro.h."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("kind", "outputs", "inputs", "blocks", "groups")),
        *((name, ctypes.c_void_p) for name in ("weights", "scales", "mins", "bias")),
    ]


@dataclass(eq=False)
class PackedLinear:
    """Weights of one linear layer in the order in which the kernels read them.

    Attributes:
        kind: one of KINDS.
        out_features, in_features: N and K as the model has them; padding to whole blocks is inside.
        tensors: name to flat tensor: `weights` (uint8); `scales` (int8, int4) and `mins` (int4), float32, padded to
            whole blocks of 32 outputs; `bias` (float32, padded) if there is one. What `restore` takes back.
    """

    kind: str
    out_features: int
    in_features: int
    tensors: dict[str, torch.Tensor]
    address: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        blocks, groups = -(-self.out_features // BLOCK), -(-self.in_features // GROUP)
        wanted = {"weights": library().sgr_packed_bytes(KINDS.index(self.kind), self.out_features, self.in_features)}
        wanted |= dict.fromkeys((*_TENSORS[self.kind], *(("bias",) if "bias" in self.tensors else ())), blocks * BLOCK)
        if {name: tensor.numel() for name, tensor in self.tensors.items()} != wanted:
            raise WeightsError(f"packed {self.kind} weights do not fit ({self.out_features}, {self.in_features}).")
        pointers = {name: tensor.data_ptr() for name, tensor in self.tensors.items()}
        self._struct = _Linear(
            KINDS.index(self.kind), self.out_features, self.in_features, blocks, groups,
            *(pointers.get(name) for name in ("weights", "scales", "mins", "bias")),
        )  # fmt: skip
        self.address = ctypes.addressof(self._struct)

    @property
    def nbytes(self) -> int:
        """Bytes that one call reads."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors.values())

    @classmethod
    def restore(cls, kind: str, out_features: int, in_features: int, tensors: dict[str, torch.Tensor]) -> PackedLinear:
        """Rebuild from saved `tensors`; those not aligned to 64 bytes are copied into memory of our own.

        Raises WeightsError when they do not fit the shape.
        """
        check_kind(kind)
        return cls(kind, out_features, in_features, {name: _aligned(tensor) for name, tensor in tensors.items()})


def pack(weight_NK: torch.Tensor, kind: str, *, bias_N: torch.Tensor | None = None) -> PackedLinear:
    """Round (int8, int4) and reorder one matrix.

    Args:
        weight_NK: float32 or bfloat16, contiguous; y = x @ weight^T.
        kind: one of KINDS.
        bias_N: float32 or bfloat16, or None.

    Raises:
        ConfigError: for an unknown kind. WeightsError: for another dtype or shape, or values that are not finite.
    """
    check_kind(kind)
    if weight_NK.dim() != 2 or weight_NK.dtype not in (torch.float32, torch.bfloat16):
        found = f"{tuple(weight_NK.shape)} {weight_NK.dtype}"
        raise WeightsError(f"a linear layer needs a float32 or bfloat16 matrix, not {found}.")
    weight_NK = weight_NK.contiguous()
    (outputs, inputs), index = weight_NK.shape, KINDS.index(kind)
    padded = -(-outputs // BLOCK) * BLOCK
    tensors = {"weights": allocate(library().sgr_packed_bytes(index, outputs, inputs))}
    for name in _TENSORS[kind]:
        tensors[name] = allocate(padded * 4).view(torch.float32)
    bad = library().sgr_pack(
        weight_NK.data_ptr(), int(weight_NK.dtype is torch.bfloat16), outputs, inputs, index,
        *(tensors[name].data_ptr() if name in tensors else None for name in ("weights", "scales", "mins")),
    )  # fmt: skip
    if bad < 0:
        raise CapacityError("no memory to pack a linear layer; close other programs or take a smaller model.")
    if bad:
        raise WeightsError(f"{bad} weights of a linear layer are not finite; the checkpoint is damaged.")
    if bias_N is not None:
        if bias_N.shape != (outputs,) or not bool(torch.isfinite(bias_N).all()):
            raise WeightsError(
                f"a bias of shape {tuple(bias_N.shape)} does not fit {outputs} outputs, or is not finite."
            )
        tensors["bias"] = allocate(padded * 4).view(torch.float32)
        tensors["bias"][:outputs] = bias_N.float()
    return PackedLinear(kind, outputs, inputs, tensors)


def check_kind(kind: str) -> None:
    """Raise ConfigError unless `kind` is one of KINDS."""
    if kind not in KINDS:
        raise unknown("weight kind", kind, KINDS)


def _aligned(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_contiguous() and tensor.data_ptr() % 64 == 0:
        return tensor
    copy = allocate(tensor.numel() * tensor.element_size()).view(tensor.dtype)
    return copy.copy_(tensor.reshape(-1))


def _rows(tensor_RK: torch.Tensor, width: int, name: str) -> int:
    """Rows of a float32 matrix of `width` columns; the kernels read it by address, so everything must fit."""
    shape = tensor_RK.shape
    if len(shape) != 2 or shape[1] != width or tensor_RK.dtype is not torch.float32 or not tensor_RK.is_contiguous():
        raise ValueError(f"{name} must be contiguous float32 (rows, {width}), not {tuple(shape)} {tensor_RK.dtype}")
    return shape[0]


def _norm_address(norm_H: torch.Tensor | None, width: int) -> int | None:
    if norm_H is None:
        return None
    if norm_H.dtype is not torch.float32 or norm_H.numel() != width or not norm_H.is_contiguous():
        raise ValueError(f"norm must be contiguous float32 ({width}), not {tuple(norm_H.shape)} {norm_H.dtype}")
    return norm_H.data_ptr()


def _finish(status: int) -> None:
    if status:
        raise CapacityError("no memory for the activations of this call; run fewer tokens at once.")


def norm_linear(
    x_TH: torch.Tensor,
    norm_H: torch.Tensor | None,
    eps: float,
    packed: PackedLinear,
    out_TN: torch.Tensor,
    *,
    team: Team | None = None,
) -> None:
    """out = rms_norm(x) * norm @ W^T + bias; without the norm where `norm_H` is None. All float32, contiguous.

    Raises ValueError for tensors that do not fit.
    """
    rows = _rows(x_TH, packed.in_features, "x_TH")
    if _rows(out_TN, packed.out_features, "out_TN") != rows:
        raise ValueError(f"out_TN has {out_TN.shape[0]} rows, x_TH {rows}")
    norm, members = _norm_address(norm_H, packed.in_features), None if team is None else team.address
    _finish(_call().sgr_norm_linear(x_TH.data_ptr(), norm, eps, packed.address, out_TN.data_ptr(), rows, members))


def linear_add(x_TH: torch.Tensor, a_TK: torch.Tensor, packed: PackedLinear, *, team: Team | None = None) -> None:
    """x += a @ W^T + bias, in place. Raises ValueError for tensors that do not fit."""
    rows = _rows(a_TK, packed.in_features, "a_TK")
    if _rows(x_TH, packed.out_features, "x_TH") != rows:
        raise ValueError(f"x_TH has {x_TH.shape[0]} rows, a_TK {rows}")
    members = None if team is None else team.address
    _finish(_call().sgr_linear_add(x_TH.data_ptr(), a_TK.data_ptr(), packed.address, rows, members))


def mlp_add(
    x_TH: torch.Tensor,
    norm_H: torch.Tensor | None,
    eps: float,
    gate_up: PackedLinear,
    down: PackedLinear,
    *,
    team: Team | None = None,
) -> None:
    """x += down(silu(gate) * up), in place; gate_up holds all gate rows, then all up rows.

    Raises ValueError for tensors or layers that do not fit.
    """
    rows = _rows(x_TH, gate_up.in_features, "x_TH")
    if gate_up.out_features != 2 * down.in_features or down.out_features != gate_up.in_features:
        raise ValueError("gate_up must have twice the inputs of down as outputs, and down the inputs of gate_up")
    norm, members = _norm_address(norm_H, gate_up.in_features), None if team is None else team.address
    _finish(_call().sgr_mlp_add(x_TH.data_ptr(), norm, eps, gate_up.address, down.address, rows, members))


_call = library
