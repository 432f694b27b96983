"""The demo end to end on toys, its comparison, and its colours."""

import pytest
from rich.console import Console

from saguaro.bench.settings import Lane
from saguaro.cli.demo import PROMPTS, Outcome, compare
from saguaro.cli.demo_view import ORIGINS, Column, LiveView, Pieces, side_by_side
from saguaro.models.byte_tokenizer import ByteTokenizer
from saguaro.request import Delta


@pytest.mark.processes
def test_toy_demo(command):
    done = command("demo", "--toy", "--prompts", "1", "--max-tokens", "24")
    assert done.status == 0, done.err
    assert "The three texts are identical: 24 tokens compared" in done.out
    for mode in ("AR", "SD", "SSD"):
        assert f"│ {mode} " in done.out
    assert "far too small for speculation to pay" in done.out


@pytest.mark.slow
def test_real_demo(command, models_directory):
    if not (models_directory / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf").exists():
        pytest.skip(f"the Qwen pair is not in {models_directory}")
    done = command("demo", "--prompts", "1", "--max-tokens", "24", timeout=600)
    assert done.status == 0, done.err
    assert "The three texts are identical" in done.out


def test_fewer_prompts_than_asked(here):
    done = here("demo", "--toy", "--prompts", len(PROMPTS) + 1)
    assert (done.status, "the demo has 3 prompts" in done.err) == (2, True)


def test_models_of_ones_own_come_in_pairs(here):
    assert "together" in here("demo", "--target", "toy:llama").err
    assert "brings its own" in here("demo", "--toy", "--target", "toy:llama", "--draft", "toy:llama").err


def outcome(mode, *token_ids):
    return Outcome(Lane(mode, False, "cpu:0", 1, {}), [list(ids) for ids in token_ids])


def test_compare_names_the_first_difference():
    same = [outcome("ar", [1, 2], [3]), outcome("sd", [1, 2], [3]), outcome("ssd", [1, 2], [3])]
    assert compare(same) == (True, "The three texts are identical: 3 tokens compared, id by id.")
    good, sentence = compare([*same[:2], outcome("ssd", [1, 2], [4])])
    assert (good, sentence) == (False, "The outputs differ: SSD from AR at prompt 2, token 1.")
    assert not compare([same[0], outcome("sd", [1, 2, 3], [3])])[0]


def test_outputs_that_differ_fail_the_command(here, monkeypatch):
    monkeypatch.setattr("saguaro.cli.demo.compare", lambda outcomes: (False, "The outputs differ: made up."))
    monkeypatch.setattr(
        "saguaro.cli.demo.TOY_ENGINE", {"target": "toy:markov", "draft": "toy:markov", "channel": "loopback"}
    )
    done = here("demo", "--toy", "--prompts", "1", "--max-tokens", "4", "--lookahead", "2", "--budget", "3")
    assert (done.status, "made up" in done.out) == (1, True)


def test_pieces_join_characters_across_tokens():
    tokenizer = ByteTokenizer(vocab=512)
    ids = tokenizer.encode("aé→", add_special=False)
    origins = [("hit", "bonus", "fallback")[i % 3] for i in range(len(ids))]
    pieces = Pieces(tokenizer)
    split = [piece for i, o in zip(ids, origins, strict=True) for piece in pieces.split(Delta("", [i], None, [o]))]
    assert "".join(text for text, _ in split) == "aé→"
    assert "�" not in "".join(text for text, _ in split)


def test_controls_cannot_move_the_cursor():
    tokenizer = ByteTokenizer(vocab=512)
    ids = tokenizer.encode("a\x1b[2Jb\nc", add_special=False)
    text = "".join(text for text, _ in Pieces(tokenizer).split(Delta("", ids, None, ["hit"] * len(ids))))
    assert text == "a·[2Jb\nc"


def test_columns_show_the_end_and_the_colours():
    console = Console(width=90, height=20, force_terminal=True, color_system="standard")
    columns = [
        Column(title, pieces=[(f"line {i}\n", origin) for i in range(50)])
        for title, origin in (("A", "hit"), ("B", "fallback"))
    ]
    with console.capture() as capture:
        console.print(side_by_side(columns, lines=5, console=console))
    shown = capture.get()
    assert "line 49" in shown
    assert "line 10" not in shown
    assert "\x1b[1;32mline 49" in shown
    assert "\x1b[33mline 49" in shown


def test_live_view_leaves_whole_texts():
    console = Console(width=90, height=12, force_terminal=True, color_system=None)
    columns = [Column("A"), Column("B")]
    with console.capture() as capture, LiveView(console, columns).shown() as view:
        view.status(columns[0], "runs")
        for i in range(30):
            view.pieces(columns[0], [(f"line {i}\n", "hit")])
        view.status(columns[0], "done")
    last_legend = ORIGINS["prefill"][0]
    frame = capture.get().rsplit(last_legend, 1)[1]  # what is printed when the live part has ended
    assert "line 0 " in frame
    assert "line 29 " in frame
    assert all(name in capture.get() for name, _ in ORIGINS.values())
