"""A conversation: lines in, answers out, and the commands that begin with a slash.

What answers (an engine here, or a server) is a `Backend`, where lines come from a `Reader`, what shows them a `View`.
Nothing is lost: a turn that failed can be sent again, a stopped answer stays in the conversation.
Must not know: engines, HTTP, terminals. Tests: tests/cli/test_conversation.py.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from saguaro.cli.generate import stats_line
from saguaro.errors import ConfigError, SaguaroError
from saguaro.registry import nearest
from saguaro.request import RequestMetrics

Message = dict[str, str]
# name: (what follows it, what it does)
COMMANDS = {
    "/help": ("", "this list"),
    "/stats": ("", "speed, acceptance and hit rate of the last answer and of all"),
    "/mode": ("[ar|sd|ssd|auto]", "show how answers are decoded, or change it from the next answer on"),
    "/system": ("[TEXT]", "show the system message, or set it from the next answer on; - removes it"),
    "/clear": ("", "forget the conversation; the system message stays"),
    "/retry": ("", "answer the last message anew"),
    "/save": ("FILE", "write the conversation: messages as JSON for .json, else Markdown"),
    "/quit": ("", "end; Ctrl-D does, too"),
}
EDITING = (
    "Enter sends; Alt-Enter, or a backslash at the end, begins a new line; // begins a message with a slash. "
    "Ctrl-C stops an answer."
)
GREETING = "/help lists the commands; Ctrl-C stops an answer, Ctrl-D ends."


@dataclass(frozen=True)
class Part:
    """A piece of an answer: `content` or `reasoning`, and the counters so far where they are known."""

    kind: str
    text: str
    metrics: RequestMetrics | None = None


class Backend(Protocol):
    """What answers."""

    def answer(self, messages: Sequence[Message], *, attempt: int) -> Generator[Part, None, None]:
        """The pieces of an answer; closing it ends the request. `attempt` counts answers to the same messages.

        Raises:
            SaguaroError: this answer will not come.
        """

    def mode(self) -> str:
        """How answers are decoded, in words."""

    def set_mode(self, name: str) -> None:
        """Change that.

        Raises:
            ConfigError: it cannot be changed so.
        """


class Reader(Protocol):
    """Where lines come from."""

    interactive: bool

    def read(self) -> str:
        """The next message or command.

        Raises:
            EOFError: there is none. KeyboardInterrupt: Ctrl-C where nothing was typed.
        """


class Sink(Protocol):
    """Takes one answer."""

    def add(self, kind: str, text: str) -> None:
        """The next piece."""


class View(Protocol):
    """What shows answers."""

    def note(self, text: str) -> None:
        """Say something that is no answer."""

    def answer(self) -> AbstractContextManager[Sink]:
        """Show an answer while it comes; at the end all of it has been shown."""


class Stop:
    """Ctrl-C while an answer comes: it ends the wait for the next piece, and never cuts into anything else."""

    def __init__(self) -> None:
        self._asked = self._waits = False

    def __enter__(self) -> Stop:
        self._before = signal.signal(signal.SIGINT, self._ring)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        self._asked = True
        if self._waits:
            self._waits = False
            raise KeyboardInterrupt

    def pieces(self, parts: Iterator[Part]) -> Iterator[Part]:
        """The parts as they come.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        while True:
            self._waits = True
            try:
                if self._asked:  # looked at after the mark above: there is no moment at which Ctrl-C is lost
                    raise KeyboardInterrupt
                part = next(parts)
            except StopIteration:
                return
            finally:
                self._waits = False
            yield part


