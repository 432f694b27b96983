"""How a server is set up: who may ask, how much, and what happens at the end.

Must not know: FastAPI, engines. Tests: tests/server/test_options.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from saguaro.errors import ConfigError
from saguaro.registry import nearest
from saguaro.server.answers import AUTO, NONE
from saguaro.server.parsers import REASONING, TOOLS

ON_DEATH = ("restart", "stay", "exit")


@dataclass(frozen=True)
class ServerOptions:
    """Settings of one server.

    Args:
        names: what the model is called; the first is what answers say.
        api_keys: one of them must come with every request but /health; none is needed when this is empty.
        origins: pages of these origins may ask from a browser; `*` is any. Empty allows none.
        max_queue: choices that may wait beyond those that run at once; further ones get 429.
        request_seconds: longest time of a request; 0 is no limit.
        max_body: bytes of a request's body.
        drain_seconds: how long requests may go on after the first SIGTERM.
        send_seconds: longest time in which a client may send its request.
        read_seconds: a client that takes nothing of its answer for so long is left.
        patience: seconds of silence after which an engine counts as dead and is ended.
        quiet_seconds: a stream that has nothing to send for so long gets a comment that keeps it alive.
        tool_parser, reasoning_parser: members of the tables in `parsers`, `auto` or `none`.
        on_engine_death: `restart` starts a new one, with back-off; `stay` answers 503, so that a health check finds it;
            `exit` ends with status 1.

    Raises:
        ConfigError: naming the option.
    """

    names: tuple[str, ...]
    api_keys: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    max_queue: int = 256
    request_seconds: float = 600.0
    max_body: int = 8 << 20
    drain_seconds: float = 30.0
    send_seconds: float = 60.0
    read_seconds: float = 60.0
    patience: float = 20.0
    quiet_seconds: float = 15.0
    tool_parser: str = AUTO
    reasoning_parser: str = AUTO
    on_engine_death: str = "restart"

    def __post_init__(self) -> None:
        if not self.names or not all(self.names):
            raise ConfigError("a served model needs a name that is not empty.")
        if any(not key or not key.isascii() or key != key.strip() for key in self.api_keys):
            raise ConfigError("an API key is plain ASCII without spaces around it, and not empty.")
        for name, low in (("max_queue", 0), ("max_body", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < low:
                raise ConfigError(f"{name} must be a whole number of {low} or more, not {value!r}.")
        for name in ("request_seconds", "drain_seconds"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} must be 0 or more, not {getattr(self, name)!r}.")
        for name in ("patience", "quiet_seconds", "send_seconds", "read_seconds"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be above 0, not {getattr(self, name)!r}.")
        for table, name in ((TOOLS, self.tool_parser), (REASONING, self.reasoning_parser)):
            if name not in (AUTO, NONE):
                table.check(name)
        if self.on_engine_death not in ON_DEATH:
            hint = nearest(self.on_engine_death, ON_DEATH) or "."
            raise ConfigError(f"on_engine_death must be {' or '.join(ON_DEATH)}, not {self.on_engine_death!r}{hint}")
