"""Masks of grammars: exactly the legal ids by brute force, whatever was walked before, and every refusal's reason."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from saguaro.algorithm.options import Sampling
from saguaro.errors import RequestRefused
from saguaro.models.byte_tokenizer import ByteTokenizer
from saguaro.models.grammar import Allowed, Follower, Grammars, Spelling, grammar_text
from saguaro.models.tokenizer import TextCodec, Tokenizer
from saguaro.request import SamplingParams

# Whole languages, small enough to be listed: every string that the grammar accepts.
LANGUAGES = {
    r"(the|The) (quick|lazy|1234)( fox)?!?": [
        f"{a} {b}{c}{d}"
        for a in ("the", "The") for b in ("quick", "lazy", "1234") for c in ("", " fox") for d in ("", "!")
    ],
    r"(東京|é|🌵){1,2}x?": [
        f"{a}{b}{c}" for a in ("東京", "é", "🌵") for b in ("", "東京", "é", "🌵") for c in ("", "x")
    ],
    r"(return)?": ["", "return"],
}  # fmt: skip
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "ok": {"type": "boolean"}, "n": {"enum": [1, 12, 123]}},
    "required": ["name", "ok", "n"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def gguf(make_backend: Callable[..., Any], gguf_keys_of: Callable[..., Any]) -> Tokenizer:
    """Words of several bytes, single bytes, special tokens and padding, as a GGUF file has them."""
    return Tokenizer.from_gguf(gguf_keys_of(make_backend(None, digits=True), "smollm"))


def grammars(tokenizer: TextCodec, vocab: int) -> Grammars:
    return Grammars(lambda: tokenizer, vocab, tokenizer.stop_ids)


def follow(of: Grammars, stops: Sequence[int] = (), **params: Any) -> Follower:
    follower = of.follow(Sampling(grammar=grammar_text(SamplingParams(**params)), stop_ids=tuple(stops)))
    assert follower is not None
    return follower


def ids(allowed: Allowed | None) -> set[int]:
    assert allowed is not None
    return set((~allowed.banned_V).nonzero()[:, 0].tolist())


def legal(tokenizer: Tokenizer, width: int, language: list[str], output: bytes, stops: Sequence[int]) -> set[int]:
    """By definition: text that leaves a string of the language possible; the ends where one is complete."""
    strings = [text.encode() for text in language]
    found = set(stops) if output in strings else set()
    for token in range(width):
        piece = tokenizer.token_bytes(token)
        if piece and token not in tokenizer.special_ids and any(s.startswith(output + piece) for s in strings):
            found.add(token)
    return found


def forced_bytes(language: list[str], output: bytes) -> bytes:
    """What must follow `output` in every string that begins with it."""
    rests = [text.encode()[len(output) :] for text in language if text.encode().startswith(output)]
    return next(rests[0][:end] for end in range(len(min(rests, key=len)), -1, -1) if len({r[:end] for r in rests}) == 1)


@pytest.mark.parametrize("regex", LANGUAGES)
def test_a_mask_holds_exactly_the_legal_ids(gguf: Tokenizer, regex: str) -> None:
    """In every state that any tokens lead to. Where one text is certain, the tokenizer's own spelling of it is left."""
    width, stops = len(gguf.vocabulary.tokens), sorted(gguf.stop_ids)
    assert width > gguf.vocab_size  # there is padding
    follower, language = follow(grammars(gguf, width), stops, regex=regex), LANGUAGES[regex]
    several, certain = 0, 0
    paths: list[list[int]] = [[]]
    seen: set[bytes] = set()
    while paths:
        path = paths.pop()
        output = gguf.decode_bytes(path)
        wanted, found = legal(gguf, width, language, output, stops), ids(follower.allowed(path))
        forced = forced_bytes(language, output)
        if found != wanted:
            [token] = found
            assert token in wanted
            assert forced.startswith(gguf.token_bytes(token))
            if not path:
                assert gguf.encode(forced.decode(errors="ignore"), add_special=False)[0] == token
            certain += 1
        several += len(found) > 1
        if output not in seen:
            seen.add(output)
            paths += [[*path, token] for token in found - set(stops)]
    assert several > 2 or regex == "(return)?"
    assert {text.encode() for text in language} <= seen


