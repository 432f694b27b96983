"""A server over toy models in this process, and a way to ask it without a socket."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx2 as httpx
import pytest
import uvicorn

from saguaro import LLM, AsyncLLM
from saguaro.server.app import build_app
from saguaro.server.connection import connections
from saguaro.server.front import Front
from saguaro.server.listening import open_socket
from saguaro.server.options import ServerOptions

Value = TypeVar("Value")
PATIENCE = 60.0  # seconds after which a request that waits for ever is a failure
TARGET, DRAFT = "toy:llama?seed=1&vocab=300&layers=2", "toy:llama?seed=1&vocab=300&layers=2&noise=0.1"
SIZES: dict[str, Any] = {
    "max_model_len": 256, "page_size": 8, "prefill_chunk": 32, "max_batch": 8, "dtype": "float32",
    "channel": "loopback",
}  # fmt: skip
MODES: dict[str, dict[str, Any]] = {
    "ar": {"mode": "ar"},
    "ssd": {"draft": DRAFT, "mode": "ssd", "lookahead": 3, "budget": 6, "pacing": "lockstep"},
}


def arguments(mode: str) -> dict[str, Any]:
    """Of `LLM` and `AsyncLLM`."""
    return {"target": TARGET, **SIZES, **MODES[mode]}


def events(body: str) -> list[Any]:
    """The JSON of a stream's events, and `[DONE]` as it stands; comments are left out."""
    lines = [block.removeprefix("data: ") for block in body.split("\n\n") if block.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


@dataclass
class Server:
    """An application and how to ask it."""

    front: Front
    app: Any

    def run(self, scene: Callable[[httpx.AsyncClient], Awaitable[Value]]) -> Value:
        """The result of a scene with a client."""

        async def play() -> Value:
            transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
            async with (
                asyncio.timeout(PATIENCE),
                httpx.AsyncClient(transport=transport, base_url="http://test") as client,
            ):
                return await scene(client)

        return asyncio.run(play())

    def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        """One request."""
        return self.run(lambda client: client.post(path, json=body, **options))

    def get(self, path: str, **options: Any) -> httpx.Response:
        """One request."""
        return self.run(lambda client: client.get(path, **options))


def served(llm: AsyncLLM, **options: Any) -> Server:
    """A server over an engine."""
    front = Front(llm, ServerOptions(**{"names": ("toy", "alias"), **options}))
    return Server(front, build_app(front))


@contextmanager
def at_a_port(server: Server, *, buffer: int | None = None) -> Iterator[str]:
    """The server at a free port, its address; ends when the block does. `buffer`: bytes of answers that the system
    keeps for a client.
    """
    with open_socket("127.0.0.1", 0) as listener:
        if buffer is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        http = connections(server.front.options)
        config = uvicorn.Config(server.app, log_config=None, lifespan="off", ws="none", http=http)
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        while not running.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            running.should_exit = True
            thread.join()


@pytest.fixture(scope="session", params=MODES)
def llm_of_mode(request: pytest.FixtureRequest) -> Iterator[AsyncLLM]:
    opened = AsyncLLM(**arguments(request.param))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def llm() -> Iterator[AsyncLLM]:
    """An engine for everything in which the mode plays no part."""
    opened = AsyncLLM(**arguments("ssd"))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def alone() -> Iterator[LLM]:
    """What the target alone says."""
    with LLM(**arguments("ar")) as opened:
        yield opened


@pytest.fixture
def server(llm: AsyncLLM) -> Server:
    return served(llm)


@pytest.fixture(scope="session")
def root() -> Path:
    return Path(__file__).resolve().parents[2]
