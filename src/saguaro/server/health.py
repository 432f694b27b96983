"""Whether the engine lives: alive, degraded (it goes on without its draft), dead, or stopping.

Asking costs the engine a message between two rounds, so one question is under way at most, and a fresh answer serves
everyone. Must not know: HTTP. Tests: tests/server/test_health.py.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from saguaro.errors import SaguaroError

FRESH_SECONDS = 0.5


@dataclass(frozen=True)
class Health:
    """`alive`, `degraded`, `dead` or `stopping`, and why."""

    status: str
    reason: str | None = None

    @property
    def http_status(self) -> int:
        """200 while requests are served."""
        return 200 if self.status in ("alive", "degraded") else 503


class Watch:
    """Asks for statistics.

    Args:
        ask: gives them, or raises `SaguaroError` when the engine is gone.
        patience: seconds after which silence counts as death.
        is_open: whether there is an engine to ask; an answer of a moment ago does not outlive it.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[dict[str, Any]]],
        *,
        patience: float,
        is_open: Callable[[], bool] = lambda: True,
    ) -> None:
        self._ask, self._patience, self._is_open = ask, patience, is_open
        self._asking: asyncio.Task[dict[str, Any]] | None = None
        self._since = 0.0
        self._known: tuple[float, dict[str, Any]] | None = None

    async def statistics(self) -> dict[str, Any] | None:
        """What the engine says of itself; None when it says nothing in time.

        Raises:
            SaguaroError: it is gone.
        """
        now = time.monotonic()
        if self._known is not None and self._is_open() and now - self._known[0] < FRESH_SECONDS:
            return self._known[1]
        if self._asking is None:
            self._asking, self._since = asyncio.create_task(self._question()), now
        task = self._asking
        left = self._since + self._patience - now  # whoever asks later does not wait anew for a silent engine
        done, _ = await asyncio.wait({task}, timeout=max(0.0, left))
        if not done:
            return None
        if self._asking is task:
            self._asking = None
        self._known = (time.monotonic(), task.result())
        return self._known[1]

    def forget(self) -> None:
        """Another engine is asked from now on."""
        if self._asking is not None and self._asking.done() and not self._asking.cancelled():
            self._asking.exception()  # nobody wants to hear it any more
        self._asking = self._known = None

    async def _question(self) -> dict[str, Any]:
        return await self._ask()

    async def health(self) -> tuple[Health, dict[str, Any] | None]:
        """The state, and the statistics that tell it."""
        try:
            found = await self.statistics()
        except SaguaroError as error:
            return Health("dead", str(error)), None
        if found is None:
            return Health("dead", f"the engine has said nothing for {self._patience:g} s."), None
        if "draft" in found and found["draft"] is None:
            return Health("degraded", "the draft is gone; requests go on without it."), found
        return Health("alive"), found
