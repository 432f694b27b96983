"""docs/api.md from the models of `requests.py`: the table of what is honoured (`scripts/api_table.py`).

Must not know: engines. Tests: tests/server/test_requests.py.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from saguaro.server.wire import requests

BLOCK = re.compile(r"(<!-- api -->\n)(?P<body>.*?)(<!-- /api -->)", re.DOTALL)
GENERATING: tuple[tuple[str, type[BaseModel]], ...] = (
    ("/v1/chat/completions", requests.ChatRequest),
    ("/v1/completions", requests.CompletionRequest),
)
OTHERS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("/v1/responses", requests.ResponsesRequest),
    ("/tokenize", requests.TokenizeRequest),
    ("/detokenize", requests.DetokenizeRequest),
)


def fill(text: str) -> str:
    """`text` with the block between its marks made anew."""
    return BLOCK.sub(lambda match: match[1] + markdown() + match[3], text)


def markdown() -> str:
    """The tables: fields that work, fields without an effect, fields that are refused."""
    rows = [(path, name, field) for path, model in GENERATING for name, field in model.model_fields.items()]
    merged: dict[tuple[str, str], list[str]] = {}
    inert: set[tuple[str, str]] = set()
    for path, name, field in rows:
        key = (name, f"{_type(field.annotation)} | {field.description}")
        merged.setdefault(key, []).append(path)
        if field.json_schema_extra == requests.INERT:
            inert.add(key)
    lines: list[str] = []
    for title, chosen in (("Honoured", merged.keys() - inert), ("Taken without an effect", inert)):
        lines += [f"### {title}", "", *_head("field", "type", "what it does", "where")]
        lines += [f"| `{key[0]}` | {key[1]} | {_where(paths)} |" for key, paths in merged.items() if key in chosen]
        lines.append("")
    lines += ["### Refused, with the reason", "", *_head("field", "what the answer says")]
    lines += [f"| `{name}` | {reason} |" for name, reason in requests.REFUSED.items()]
    for path, model in OTHERS:
        lines += ["", f"### `{path}`", "", *_head("field", "type", "what it does")]
        for name, field in model.model_fields.items():
            described = field.description or "A served name."
            lines.append(f"| `{name}` | {_type(field.annotation)} | {described} |")
    return "\n".join(["", *lines, "", ""])


def _head(*titles: str) -> list[str]:
    return ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]


def _where(paths: Iterable[str]) -> str:
    paths = list(paths)
    return "both" if len(paths) == len(GENERATING) else f"`{paths[0]}`"


def _type(annotation: Any) -> str:
    """A type as people write it."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type(arguments[0])
    if origin is typing.Literal:
        return " or ".join(f"`{str(value).lower() if isinstance(value, bool) else value}`" for value in arguments)
    if origin is list:
        return f"list of {_type(arguments[0])}"
    if origin is dict:
        return "object"
    if arguments:
        return " or ".join(dict.fromkeys(_type(each) for each in arguments if each is not type(None)))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "object"
    return {str: "text", int: "whole number", float: "number", bool: "true or false"}.get(annotation, "any")
