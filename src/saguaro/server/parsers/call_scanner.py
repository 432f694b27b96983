"""Reads one call, a JSON object with a name and arguments, character by character.

The arguments go out as they come, as the text that the model wrote, once the name is known; an object that turns out to
be no call before that is given back whole. Must not know: what stands around the object.
Tests: tests/server/test_call_scanner.py.
"""

from __future__ import annotations

import json
from collections.abc import Collection

ARGUMENTS = ("arguments", "parameters")
KEYS = ("name", "type", "id", *ARGUMENTS)
PRIMITIVE = "-0123456789tfn"


class CallScanner:
    """One object.

    Args:
        names: only these count as functions, and an object with other keys than those of a call is none; None takes
            any name and any keys.
        needs_arguments: an object without arguments is no call (else it is one with none).

    Attributes:
        name: of the function, once it is certain that this is a call.
        done: the object is complete. broken: it is no call, or no JSON.
        rest: what came after the end, or after the character that broke it.
        seen: everything up to there.
    """

    def __init__(self, names: Collection[str] | None = None, *, needs_arguments: bool = False) -> None:
        self._names = names
        self._needs_arguments = needs_arguments
        self._state = self._start
        self._key = self._raw = self._held = ""
        self._found: str | None = None
        self._has_arguments = self._streams = False
        self._depth = 0
        self._in_string = self._escaped = False
        self._out: list[str] = []
        self.name: str | None = None
        self.done = self.broken = False
        self.seen = self.rest = ""

    def push(self, text: str) -> str:
        """Add text; returns what it adds to the arguments."""
        for place, letter in enumerate(text):
            self._state(letter)
            if self.done or self.broken:
                self.seen += text[: place + 1]
                self.rest = text[place + 1 :]
                break
        else:
            self.seen += text
        out, self._out = "".join(self._out), []
        return out

    # -- states: each takes one character -------------------------------------------------------------------------

    def _start(self, letter: str) -> None:
        if letter == "{":
            self._state = self._before_key
        elif not letter.isspace():
            self.broken = True

    def _before_key(self, letter: str) -> None:
        if letter == "}":
            self._end()
        elif letter == '"':
            self._raw, self._escaped = letter, False
            self._state = self._in_key
        elif letter != "," and not letter.isspace():
            self.broken = True

    def _in_key(self, letter: str) -> None:
        self._raw += letter
        if self._closes(letter):
            key = _loads(self._raw)
            self._key = key if isinstance(key, str) else ""
            self._state = self._before_value
            self.broken = self._names is not None and self._key not in KEYS

    def _before_value(self, letter: str) -> None:
        if letter == ":":
            self._state = self._first_of_value
        elif not letter.isspace():
            self.broken = True

    def _first_of_value(self, letter: str) -> None:
        if letter.isspace():
            return
        self._raw, self._depth, self._escaped = "", 0, False
        self._in_string = letter == '"'
        wanted = self._key in ARGUMENTS and not self._has_arguments
        self._streams = wanted and letter == "{"
        if self._streams:
            self._has_arguments = True
            self._certain()
        if letter in "{[":
            self._depth = 1
            self._state = self._in_container
        elif letter == '"':
            self._state = self._in_text
        elif letter in PRIMITIVE:
            self._state = self._in_primitive
        else:
            self.broken = True
        self._add(letter)

    def _in_container(self, letter: str) -> None:
        self._add(letter)
        if self._in_string:
            if self._closes(letter):
                self._in_string = False
        elif letter == '"':
            self._in_string = True
        elif letter in "{[":
            self._depth += 1
        elif letter in "}]":
            self._depth -= 1
            if self._depth == 0:
                self._value_ended()

    def _in_text(self, letter: str) -> None:
        self._add(letter)
        if self._closes(letter):
            self._value_ended()

    def _in_primitive(self, letter: str) -> None:
        if letter in ",}" or letter.isspace():
            self._value_ended()
            if not self.broken:
                self._before_key(letter)
        else:
            self._add(letter)

    # -- what they share ------------------------------------------------------------------------------------------

    def _closes(self, letter: str) -> bool:
        """Whether a character within a string ends it."""
        if self._escaped:
            self._escaped = False
        elif letter == "\\":
            self._escaped = True
        else:
            return letter == '"'
        return False

    def _add(self, letter: str) -> None:
        if not self._streams:
            self._raw += letter
        elif self.name is None:
            self._held += letter
        else:
            self._out.append(letter)

    def _value_ended(self) -> None:
        self._state = self._before_key
        if self._streams:
            self._streams = False
            return
        value = _loads(self._raw)
        if self._key == "name":
            if not isinstance(value, str) or not value or (self._names is not None and value not in self._names):
                self.broken = True
                return
            self._found = value
            self._certain()
        elif self._key in ARGUMENTS and not self._has_arguments:
            self._has_arguments = True
            self._held = (value if isinstance(value, str) else "" if value is None else self._raw) or "{}"
            self._certain()

    def _certain(self) -> None:
        """It is a call once there are a name and the beginning of arguments."""
        if self.name is None and self._found is not None and self._has_arguments:
            self.name = self._found
        if self.name is not None and self._held:
            self._out.append(self._held)
            self._held = ""

    def _end(self) -> None:
        if self._found is None or (self._needs_arguments and not self._has_arguments):
            self.broken = True
            return
        if not self._has_arguments:
            self._has_arguments, self._held = True, "{}"
        self._certain()
        self.done = True


def _loads(raw: str) -> object:
    try:
        return json.loads(raw)
    except ValueError:
        return raw
