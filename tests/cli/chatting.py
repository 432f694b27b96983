"""Parts of a conversation that tests write themselves: what answers, what is typed, what is shown."""

import signal
from contextlib import contextmanager

from saguaro.cli.conversation import Conversation, Part
from saguaro.errors import ConfigError, RequestRefused
from saguaro.request import RequestMetrics

CTRL_C = KeyboardInterrupt()


class Script:
    """Answers as written: a list of parts or errors for each call; an answer may be interrupted at a part."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.closed = 0
        self._mode = "ssd"

    def answer(self, messages, *, attempt):
        self.asked.append(([(message["role"], message["content"]) for message in messages], attempt))
        return self._parts(self.answers.pop(0))

    def _parts(self, parts):
        try:
            for part in parts:
                if part is CTRL_C:
                    signal.raise_signal(signal.SIGINT)
                elif isinstance(part, Exception):
                    raise part
                else:
                    yield part if isinstance(part, Part) else Part("content", part)
        finally:
            self.closed += 1

    def mode(self):
        return self._mode

    def set_mode(self, name):
        if name != "ar":
            raise ConfigError("only ar.")
        self._mode = name


class Lines:
    """Typed lines, then the end of input."""

    def __init__(self, *lines, interactive=True):
        self.lines, self.interactive = list(lines), interactive

    def read(self):
        line = self.lines.pop(0) if self.lines else EOFError()
        if isinstance(line, BaseException):
            raise line
        return line


class Shown:
    """Everything that was shown."""

    def __init__(self):
        self.notes, self.answers = [], []

    def note(self, text):
        self.notes.append(text)

    @contextmanager
    def answer(self):
        self.answers.append("")
        yield self

    def add(self, kind, text):
        self.answers[-1] += text


def talk(script, *lines, interactive=True, system=None):
    """Run a conversation; what was shown, and whether every answer came."""
    shown = Shown()
    done = Conversation(script, Lines(*lines, interactive=interactive), shown, system=system).run()
    return shown, done


def counted(**counters):
    """A part with counters only."""
    return Part("content", "", RequestMetrics(**counters))


REFUSED = RequestRefused("the conversation has 9 tokens and the context is 8; /clear forgets it.")
