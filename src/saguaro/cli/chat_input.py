"""Where the lines of a conversation come from: an editor with a history on a terminal, plain reading elsewhere.

A message may have several lines: a backslash at the end of one, or Alt-Enter in the editor, goes on with the next.
Must not know: conversations. Tests: tests/cli/test_chat_input.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from saguaro.errors import ConfigError

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.key_binding.key_processor import KeyPressEvent
    from prompt_toolkit.output import Output

PROMPT, GOES_ON = "> ", ". "


def state_folder() -> Path:
    """The user's folder for state (XDG_STATE_HOME)."""
    folder = os.environ.get("XDG_STATE_HOME")
    return Path(folder).expanduser() if folder else Path.home() / ".local" / "state"


def prepare_history(folder: Path) -> Path:
    """The history's file under a folder for state, made if need be; nobody else may read it.

    Raises:
        OSError: it cannot be written.
    """
    path = folder / "saguaro" / "chat-history"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        os.fchmod(handle, 0o600)
    finally:
        os.close(handle)
    return path


class PlainReader:
    """Lines of a stream as they are; the mark that asks for one goes to standard error, and to a terminal only."""

    def __init__(self, source: TextIO, *, interactive: bool) -> None:
        self.interactive = interactive
        self._source = source

    def read(self) -> str:
        lines: list[str] = []
        while True:
            if self.interactive:
                print(GOES_ON if lines else PROMPT, end="", file=sys.stderr, flush=True)
            try:
                line = self._source.readline()
            except UnicodeDecodeError:
                raise ConfigError("standard input is not UTF-8 text; convert it first.") from None
            whole = line.rstrip("\n")
            if not line:
                if not lines:
                    raise EOFError
                return "\n".join(lines)
            if not whole.endswith("\\"):
                return "\n".join([*lines, whole])
            lines.append(whole[:-1])


class EditingReader:
    """An editor of one message, with the history of earlier runs when `history` names a file."""

    interactive = True

    def __init__(
        self,
        words: Iterable[str],
        history: Path | None,
        *,
        source: Input | None = None,
        out: Output | None = None,
    ) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter

        self.failure: OSError | None = None
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation=GOES_ON,
            history=self._history(history),
            key_bindings=_keys(),
            completer=WordCompleter(list(words), sentence=True),
            complete_while_typing=False,
            enable_open_in_editor=True,
            input=source,
            output=out,
        )

    def read(self) -> str:
        text: str = self._session.prompt()
        if self.failure is not None:
            failure, self.failure = self.failure, None
            print(f"the history cannot be written: {failure.strerror}.", file=sys.stderr)
        return text

    def _history(self, path: Path | None) -> History:
        from prompt_toolkit.history import FileHistory, InMemoryHistory

        if path is None:
            return InMemoryHistory()
        reader = self

        class Kept(FileHistory):
            """A full disk must not cost the message."""

            def store_string(self, string: str) -> None:
                try:
                    super().store_string(string)
                except OSError as error:
                    reader.failure = error

        return Kept(path)


def _keys() -> KeyBindings:
    """Enter sends, Alt-Enter goes on; Ctrl-C drops what was typed (Up brings it back), or else interrupts."""
    from prompt_toolkit.enums import DEFAULT_BUFFER
    from prompt_toolkit.filters import has_focus, is_searching
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()
    typing: Any = has_focus(DEFAULT_BUFFER) & ~is_searching

    @keys.add("enter", filter=typing)
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.is_cursor_at_the_end and buffer.text.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter", filter=typing)
    def go_on(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("c-c", filter=typing)
    @keys.add("<sigint>", filter=typing)
    def drop(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.text:
            buffer.append_to_history()
            buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    return keys
