"""Between two tokenizers: every text comes back, and a token of the draft counts for what its bytes begin with."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.text_pairs import BYTES, DIFFICULT, write_bpe, write_words

from saguaro.errors import ConfigError
from saguaro.models.byte_tokenizer import ByteTokenizer
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.text_bridge import NONE, TextBridge
from saguaro.models.tokenizer import Tokenizer

TARGET = ByteTokenizer(512)


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    made = {}
    for name, write in {"bytes merged": write_bpe, "words marked": write_words}.items():
        folder = tmp_path_factory.mktemp("tokenizer")
        write(folder)
        made[name] = Tokenizer.from_directory(folder)
    return made


@pytest.fixture(scope="module")
def bridges(tokenizers: dict[str, Tokenizer]) -> dict[str, TextBridge]:
    drafts = {**tokenizers, "bytes": ByteTokenizer(BYTES)}
    return {
        name: TextBridge(TARGET, draft, target_vocab=512, draft_vocab=draft.vocab_size)
        for name, draft in drafts.items()
    }


KINDS = ["bytes", "bytes merged", "words marked"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", DIFFICULT)
def test_difficult_texts_come_back(bridges: dict[str, TextBridge], kind: str, text: str) -> None:
    raw = text.encode()
    bridge = bridges[kind]
    assert bridge.draft_bytes(bridge.encode(raw)) == raw
    for cut in range(len(raw)):  # also inside a character
        assert bridge.draft_bytes(bridge.encode(raw[:cut])) == raw[:cut]
        assert bridge.draft_bytes(bridge.encode(raw[cut:])) == raw[cut:]


@pytest.mark.parametrize("kind", KINDS)
@given(raw=st.one_of(st.binary(max_size=40), st.text(sorted(set("".join(DIFFICULT))), max_size=20).map(str.encode)))
def test_any_bytes_come_back(bridges: dict[str, TextBridge], kind: str, raw: bytes) -> None:
    assert bridges[kind].draft_bytes(bridges[kind].encode(raw)) == raw


def test_usual_text_is_encoded_as_the_tokenizer_does(
    bridges: dict[str, TextBridge], tokenizers: dict[str, Tokenizer]
) -> None:
    text = "def f(x):\n    return the other thing"
    merged, words = tokenizers["bytes merged"], tokenizers["words marked"]
    assert bridges["bytes merged"].encode(text.encode()) == merged.encode(text, add_special=False)
    assert bridges["words marked"].encode(f" {text}".encode()) != words.encode(text, add_special=False)[:0]
    assert bridges["words marked"].encode(b" the thing") == words.encode("the thing", add_special=False)
    assert len(bridges["words marked"].encode(b"the")) == 1, "no mark is made up in the middle of a text"


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_counts_for_the_longest_beginning(bridges: dict[str, TextBridge], kind: str) -> None:
    bridge = bridges[kind]
    assert len(set(bridge.token_ids)) == len(bridge.token_ids)
    texts = {TARGET.token_bytes(token): token for token in reversed(range(512)) if token not in TARGET.special_ids}
    for own, column in enumerate(bridge.column_of):
        piece = bridge.draft_bytes([own])
        if piece in (b"</s>", b"<|end|>"):
            assert bridge.token_ids[column] in TARGET.stop_ids
        elif piece in (b"<s>", b"<|start|>"):
            assert column == NONE or bridge.token_ids[column] in TARGET.special_ids
        else:
            beginnings = [texts[piece[:n]] for n in range(len(piece), 0, -1) if piece[:n] in texts]
            assert (NONE if column == NONE else bridge.token_ids[column]) == (beginnings[0] if beginnings else NONE)


def test_special_tokens(bridges: dict[str, TextBridge], tokenizers: dict[str, Tokenizer]) -> None:
    merged, words = tokenizers["bytes merged"], tokenizers["words marked"]
    assert bridges["bytes merged"].special(256) == (merged.vocabulary.eos,)  # the same text
    assert bridges["words marked"].special(256) == (words.vocabulary.eos,)  # another text, but both end one
    assert bridges["bytes merged"].special(257) is None  # read as text
    assert bridges["bytes merged"].special(65) is None
    assert bridges["words marked"].begin == (words.bos_id,)
    back = TextBridge(words, TARGET, target_vocab=words.vocab_size, draft_vocab=512)
    assert back.begin == ()
    assert back.special(0) == (), "a text of the draft begins as its own do"


def test_share(bridges: dict[str, TextBridge]) -> None:
    assert bridges["bytes"].shared == 1.0
    assert 0.7 < bridges["bytes merged"].shared < 1.0


def test_a_tokenizer_that_changes_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="does not give back the text"):
        TextBridge(TARGET, ByteTokenizer(48), target_vocab=512, draft_vocab=48)


@pytest.mark.slow
@pytest.mark.parametrize("turned", [False, True])
def test_real_tokenizers(models_directory: Path, turned: bool) -> None:
    names = ["qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "smollm2-135m-instruct-q4_1.gguf"]
    if not all((models_directory / name).exists() for name in names):
        pytest.skip("the models are missing; run saguaro pull all")
    target, draft = (open_checkpoint(str(models_directory / name)) for name in (names[::-1] if turned else names))
    bridge = TextBridge(
        target.tokenizer(), draft.tokenizer(), target_vocab=target.config.vocab, draft_vocab=draft.config.vocab
    )
    for text in DIFFICULT:
        raw = text.encode()
        known = bytes(b for b in range(256) if bridge.encode(bytes([b])))
        assert set(bytes(range(0x20, 0x7F))) <= set(known)
        if set(raw) <= set(known):
            assert bridge.draft_bytes(bridge.encode(raw)) == raw
        ids = target.tokenizer().encode(text, add_special=False)
        assert all(math.isfinite(token) for token in ids)
        specials = [token for token in ids if bridge.special(token)]
        assert bool(specials) == ("<|im_start|>" in text)
