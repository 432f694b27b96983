"""Attention of one layer in one call: normalise and rotate heads, write keys and values, attend over pages.

Arithmetic: csrc/attention_block.h. bfloat16 pools round queries, keys, values and weights to bfloat16 and sum in
float32; float32 pools use float32 throughout. Each token's result is bitwise the same whatever else is in the call.
Shape letters: T packed tokens, S slots, G key heads, D head size, P pages or positions, A = query heads x D.
Must not know: which tokens see what, and why (attention/base.py). Tests: tests/native/test_attention.py.
"""

from __future__ import annotations

import ctypes

import torch

from saguaro.errors import CapacityError, ConfigError
from saguaro.native.library import library
from saguaro.native.team import Team

LARGEST_HEAD = 1024


class _Layer(ctypes.Structure):
    """`AttentionLayer` of csrc/attention.h."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("heads", "key_heads", "head_dim", "bfloat16", "slots", "positions")),
        *((name, ctypes.c_float) for name in ("scale", "eps")),
        *((name, ctypes.c_void_p) for name in ("cos", "sin", "q_norm", "k_norm", "keys", "values")),
    ]


class _Plan(ctypes.Structure):
    """`PlanView` of csrc/attention.h."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("tokens", "rows", "pages", "own_width", "page_size")),
        *((n, ctypes.c_void_p) for n in ("positions", "slots", "row", "tables", "shared", "own", "own_count")),
    ]


