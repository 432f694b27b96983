"""Prompts that a chat model writes itself: where its turn begins, and which turns are kept."""

import sys
from itertools import islice, repeat
from pathlib import Path
from types import SimpleNamespace

import pytest

from saguaro.models.byte_tokenizer import ByteTokenizer

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def own():
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import own_prompts

        return own_prompts
    finally:
        sys.path.pop(0)


class Template:
    """A tokenizer whose template puts the user's text between two marks, or changes it."""

    def __init__(self, change=str):
        self.change = change

    def apply_chat_template(self, messages):
        return f"<system>Be kind.<user>{self.change(messages[0]['content'])}<end>"

    def encode(self, text, add_special):
        assert not add_special
        return list(text.encode())


def test_the_target_goes_on_where_the_user_begins(own):
    assert bytes(own.beginning(SimpleNamespace(tokenizer=Template()))) == b"<system>Be kind.<user>"


def test_a_template_that_changes_the_text_is_refused(own):
    with pytest.raises(SystemExit, match="template"):
        own.beginning(SimpleNamespace(tokenizer=Template(change=ascii)))


def test_the_template_of_a_toy_has_a_beginning(own):
    tokenizer = ByteTokenizer(258)
    head = own.beginning(SimpleNamespace(tokenizer=tokenizer))
    whole = tokenizer.apply_chat_template([{"role": "user", "content": "Hello there"}])
    assert whole.startswith(tokenizer.decode(head) + "Hello there")


def test_turns_that_say_nothing_new_are_left_out(own):
    turns = ["Explain how bees fly.", "", "Hi", "Explain how bees fly.", "Explain how birds fly."]
    assert list(own.different(turns)) == [turns[0], turns[4]]


def test_endless_useless_turns_end(own):
    with pytest.raises(SystemExit, match="smaller --count"):
        list(islice(own.different(repeat("")), 1))
