"""Wakes a thread that sleeps on descriptors, from any other thread.

Must not know: what the sleeper waits for. Tests: tests/engine/test_driver.py.
"""

from __future__ import annotations

import os
import threading
import weakref


class Alarm:
    """Can be waited for like a pipe (`fileno`). It stays on until it is asked; ringing a closed one does nothing."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._close = weakref.finalize(self, os.close, self._descriptor)
        # Reentrant: a collection of garbage inside `ring` may end a request, which rings again.
        self._lock = threading.RLock()

    def fileno(self) -> int:
        """The descriptor that becomes readable."""
        return self._descriptor

    def ring(self) -> None:
        """Wake the sleeper; any thread may do so."""
        with self._lock:
            if self._close.alive:
                os.eventfd_write(self._descriptor, 1)

    def rang(self) -> bool:
        """Whether it rang since it was asked last."""
        try:
            return os.eventfd_read(self._descriptor) > 0
        except BlockingIOError:
            return False

    def close(self) -> None:
        """Give the descriptor up; closing twice is fine."""
        with self._lock:
            self._close()