@pytest.mark.parametrize("options", [{"json_schema": SCHEMA}, {"json_object": True}, {"regex": "(a|bc){2,9}[0-9]{3}"}])
def test_a_mask_depends_on_the_tokens_before_it_alone(gguf: Tokenizer, options: dict[str, Any]) -> None:
    """Walking, taking back and committing in any order gives what a new follower gives."""
    of, rng = grammars(gguf, len(gguf.vocabulary.tokens)), random.Random(3)
    stops = sorted(gguf.stop_ids)
    for _ in range(12):
        follower, output = follow(of, stops, **options), []
        for _ in range(25):
            tail: list[int] = []
            for _ in range(rng.randrange(4)):
                choices = sorted(ids(follower.allowed(tail)) - set(stops))
                tail += [rng.choice(choices)] if choices else []
            fresh = follow(of, stops, **options)
            fresh.commit(output)
            assert ids(follower.allowed(tail)) == ids(fresh.allowed(tail))
            assert follower.forced(tail) == fresh.forced(tail)
            choices = sorted(ids(follower.allowed()) - set(stops))
            kept = tail if rng.random() < 0.5 else ([rng.choice(choices)] if choices else [])
            follower.commit(kept)
            output += kept


def test_what_may_not_come_ends_the_masks_and_nothing_else(gguf: Tokenizer) -> None:
    follower = follow(grammars(gguf, len(gguf.vocabulary.tokens)), sorted(gguf.stop_ids), regex="abc[0-9]+")
    [a], [z], far = gguf.encode("a", add_special=False), gguf.encode("z", add_special=False), 10**6
    before = ids(follower.allowed())
    for wrong in (z, far, sorted(gguf.stop_ids)[0]):
        assert follower.allowed([wrong]) is None
        assert follower.allowed([wrong, a]) is None
    assert follower.error == ""
    assert ids(follower.allowed()) == before
    follower.commit([z])
    assert follower.allowed() is None
    assert follower.forced() == ()


def test_a_complete_text_may_end_and_without_an_end_is_over() -> None:
    of = grammars(ByteTokenizer(300), 300)
    ending = follow(of, [256], regex="ab?")
    ending.commit(b"a")
    assert ids(ending.allowed()) == {ord("b"), 256}
    ending.commit(b"b")
    assert (ids(ending.allowed()), ending.forced(), ending.over) == ({256}, (256,), False)
    ending.commit([256])
    assert ending.allowed() is None
    bare = follow(of, [], regex="ab?")
    bare.commit(b"a")
    assert (ids(bare.allowed()), bare.over) == ({ord("b")}, False)
    bare.commit(b"b")
    assert (bare.allowed(), bare.over) == (None, True)
    text = follow(of, [ord("b")], regex="ab?c")  # an end that is text stays text
    text.commit(b"a")
    assert ids(text.allowed()) == {ord("b"), ord("c")}


def test_forced_tokens_end_at_a_choice_at_an_end_and_at_the_limit() -> None:
    of = grammars(ByteTokenizer(300), 300)
    assert follow(of, [256], regex="abc(d|e)").forced() == tuple(b"abc")
    assert follow(of, [256], regex="abc").forced() == (*b"abc", 256)
    assert follow(of, [256], regex="abc").forced(b"a", 1) == (ord("b"),)
    assert follow(of, [256, 257], regex="abc").forced() == tuple(b"abc")  # two ends are a choice
    assert len(follow(of, [256], regex="a{40}").forced()) == 16