class AttentionLayer:
    """What stays the same from call to call of one layer; built once.

    Args:
        num_heads: query heads, a multiple of the key heads.
        k_pool_SGD, v_pool_SGD: float32 or bfloat16, contiguous; written in place.
        cos_PE, sin_PE: float32 (positions, D/2).
        q_norm_D, k_norm_D: RMS norm of each head before the rotation (Qwen3), or None.
        eps: of that norm.
        scale: of the scores; None means D ** -0.5.

    Raises:
        ConfigError: for an odd head size, or query heads that are no multiple of the key heads.
        ValueError: for tensors that do not fit each other.
    """

    def __init__(
        self,
        *,
        num_heads: int,
        k_pool_SGD: torch.Tensor,
        v_pool_SGD: torch.Tensor,
        cos_PE: torch.Tensor,
        sin_PE: torch.Tensor,
        q_norm_D: torch.Tensor | None = None,
        k_norm_D: torch.Tensor | None = None,
        eps: float = 1e-6,
        scale: float | None = None,
    ) -> None:
        slots, key_heads, size = k_pool_SGD.shape
        if size % 2 or not 2 <= size <= LARGEST_HEAD:
            raise ConfigError(f"head size {size} is not supported; it must be even and at most {LARGEST_HEAD}.")
        if num_heads % key_heads:
            raise ConfigError(f"{num_heads} query heads are no multiple of {key_heads} key heads.")
        pool = k_pool_SGD.dtype
        if pool not in (torch.float32, torch.bfloat16):
            raise ValueError(f"pools must be float32 or bfloat16, not {pool}")
        _check("v_pool_SGD", v_pool_SGD, pool, (slots, key_heads, size))
        _check("k_pool_SGD", k_pool_SGD, pool, (slots, key_heads, size))
        _check("cos_PE", cos_PE, torch.float32, (cos_PE.shape[0], size // 2))
        _check("sin_PE", sin_PE, torch.float32, (cos_PE.shape[0], size // 2))
        for name, norm in (("q_norm_D", q_norm_D), ("k_norm_D", k_norm_D)):
            if norm is not None:
                _check(name, norm, torch.float32, (size,))
        self._kept = (cos_PE, sin_PE, q_norm_D, k_norm_D, k_pool_SGD, v_pool_SGD)
        pointers = (None if tensor is None else tensor.data_ptr() for tensor in self._kept)
        self._struct = _Layer(
            num_heads, key_heads, size, int(pool is torch.bfloat16), slots, cos_PE.shape[0],
            size**-0.5 if scale is None else scale, eps, *pointers,
        )  # fmt: skip
        self.address = ctypes.addressof(self._struct)
        self.width_in = (num_heads + 2 * key_heads) * size
        self.width_out = num_heads * size


class PlanView:
    """Pointers into the tensors of one plan (int32, contiguous), kept alive; built once a call of the model.

    positions_T, slots_T, row_T, shared_T; tables_RP; own_TS and own_count_T, or None where no token has own slots.
    Raises ValueError for tensors that do not fit each other.
    """

    def __init__(
        self,
        *,
        positions_T: torch.Tensor,
        slots_T: torch.Tensor,
        row_T: torch.Tensor,
        tables_RP: torch.Tensor,
        shared_T: torch.Tensor,
        own_TS: torch.Tensor | None,
        own_count_T: torch.Tensor | None,
        page_size: int,
    ) -> None:
        tokens = positions_T.shape[0]
        packed = (positions_T, slots_T, row_T, shared_T)
        for name, tensor in zip(("positions_T", "slots_T", "row_T", "shared_T"), packed, strict=True):
            _check(name, tensor, torch.int32, (tokens,))
        rows, pages = tables_RP.shape
        _check("tables_RP", tables_RP, torch.int32, (rows, pages))
        own_width = 0 if own_TS is None or own_count_T is None else own_TS.shape[1]
        if own_width:
            _check("own_TS", own_TS, torch.int32, (tokens, own_width))
            _check("own_count_T", own_count_T, torch.int32, (tokens,))
        own = (own_TS, own_count_T) if own_width else (None, None)
        self._kept = (positions_T, slots_T, row_T, tables_RP, shared_T, *own)
        pointers = (None if tensor is None else tensor.data_ptr() for tensor in self._kept)
        self._struct = _Plan(tokens, rows, pages, own_width, page_size, *pointers)
        self.address = ctypes.addressof(self._struct)
        self.tokens = tokens


def rope_write_attend(
    qkv_TN: torch.Tensor, layer: AttentionLayer, view: PlanView, out_TA: torch.Tensor, *, team: Team | None = None
) -> None:
    """Normalise and rotate q and k, write k and v to their slots, then attend; out_TA is overwritten.

    Args:
        qkv_TN: float32, N = (num_heads + 2 key heads) * D: query heads, key heads, value heads.
        layer: pools, tables, norms and sizes.
        view: which slots each token writes and sees.
        out_TA: float32, A = num_heads * D.
        team: threads that share the work; None computes in the calling thread.

    Raises:
        ValueError: for tensors that do not fit, or a plan that points outside the pools, the page tables or the
            positions, or has a token that sees no key.
        CapacityError: when there is no memory for the scratch space.
    """
    shape, out_shape = qkv_TN.shape, out_TA.shape
    if shape != (view.tokens, layer.width_in) or qkv_TN.dtype is not torch.float32 or not qkv_TN.is_contiguous():
        raise ValueError(f"qkv_TN must be contiguous float32 {(view.tokens, layer.width_in)}, not {tuple(shape)}")
    if out_shape != (view.tokens, layer.width_out) or out_TA.dtype is not torch.float32 or not out_TA.is_contiguous():
        raise ValueError(f"out_TA must be contiguous float32 {(view.tokens, layer.width_out)}, not {tuple(out_shape)}")
    status = library().sgr_rope_write_attend(
        qkv_TN.data_ptr(), layer.address, view.address, out_TA.data_ptr(), None if team is None else team.address
    )
    if status == 1:
        raise CapacityError("no memory for the attention of this call; run fewer tokens at once.")
    if status:
        raise ValueError("the plan points outside the pools, page tables or positions, or a token sees no key")


def _check(name: str, tensor: torch.Tensor | None, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    if tensor is None or tensor.dtype is not dtype or tuple(tensor.shape) != shape or not tensor.is_contiguous():
        found = "None" if tensor is None else f"{tuple(tensor.shape)} {tensor.dtype}"
        raise ValueError(f"{name} must be contiguous {dtype} {shape}, not {found}")
