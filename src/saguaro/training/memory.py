"""The process keeps the memory that it has freed: a training step allocates and frees the same large blocks again.

glibc gives large blocks back to the system at once, and the system hands out new ones filled with zeros, page by page:
on the machine of docs/log.md copying 64 MB was three times as slow as into memory that was there. Must not know:
anything else of Saguaro. Tests: tests/training/test_memory.py.
"""

from __future__ import annotations

import ctypes
import os

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD."""
MOST = (1 << 31) - 1


def keep_freed_memory() -> bool:
    """From now on, for the whole process; False where the C library is not glibc, and nothing changes."""
    try:
        if not (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc"):
            return False
    except (ValueError, AttributeError):
        return False
    library = ctypes.CDLL(None)
    return all(bool(library.mallopt(name, MOST)) for name in (TRIM_THRESHOLD, MMAP_THRESHOLD))
