"""A scripted conversation over a real tiny model; the terminal is replaced, the model is not."""

import builtins

import pytest


@pytest.fixture
def talk(here, toy, monkeypatch):
    def run(*lines, arguments=()):
        said = iter(lines)

        def read(prompt):
            line = next(said, EOFError())
            if isinstance(line, BaseException):
                raise line
            return line

        monkeypatch.setattr(builtins, "input", read)
        return here("chat", *toy, "--temperature", "0", "--max-tokens", "8", "--ignore-eos", *arguments)

    return run


def test_answers_until_quit(talk):
    done = talk("hello", "and now?", "/stats", "/quit", AssertionError("asked after /quit"))
    assert done.status == 0, done.err
    assert "tokens/s" in done.out


def test_end_of_input_ends(talk):
    assert talk("hello").status == 0


def test_stats_before_anything_and_help(talk):
    done = talk("/stats", "/nonsense", "/clear", "/quit")
    assert "nothing generated yet" in done.out
    assert done.out.count("/clear forgets") == 2  # at the start, and for the unknown command
    assert "forgotten." in done.out


def test_history_changes_the_answer(talk):
    def answers(*lines):
        return [line for line in talk(*lines, "/quit").out.splitlines()[1:] if line]

    fresh, remembered, cleared = answers("b"), answers("a", "b"), answers("a", "/clear", "b")
    assert remembered[-1] != fresh[-1]
    assert cleared[-1] == fresh[-1]


def test_conversation_that_does_not_fit(talk):
    done = talk("word " * 200, "/quit", arguments=("--max-model-len", "128"))
    assert "the context is 128" in done.out
    assert done.status == 0


def test_ctrl_c_stops_the_answer_only(talk, monkeypatch):
    from saguaro.cli.chat import Conversation

    class Interrupting:
        def __init__(self, llm):
            self._llm, self.closed = llm, 0

        def stream(self, ids, params):
            pieces = self._llm.stream(ids, params)
            outer = self

            class Pieces:
                def __iter__(self):
                    yield next(pieces)
                    raise KeyboardInterrupt

                def close(self):
                    outer.closed += 1
                    pieces.close()

            return Pieces()

    made = []
    start = Conversation.__init__

    def wrapped(self, llm, *rest, **options):
        made.append(Interrupting(llm))
        start(self, made[-1], *rest, **options)

    monkeypatch.setattr(Conversation, "__init__", wrapped)
    done = talk("hello", "again", "/quit")
    assert done.status == 0
    assert done.out.count("[stopped]") == 2
    assert made[0].closed == 2


def test_ctrl_c_at_the_prompt_ends(talk):
    assert talk(KeyboardInterrupt()).status == 130
