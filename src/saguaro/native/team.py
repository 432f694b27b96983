"""Teams: threads pinned to cores that share the work of one kernel call.

Must not know: what a call computes. Tests: tests/native/test_team.py.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence

from saguaro.errors import ConfigError
from saguaro.native.library import library


class Team:
    """Threads for kernel calls. Results are bitwise the same for any size; one team serves one call at a time.

    Args:
        cores: one core for each member, the caller's own first. The caller is member 0 and is not moved; the others
            start here, pinned, and sleep when there is no work. -1 leaves a member unpinned.

    Raises:
        ConfigError: for an empty list, a core that this process may not use, or when threads cannot start.
    """

    def __init__(self, cores: Sequence[int]) -> None:
        allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(cores)
        if not cores:
            raise ConfigError("a team needs at least one core.")
        for core in cores[1:]:
            if core >= 0 and core not in allowed:
                raise ConfigError(f"core {core} is not among the cores of this process: {sorted(allowed)}.")
        self.cores = tuple(cores)
        opened = library().sgr_team_open((ctypes.c_int * len(cores))(*cores), len(cores))
        if not opened:
            raise ConfigError(f"{len(cores)} threads cannot be started; give fewer cores.")
        self.address: int = opened
        self._close = weakref.finalize(self, library().sgr_team_close, opened)

    def __len__(self) -> int:
        return len(self.cores)

    def close(self) -> None:
        """End the threads; the team cannot be used afterwards."""
        self._close()
        self.address = 0
