"""Commands, interruptions and errors of a conversation whose answers are written by the test."""

import json
import signal

import pytest
from tests.cli.chatting import CTRL_C, REFUSED, Script, counted, talk

from saguaro.cli.conversation import COMMANDS, Part, Stop, parse
from saguaro.errors import ConfigError, WorkerDied

HI = ("user", "hi")


def test_history_goes_with_every_message():
    script = Script(["a", "b"], ["c"])
    shown, done = talk(script, "hi", "", "  and?  ", "/quit", AssertionError("asked after /quit"))
    assert done
    assert shown.answers == ["ab", "c"]
    assert script.asked == [([HI], 0), ([HI, ("assistant", "ab"), ("user", "and?")], 0)]


def test_reasoning_is_shown_and_not_sent_again():
    script = Script([Part("reasoning", "hm"), "ok"], ["x"])
    shown, _ = talk(script, "hi", "on")
    assert shown.answers[0] == "hmok"
    assert script.asked[1][0][1] == ("assistant", "ok")


def test_bytes_that_are_no_text_do_not_end_it():
    script = Script(["a"])
    talk(script, "h\udcffi")
    assert script.asked[0][0] == [("user", "h?i")]


def test_system_message_is_set_shown_and_removed():
    script = Script(["a"], ["b"], ["c"])
    shown, _ = talk(script, "hi", "/system be brief", "hi", "/system", "/system -", "/clear", "hi", system="be long")
    assert [asked[0][0] for asked in script.asked] == [("system", "be long"), ("system", "be brief"), HI]
    assert shown.notes == ["system message: be brief"] * 2 + ["no system message.", "forgotten."]
    assert len(script.asked[2][0]) == 1


def test_retry_replaces_the_answer_with_another_attempt():
    script = Script(["a"], ["b"], ["c"], ["d"])
    talk(script, "hi", "/retry", "/retry", "on")
    assert script.asked[:3] == [([HI], 0), ([HI], 1), ([HI], 2)]
    assert script.asked[3] == ([HI, ("assistant", "c"), ("user", "on")], 0)


def test_a_failed_retry_keeps_the_answer_that_was_there():
    script = Script(["a"], [WorkerDied("gone.")], ["c"])
    shown, done = talk(script, "hi", "/retry", "on")
    assert shown.notes == ["gone. Nothing was answered; /retry asks again."]
    assert not done
    assert script.asked[2][0][:2] == [HI, ("assistant", "a")]


def test_a_refused_message_can_be_sent_again():
    script = Script([REFUSED], ["a"])
    shown, done = talk(script, "hi", "/retry")
    assert not done
    assert shown.notes == [f"{REFUSED} Nothing was answered; /retry asks again."]
    assert script.asked == [([HI], 0), ([HI], 1)]


def test_an_error_in_the_middle_keeps_what_came():
    script = Script(["half", WorkerDied("gone.")], ["x"])
    shown, _ = talk(script, "hi", "on")
    assert shown.notes == ["gone."]
    assert script.asked[1][0][1] == ("assistant", "half")


def test_ctrl_c_stops_the_answer_only():
    before = signal.getsignal(signal.SIGINT)
    script = Script(["half", CTRL_C, "more"], [CTRL_C], ["x"])
    shown, done = talk(script, "hi", "and", "on")
    assert done
    assert shown.answers == ["half", "", "x"]
    assert shown.notes == ["[stopped]", "[stopped] Nothing was answered; /retry asks again."]
    assert script.asked[2][0] == [HI, ("assistant", "half"), ("user", "on")]
    assert script.closed == 3
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_while_a_piece_is_drawn_waits_for_the_drawing():
    with Stop() as stop:
        parts = stop.pieces(iter(["a", "b"]))
        assert next(parts) == "a"
        signal.raise_signal(signal.SIGINT)  # as if it came while the piece is drawn
        with pytest.raises(KeyboardInterrupt):
            next(parts)


def test_a_second_ctrl_c_at_the_prompt_ends():
    with pytest.raises(KeyboardInterrupt):
        talk(Script(), KeyboardInterrupt(), KeyboardInterrupt())
    shown, _ = talk(Script(["a"]), KeyboardInterrupt(), "hi", KeyboardInterrupt())
    assert shown.notes == ["Ctrl-C again, or Ctrl-D, ends."] * 2
    with pytest.raises(KeyboardInterrupt):
        talk(Script(), KeyboardInterrupt(), interactive=False)


def test_stats_of_the_last_answer_and_of_all():
    one = counted(rounds=4, accepted=4, verified=8, drafted=12, decode_seconds=1.0, hits=3, misses=1)
    two = counted(rounds=2, accepted=4, verified=4, drafted=4, decode_seconds=1.0, hits=2)
    shown, _ = talk(Script(["a", one], ["b", two]), "/stats", "hi", "on", "/stats")
    assert shown.notes[0] == "nothing generated yet."
    last, whole = shown.notes[1].split("\n")
    assert last.startswith("last answer: 6.0 tokens/s, 3.00 tokens a round, acceptance 1.00, hit rate 1.00")
    assert whole.startswith("in all (2): 7.0 tokens/s, 2.33 tokens a round, acceptance 0.67, hit rate 0.83")


def test_mode_is_shown_changed_and_refused_in_a_sentence():
    shown, _ = talk(Script(), "/mode", "/mode ar", "/mode ssd")
    assert shown.notes == ["mode: ssd.", "mode: ar.", "only ar."]


def test_save_writes_both_forms_and_no_file_of_others(tmp_path):
    script = Script(["ä\n\n"], ["x"])
    names = [tmp_path / name for name in ("talk.json", "talk.md", "other.md", "no/where.md")]
    names[2].write_text("mine")
    lines = [f"/save {name}" for name in (names[0], names[1], names[2], names[3])]
    shown, _ = talk(script, lines[0], "/save", "hi", *lines, "on", lines[1], system="brief")
    messages = [{"role": "system", "content": "brief"}, {"role": "user", "content": "hi"}]
    assert json.loads(names[0].read_text("utf-8"))[:2] == messages[:1] + messages[1:]
    assert names[1].read_text("utf-8").startswith("## system\n\nbrief\n\n## user\n\nhi\n\n## assistant\n\nä\n\n## user")
    assert names[2].read_text() == "mine"
    notes = "\n".join(shown.notes)
    assert f"{names[2]} exists and is not of this conversation; choose another name." in notes
    assert f"{names[3]} cannot be written: No such file or directory." in notes
    assert "/save needs the name of a file." in notes


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/stat", "did you mean '/stats'?"),
        ("/xyzzy", "/help lists all"),
        ("/clear now", "/clear takes nothing after it."),
        ("/retry", "there is no message to answer anew."),
        ("/save x", "there is nothing to save yet."),
    ],
)
def test_mistakes_are_one_sentence(line, words):
    shown, done = talk(Script(), line)
    assert done
    assert words in shown.notes[0]


def test_help_names_every_command_and_slashes_can_be_sent():
    script = Script(["a"])
    shown, _ = talk(script, "/help", "//etc/passwd?")
    assert all(name in shown.notes[0] for name in COMMANDS)
    assert script.asked[0][0] == [("user", "/etc/passwd?")]


def test_parse():
    assert parse("/system  two\nlines") == ("/system", "two\nlines")
    assert parse("/mode") == ("/mode", "")
    with pytest.raises(ConfigError, match="unknown command '/'"):
        parse("/")