class Counting:
    """A matcher that counts the tokens that it is given."""

    def __init__(self, matcher: Any) -> None:
        self.matcher = matcher
        self.taken = 0

    def try_consume_tokens(self, tokens: list[int]) -> int:
        self.taken += len(tokens)
        return self.matcher.try_consume_tokens(tokens)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.matcher, name)


def test_a_round_costs_its_own_tokens_however_long_the_output() -> None:
    follower = follow(grammars(ByteTokenizer(300), 300), [256], regex="[a-z]*")
    counting = follower._matcher = Counting(follower._matcher)
    rng = random.Random(0)
    for length in range(0, 600, 3):
        proposal = [rng.randrange(97, 123) for _ in range(5)]
        for j in range(6):
            assert follower.allowed(proposal[:j]) is not None
        follower.commit([*proposal[:2], rng.randrange(97, 123)])
        assert counting.taken <= 9 * (length // 3 + 1)


def test_the_last_grammars_are_compiled_once() -> None:
    of = grammars(ByteTokenizer(300), 300)
    text = grammar_text(SamplingParams(regex="a"))
    assert of.compile(text) is of.compile(text)


REFUSED = {
    "Invalid type: objekt": {"json_schema": {"type": "objekt"}},
    "Unimplemented keys": {"json_schema": {"type": "array", "uniqueItems": True}},
    "regex parse error": {"regex": "(a"},
    "unknown name": {"grammar": "start: nowhere"},
    "unknown special token": {"grammar": "start: <|nobody|>"},
    "KiB": {"regex": "a" * (1 << 19)},
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_bad_grammar_is_refused_with_the_reason(reason: str) -> None:
    of = grammars(ByteTokenizer(300), 300)
    with pytest.raises(RequestRefused, match=reason):
        of.compile(grammar_text(SamplingParams(**REFUSED[reason])))


def test_white_space_is_for_the_schema_to_ask_for() -> None:
    of = grammars(ByteTokenizer(300), 300)
    assert ids(follow(of, [256], json_schema={"enum": [[1]]}).allowed(b"[")) == {ord("1")}
    loose = {"enum": [[1]], "x-guidance": {"whitespace_flexible": True}}
    assert {ord(" "), ord("1")} <= ids(follow(of, [256], json_schema=loose).allowed(b"["))


class Composing(ByteTokenizer):
    """A tokenizer that does not give back what it was given, as those that normalise text."""

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        return super().encode(text.replace("e", "E"), add_special=add_special)


def test_a_tokenizer_that_changes_text_is_not_believed() -> None:
    spelling = Spelling(Composing(300), 300, frozenset({256, 257}))
    assert spelling(b"abc") == list(b"abc")
    assert spelling(b"hey") == list(b"hey")
    assert spelling(b"\xff") == [255]
    follower = follow(grammars(Composing(300), 300), [256], regex="hey")
    assert follower.forced() == (*b"hey", 256)


def test_special_text_is_no_special_token() -> None:
    of = grammars(ByteTokenizer(300), 300)
    assert follow(of, [256], regex=r"<\|end\|>").forced() == (*b"<|end|>", 256)


def every_path(follower: Follower) -> Iterator[str]:
    """Texts until nothing may come, letter by letter."""
    waiting = [""]
    while waiting:
        text = waiting.pop()
        yield text
        found = follower.allowed([ord(c) - 96 for c in text])
        waiting += [text + chr(96 + token) for token in ids(found)] if found is not None else []


def test_what_no_token_can_write_leaves_nothing() -> None:
    """A vocabulary of an end (0) and letters: text with a brace is impossible, and says so as an empty mask."""
    of = grammars(ByteTokenizer(27), 27)
    assert set(every_path(follow(of, [], regex="ab(c|d)"))) == {"", "a", "ab", "abc", "abd"}
    stuck = follow(of, [0], regex=r"ab\{c")
    assert stuck.forced() == (1, 2)
    assert ids(stuck.allowed([1, 2])) == set()
    assert not stuck.over
