"""What a draft is to its target, from raw files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.models.text_pairs import BYTE_TARGET, merged, shuffled, write_words

from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.pairing import NEEDED, PADDED, SAME, TEXT, lacking_bytes, pairing
from saguaro.models.vocabulary import Vocabulary, directory_vocabulary


@pytest.mark.parametrize(
    ("target", "draft", "kind"),
    [
        ("toy:llama?vocab=48", "toy:qwen3?vocab=48", SAME),
        ("toy:llama?vocab=48", "toy:llama?vocab=47", PADDED),
        ("toy:llama?vocab=48", "toy:llama?vocab=300", TEXT),
    ],
)
def test_toys(target: str, draft: str, kind: str) -> None:
    found = pairing(open_checkpoint(target), open_checkpoint(draft))
    assert found.kind == kind
    assert ("id 0 is '<|end|>' in the target" in found.difference) == (kind == TEXT)


@pytest.mark.parametrize("write", [shuffled, merged])
def test_directories(tmp_path: Path, write: object) -> None:
    assert callable(write)
    draft = open_checkpoint(write(tmp_path))
    assert pairing(open_checkpoint(BYTE_TARGET), draft).kind == TEXT
    assert pairing(draft, draft).kind == SAME
    assert lacking_bytes(draft.signature().read()) == b""


def test_bytes_in_either_spelling(tmp_path: Path) -> None:
    write_words(tmp_path)
    words = directory_vocabulary(tmp_path)
    assert lacking_bytes(words) == b""
    few = Vocabulary(tokens=[None if text == "<0x41>" else text for text in words.tokens])
    assert lacking_bytes(few) == b"A"
    assert lacking_bytes(Vocabulary(tokens=["word"])) == NEEDED
