"""C kernels of the CPU path: packed linear layers, paged attention, keyed sampling, threads, shared memory.

    linear.py      PackedLinear, pack, norm_linear, linear_add, mlp_add        (int8, int4, bfloat16, float32 weights)
    attention.py   AttentionLayer, PlanView, rope_write_attend
    rows.py        select_rows, copy_rows                                (single outputs of packed layers)
    sampling.py    gumbel, argmax_noisy, top_noisy                       (the noise of `algorithm/noise.py`)
    memory.py      allocate, store_release_u32, load_acquire_u32, spin_while_u32, pause
    team.py        Team: threads pinned to cores
    build.py       finds a C compiler and keeps the compiled library in a cache folder;   library.py loads it
    csrc/          the C sources

Every row of a result is computed independently of all other rows and of the number of threads, bit for bit (D2).
All tensors are contiguous CPU tensors. Nothing is compiled or loaded before the first call.
Shape letters: T packed tokens, R rows, H hidden, K inputs, N outputs, F feed-forward size, S slots, G key heads,
D head size, A = query heads x D, V vocabulary.
Must not know: models, plans' meaning, processes. Tests: tests/native/.
"""

from saguaro.native.attention import AttentionLayer, PlanView, rope_write_attend
from saguaro.native.build import Compiler, find_compiler
from saguaro.native.library import cpu_features, library
from saguaro.native.linear import KINDS, PackedLinear, linear_add, mlp_add, norm_linear, pack
from saguaro.native.memory import allocate, load_acquire_u32, pause, spin_while_u32, store_release_u32
from saguaro.native.rows import copy_rows, select_rows
from saguaro.native.sampling import argmax_noisy, gumbel, top_noisy
from saguaro.native.team import Team

__all__ = [
    "KINDS",
    "AttentionLayer",
    "Compiler",
    "PackedLinear",
    "PlanView",
    "Team",
    "allocate",
    "argmax_noisy",
    "copy_rows",
    "cpu_features",
    "find_compiler",
    "gumbel",
    "library",
    "linear_add",
    "load_acquire_u32",
    "mlp_add",
    "norm_linear",
    "pack",
    "pause",
    "rope_write_attend",
    "select_rows",
    "spin_while_u32",
    "store_release_u32",
    "top_noisy",
]
