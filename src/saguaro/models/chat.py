"""Chat templates: messages in, one prompt string out, by the rules under which the templates were written.

The templates are programs from a model's files, so they run in Jinja's sandbox. Three filters of Jinja's would change
the prompt and are replaced (`tojson` must not escape `<` or non-ASCII letters). Messages are brought into the form that
all families accept first: null keys dropped, text parts joined, `developer` called `system`, a call's arguments parsed.
Must not know: tokens, models, HTTP. Tests: tests/models/test_chat.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from saguaro.errors import RequestRefused, WeightsError

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATE_KEY = "tokenizer.chat_template"


class ChatTemplate:
    """One compiled template.

    Args:
        source: the Jinja text.
        bos_text, eos_text: offered to it as `bos_token` and `eos_token`.

    Raises:
        WeightsError: the text is no valid template.
    """

    def __init__(self, source: str, *, bos_text: str = "", eos_text: str = "") -> None:
        from jinja2 import TemplateSyntaxError

        try:
            self._template = _environment().from_string(source)
        except TemplateSyntaxError as error:
            raise WeightsError(f"the model's chat template is damaged: {error}.") from error
        self._texts = {"bos_token": bos_text, "eos_token": eos_text}

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        clock: Callable[[], datetime] = datetime.now,
        **variables: Any,
    ) -> str:
        """The prompt.

        Args:
            messages: mappings with `role` and `content`, as in the OpenAI API.
            tools: definitions of functions; an empty list is none.
            add_generation_prompt: end where the assistant's answer begins.
            clock: what `strftime_now` of a template reads.
            variables: further ones of the template, for example `enable_thinking` or `date_string`.

        Raises:
            RequestRefused: the messages have a form that cannot be rendered, or the template refuses them.
        """
        from jinja2 import TemplateError

        if not messages:
            raise RequestRefused("a chat needs at least one message.")
        try:
            return self._template.render(
                messages=[normalise(message) for message in messages],
                tools=list(tools) if tools else None,
                add_generation_prompt=add_generation_prompt,
                strftime_now=lambda form: clock().strftime(form),
                **self._texts,
                **variables,
            )
        except TemplateError as error:
            raise RequestRefused(f"the model's chat template refuses these messages: {error}.") from error
        except (TypeError, AttributeError, KeyError, ValueError) as error:
            if isinstance(error, RequestRefused):
                raise
            raise RequestRefused(f"the model's chat template cannot render these messages: {error}.") from error


def normalise(message: Mapping[str, Any]) -> dict[str, Any]:
    """One message in the form that every template accepts.

    Null keys are dropped (a present but null `tool_calls` breaks templates), missing content becomes an empty string,
    a list of text parts is joined by line ends, `developer` becomes `system`, and a call's `arguments` are parsed from
    JSON, since templates would encode a string a second time.

    Raises:
        RequestRefused: no role, or a part that is not text.
    """
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise RequestRefused("every message needs a role and content.")
    clean = {key: value for key, value in message.items() if value is not None}
    if clean["role"] == "developer":
        clean["role"] = "system"
    clean["content"] = _text(clean.get("content", ""))
    if clean.get("tool_calls"):
        clean["tool_calls"] = [_call(call) for call in clean["tool_calls"]]
    else:
        clean.pop("tool_calls", None)
    return clean


def _text(content: Any) -> Any:
    if not isinstance(content, (list, tuple)):
        return content
    parts = []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
        if kind != "text" or not isinstance(part.get("text"), str):
            raise RequestRefused(f"content parts of type {kind!r} are not supported; only 'text' is.")
        parts.append(part["text"])
    return "\n".join(parts)


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    clean = {key: value for key, value in call.items() if value is not None}
    function = clean.get("function")
    if isinstance(function, Mapping):
        clean["function"] = _parsed(function)
    return _parsed(clean)


def _parsed(holder: Mapping[str, Any]) -> dict[str, Any]:
    """`holder` with its `arguments` parsed; text that is no JSON object is left alone."""
    clean = {key: value for key, value in holder.items() if value is not None}
    if isinstance(clean.get("arguments"), str):
        try:
            value = json.loads(clean["arguments"])
        except ValueError:
            return clean
        if isinstance(value, dict):
            clean["arguments"] = value
    return clean


def directory_templates(directory: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """Templates by name from a checkpoint's directory: own files first, then `tokenizer_config.json`."""
    found: dict[str, str] = {}
    stored = settings.get("chat_template")
    if isinstance(stored, str):
        found["default"] = stored
    elif isinstance(stored, list):
        found |= {entry["name"]: entry["template"] for entry in stored}
    for path in sorted((directory / "additional_chat_templates").glob("*.jinja")):
        found[path.stem] = path.read_text("utf-8")
    single = directory / "chat_template.jinja"
    if single.exists():
        found["default"] = single.read_text("utf-8")
    return found


def gguf_templates(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Templates by name from GGUF metadata."""
    found = {
        key.removeprefix(TEMPLATE_KEY).removeprefix(".") or "default": value
        for key, value in metadata.items()
        if key.startswith(TEMPLATE_KEY) and isinstance(value, str)
    }
    return found


def _raise_exception(message: str) -> NoReturn:
    from jinja2 import TemplateError

    raise TemplateError(message)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _environment() -> Environment:
    """Jinja as chat templates expect it."""
    from jinja2 import nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %} ... {% endgeneration %}` marks the assistant's words for training; here it does nothing."""

        tags = {"generation"}  # noqa: RUF012  (Jinja reads it from the class)

        def parse(self, parser: Parser) -> list[nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    return environment
