"""Load the compiled kernels and declare their functions; everything else in the package calls them through here.

Must not know: tensors, models. Tests: tests/native/test_build.py.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

from saguaro.native import build

_INT, _LONG, _SIZE, _FLOAT, _POINTER = ctypes.c_int, ctypes.c_long, ctypes.c_size_t, ctypes.c_float, ctypes.c_void_p
_U32 = ctypes.c_uint32

# name: (result, arguments), in the order of the C declarations.
FUNCTIONS: dict[str, tuple[object, list[object]]] = {
    "sgr_allocate": (_POINTER, [_SIZE]),
    "sgr_free": (None, [_POINTER, _SIZE]),
    "sgr_features": (ctypes.c_char_p, []),
    "sgr_packed_bytes": (_SIZE, [_INT, _LONG, _LONG]),
    "sgr_pack": (_LONG, [_POINTER, _INT, _LONG, _LONG, _INT, _POINTER, _POINTER, _POINTER]),
    "sgr_norm_linear": (_INT, [_POINTER, _POINTER, _FLOAT, _POINTER, _POINTER, _INT, _POINTER]),
    "sgr_linear_add": (_INT, [_POINTER, _POINTER, _POINTER, _INT, _POINTER]),
    "sgr_mlp_add": (_INT, [_POINTER, _POINTER, _FLOAT, _POINTER, _POINTER, _INT, _POINTER]),
    "sgr_rope_write_attend": (_INT, [_POINTER, _POINTER, _POINTER, _POINTER, _POINTER]),
    "sgr_top_noisy": (_INT, [_POINTER] * 4 + [_INT, _LONG, _INT, _POINTER, _POINTER]),
    "sgr_gumbel": (None, [_POINTER, _POINTER, _LONG, _POINTER]),
    "sgr_team_open": (_POINTER, [ctypes.POINTER(_INT), _INT]),
    "sgr_team_close": (None, [_POINTER]),
    "sgr_store_release_u32": (None, [_POINTER, _U32]),
    "sgr_load_acquire_u32": (_U32, [_POINTER]),
    "sgr_spin_while_u32": (_U32, [_POINTER, _U32, _LONG]),
    "sgr_pause": (None, []),
}


@functools.cache
def library() -> ctypes.CDLL:
    """The loaded library, compiled first when the cache lacks it; ConfigError when that cannot be done."""
    return load(build.library_path())


def load(path: Path) -> ctypes.CDLL:
    """Load one compiled file and declare its functions."""
    loaded = ctypes.CDLL(str(path))
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = arguments
    return loaded


def cpu_features() -> dict[str, bool]:
    """Instruction sets that the loaded kernels use."""
    present = library().sgr_features().decode().split()
    return {name: name in present for name in ("avx512f", "avx512vnni", "avx512bf16", "avx2", "fma", "dotprod")}