class Conversation:
    """The messages so far, and what answers them."""

    def __init__(self, backend: Backend, reader: Reader, view: View, *, system: str | None = None) -> None:
        self._backend, self._reader, self._view = backend, reader, view
        self._system = system
        self._messages: list[Message] = []
        self._pending: str | None = None  # the last message that was sent, answered or not
        self._attempt = 0
        self._metrics: list[RequestMetrics] = []
        self._saved: set[Path] = set()
        self._failed = False

    def run(self) -> bool:
        """Read and answer until the end; whether every answer came."""
        warned = False
        while True:
            try:
                line = _whole(self._reader.read()).strip()
            except EOFError:
                return not self._failed
            except KeyboardInterrupt:
                if warned or not self._reader.interactive:
                    raise
                warned = True
                self._view.note("Ctrl-C again, or Ctrl-D, ends.")
                continue
            warned = False
            if line == "/quit":
                return not self._failed
            if line:
                self._take(line)

    def _take(self, line: str) -> None:
        if line.startswith("/") and not line.startswith("//"):
            try:
                self._command(*parse(line))
            except SaguaroError as error:
                self._view.note(str(error))
            except KeyboardInterrupt:
                self._view.note("stopped.")
            return
        self._attempt = 0
        self._ask(line[1:] if line.startswith("//") else line, self._messages)

    # -- answers --------------------------------------------------------------------------------------------------

    def _ask(self, text: str, before: Sequence[Message]) -> None:
        """Send a message after `before`; the conversation changes when something was answered."""
        self._pending = text
        asked = [*before, {"role": "user", "content": text}]
        system = [] if self._system is None else [{"role": "system", "content": self._system}]
        said, complete, note = "", False, None
        metrics: RequestMetrics | None = None
        parts = self._backend.answer([*system, *asked], attempt=self._attempt)
        try:
            with Stop() as stop, closing(parts), self._view.answer() as sink:
                for part in stop.pieces(parts):
                    metrics = part.metrics or metrics
                    said += part.text if part.kind == "content" else ""
                    if part.text:
                        sink.add(part.kind, part.text)
                complete = True
        except KeyboardInterrupt:
            note = "[stopped]"
        except SaguaroError as error:
            self._failed = True
            note = str(error)
        if metrics is not None:
            self._metrics.append(metrics)
        if said or complete:
            self._messages = [*asked, {"role": "assistant", "content": said}]
        if note is not None:
            self._view.note(note if said or complete else f"{note} Nothing was answered; /retry asks again.")

    # -- commands -------------------------------------------------------------------------------------------------

    def _command(self, name: str, argument: str) -> None:
        actions: Mapping[str, Callable[[str], None]] = {
            "/help": self._help,
            "/stats": self._stats,
            "/mode": self._mode,
            "/system": self._set_system,
            "/clear": self._clear,
            "/retry": self._retry,
            "/save": self._save,
        }
        actions[name](argument)

    def _help(self, _: str) -> None:
        width = max(len(f"{name} {after}") for name, (after, _) in COMMANDS.items())
        lines = [f"{f'{name} {after}':<{width}}  {text}" for name, (after, text) in COMMANDS.items()]
        self._view.note("\n".join([*lines, EDITING]))

    def _stats(self, _: str) -> None:
        if not self._metrics:
            self._view.note("nothing generated yet.")
            return
        self._view.note(
            f"last answer: {stats_line(self._metrics[-1:])}\nin all ({len(self._metrics)}): {stats_line(self._metrics)}"
        )

    def _mode(self, name: str) -> None:
        if name:
            self._backend.set_mode(name)
        self._view.note(f"mode: {self._backend.mode()}.")

    def _set_system(self, text: str) -> None:
        if text:
            self._system = None if text == "-" else text
        self._view.note("no system message." if self._system is None else f"system message: {self._system}")

    def _clear(self, _: str) -> None:
        self._messages, self._pending, self._attempt = [], None, 0
        self._view.note("forgotten.")

    def _retry(self, _: str) -> None:
        if self._pending is None:
            raise ConfigError("there is no message to answer anew.")
        answered = self._messages[-2:-1] == [{"role": "user", "content": self._pending}]
        self._attempt += 1
        self._ask(self._pending, self._messages[:-2] if answered else self._messages)

    def _save(self, name: str) -> None:
        if not name:
            raise ConfigError("/save needs the name of a file.")
        path = Path(name).expanduser()
        system = [] if self._system is None else [{"role": "system", "content": self._system}]
        messages = [*system, *self._messages]
        if not messages:
            raise ConfigError("there is nothing to save yet.")
        text = _as_json(messages) if path.suffix == ".json" else _as_markdown(messages)
        try:
            with path.open("w" if path.resolve() in self._saved else "x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise ConfigError(f"{path} exists and is not of this conversation; choose another name.") from None
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror}.") from None
        self._saved.add(path.resolve())
        self._view.note(f"{len(messages)} messages in {path}.")


def _whole(text: str) -> str:
    """Text without halves of characters (a terminal may send any bytes), which no model and no file takes."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def parse(line: str) -> tuple[str, str]:
    """A command and what follows it.

    Raises:
        ConfigError: it does not exist, or takes nothing.
    """
    name, *rest = line.split(maxsplit=1)
    if name not in COMMANDS:
        hint = nearest(name, COMMANDS) or "."
        raise ConfigError(f"unknown command {name!r}{hint} /help lists all; // begins a message with a slash.")
    if rest and not COMMANDS[name][0]:
        raise ConfigError(f"{name} takes nothing after it.")
    return name, rest[0] if rest else ""


def _as_json(messages: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(messages, ensure_ascii=False, indent=1) + "\n"


def _as_markdown(messages: Sequence[Message]) -> str:
    return "\n\n".join(f"## {message['role']}\n\n{message['content'].rstrip()}" for message in messages) + "\n"
