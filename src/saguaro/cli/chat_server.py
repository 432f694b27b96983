"""Answers from a running server, by `/v1/chat/completions`.

Must not know: terminals. Tests: tests/cli/test_chat_server.py.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import fields
from typing import Any

from saguaro.cli.conversation import Message, Part
from saguaro.cli.remote import Remote
from saguaro.errors import ConfigError, SaguaroError
from saguaro.request import RequestMetrics, SamplingParams

PATH = "/v1/chat/completions"
COUNTERS = {field.name for field in fields(RequestMetrics)}
# fields of `SamplingParams` that a body has under the same name
SAME = frozenset(
    {
        "max_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty",
        "frequency_penalty", "min_tokens", "seed", "stop", "stop_token_ids", "bad_words", "ignore_eos",
        "skip_special_tokens", "speculation", "regex", "grammar",
    }
)  # fmt: skip


class ServerBackend:
    """A server, and the fields of every request to it."""

    def __init__(self, remote: Remote, body: Mapping[str, Any]) -> None:
        self._remote, self._body = remote, dict(body)
        self.model = self._first_model()

    def answer(self, messages: Sequence[Message], *, attempt: int) -> Generator[Part, None, None]:
        """Pieces as the server sends them. With a seed, a later attempt takes the next one.

        Raises:
            SaguaroError: as `Remote.events`.
        """
        body = {**self._body, "messages": list(messages), "return_metrics": True}
        if "seed" in body:
            body["seed"] += attempt
        with closing(self._remote.events(PATH, body)) as events:
            for event in events:
                for choice in event["choices"]:
                    delta, metrics = choice.get("delta") or {}, choice.get("metrics")
                    if delta.get("reasoning_content"):
                        yield Part("reasoning", delta["reasoning_content"])
                    if delta.get("content"):
                        yield Part("content", delta["content"])
                    if metrics is not None:
                        yield Part("content", "", counted(metrics))

    def mode(self) -> str:
        """What the server was opened for."""
        _, body = self._remote.get("/health")
        return f"{json.loads(body).get('mode')}, the server's own"

    def set_mode(self, name: str) -> None:
        """Never: others use the same engine.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            "the server decides how it decodes, for all its clients; start it with --mode, or chat with "
            "--speculation 0 for answers without the draft."
        )

    def close(self) -> None:
        """Nothing is held between answers."""

    def _first_model(self) -> str:
        status, body = self._remote.get("/v1/models")
        try:
            return str(json.loads(body)["data"][0]["id"])
        except (ValueError, KeyError, IndexError, TypeError):
            raise SaguaroError(f"{self._remote.url} answers {status}, and not as this server does.") from None


def counted(metrics: Mapping[str, Any]) -> RequestMetrics:
    """The counters of an answer as the server sent them; its rates are made anew."""
    return RequestMetrics(**{name: value for name, value in metrics.items() if name in COUNTERS})


def body_of(params: SamplingParams, given: Sequence[str]) -> dict[str, Any]:
    """The fields of a request for the parameters that were given.

    Raises:
        ConfigError: one that no request has.
    """
    body: dict[str, Any] = {}
    for name in given:
        value = getattr(params, name)
        if name in SAME:
            body[name] = list(value) if isinstance(value, tuple) else value
        elif name == "logit_bias":
            body[name] = {str(token): bias for token, bias in value}
        elif name == "json_schema":
            schema = {"name": "answer", "schema": json.loads(value)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif name == "json_object":
            body["response_format"] = {"type": "json_object"} if value else {"type": "text"}
        else:
            raise ConfigError(f"--{name.replace('_', '-')} cannot be used with --url.")
    return body
