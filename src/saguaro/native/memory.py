"""Aligned memory for weights, and the few atomic steps that two processes over shared memory need.

Must not know: what is stored. Tests: tests/native/test_memory.py.
"""

from __future__ import annotations

import ctypes
import weakref

import torch

from saguaro.errors import CapacityError
from saguaro.native.library import library


def allocate(num_bytes: int) -> torch.Tensor:
    """Zeroed uint8 tensor, aligned to 64 bytes; from 1 MiB on, to 2 MiB and in huge pages. Freed with the tensor.

    Raises CapacityError when the machine has no such memory.
    """
    kernels = library()
    address = kernels.sgr_allocate(num_bytes)
    if not address:
        raise CapacityError(f"no memory for {num_bytes} bytes; close other programs or take a smaller model.")
    buffer = (ctypes.c_uint8 * num_bytes).from_address(address)
    weakref.finalize(buffer, kernels.sgr_free, address, num_bytes).atexit = False
    return torch.frombuffer(buffer, dtype=torch.uint8) if num_bytes else torch.empty(0, dtype=torch.uint8)


def store_release_u32(address: int, value: int) -> None:
    """Store a 32-bit word so that whoever loads it with acquire also sees everything written before it."""
    library().sgr_store_release_u32(address, value)


def load_acquire_u32(address: int) -> int:
    """Load a 32-bit word; what is read after it is at least as new as what was stored before the word was."""
    return int(library().sgr_load_acquire_u32(address))


def spin_while_u32(address: int, seen: int, *, spins: int = 1000) -> int:
    """Wait with pauses (no sleep) until the word differs from `seen`, at most `spins` pauses; the word seen last."""
    return int(library().sgr_spin_while_u32(address, seen, spins))


def pause() -> None:
    """One hint to the processor that this thread is waiting."""
    library().sgr_pause()
