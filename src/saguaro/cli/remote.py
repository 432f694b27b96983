"""A running server from the shell: a GET, or a stream of events, and one sentence for whatever goes wrong.

Connections go straight to the server, past any proxy of the environment. Must not know: what is asked.
Tests: tests/cli/test_remote.py.
"""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Generator, Mapping
from typing import Any
from urllib.parse import urlsplit

from saguaro.errors import ConfigError, RequestRefused, SaguaroError

DEFAULT_URL = "http://127.0.0.1:8000"
PATIENCE = 30.0
"""Seconds of silence after which a server counts as gone; streams of a living one say something every 15."""


class Remote:
    """A server by its address; the key is that of SAGUARO_API_KEY.

    Raises:
        ConfigError: the address is none.
    """

    def __init__(self, url: str, *, patience: float = PATIENCE) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1 or parts.query:
            raise ConfigError(f"{url!r} is no address of a server; give one like {DEFAULT_URL}.")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1')}"
        self._host, self._port, self._path = parts.hostname, port, urlsplit(self.url).path
        self._kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._patience = patience
        key = os.environ.get("SAGUARO_API_KEY")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body.

        Raises:
            SaguaroError: nothing answers. RequestRefused: it wants a key.
        """
        connection = self._connect()
        try:
            connection.request("GET", self._path + path, headers=self._headers)
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._silent(error) from None
        finally:
            connection.close()
        if response.status in (401, 403):
            raise RequestRefused(f"{self.url} wants a key; set SAGUARO_API_KEY.")
        return response.status, body

    def events(self, path: str, body: Mapping[str, Any]) -> Generator[dict[str, Any], None, None]:
        """The JSON of a stream's events up to its end; closing it leaves the stream.

        Raises:
            SaguaroError: nothing answers, or it ended early. RequestRefused: the server says why.
        """
        connection = self._connect()
        headers = {**self._headers, "Content-Type": "application/json"}
        try:
            connection.request("POST", self._path + path, json.dumps({**body, "stream": True}), headers)
            response = connection.getresponse()
            if response.status != 200:
                raise self._refused(response.status, response.read())
            while line := response.readline():
                if not line.startswith(b"data:"):
                    continue  # an empty line, or a comment that keeps the connection alive
                text = line.removeprefix(b"data:").strip()
                if text == b"[DONE]":
                    return
                event = json.loads(text)
                if "error" in event:
                    raise SaguaroError(str(event["error"].get("message")))
                yield event
        except (OSError, ValueError, http.client.HTTPException) as error:
            if isinstance(error, SaguaroError):
                raise
            raise self._silent(error) from None
        finally:
            connection.close()
        raise SaguaroError(f"{self.url} ended the answer early.")

    def _connect(self) -> http.client.HTTPConnection:
        return self._kind(self._host, self._port, timeout=self._patience)

    def _silent(self, error: Exception) -> SaguaroError:
        why = f"nothing for {self._patience:g} s" if isinstance(error, TimeoutError) else _reason(error)
        return SaguaroError(f"{self.url} does not answer: {why}.")

    def _refused(self, status: int, body: bytes) -> SaguaroError:
        try:
            message = str(json.loads(body)["error"]["message"])
        except (ValueError, KeyError, TypeError):
            message = f"{self.url} answers {status}, and not as this server does."
        return RequestRefused(message) if status < 500 else SaguaroError(message)


def _reason(error: Exception) -> str:
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return text[0].lower() + text[1:].rstrip(".")
