"""The draft's law over the target's next token: sums of what counts for it, and what two tokens make together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from saguaro.drafting import target_law
from saguaro.drafting.target_law import TargetLaw
from saguaro.models.byte_tokenizer import ByteTokenizer
from saguaro.models.text_bridge import TextBridge


class Words(ByteTokenizer):
    """Bytes and some longer words."""

    def __init__(self, *words: bytes) -> None:
        super().__init__(258)
        self._words = words
        self.vocab_size = 258 + len(words)

    def token_bytes(self, token: int) -> bytes:
        return self._words[token - 258] if token >= 258 else super().token_bytes(token)

    def encode_chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> list[int]:
        raise NotImplementedError

    def save(self, directory: Path) -> None:
        raise NotImplementedError


TARGET = Words(b"):\n", b")\n", b"the", b"\xc3\xa4")
CLOSED, LINE, THE, UMLAUT = range(258, 262)
DRAFT = Words(b"the", b"there", b"):")


@pytest.fixture
def law() -> TargetLaw:
    bridge = TextBridge(TARGET, DRAFT, target_vocab=262, draft_vocab=261)
    return TargetLaw(bridge, target_vocab=262)


def logits(**shares: float) -> torch.Tensor:
    """Logits (261) with these masses, on another scale than log probabilities."""
    names = {"the": 258, "there": 259, "close": 260, "line": 10, "bracket": 41, "a": 97, "begin": 0xC3, "umlaut": 0xA4}
    law_D = torch.full((261,), 1e-9)
    for name, share in shares.items():
        law_D[names[name]] = share
    return law_D.log() + 5.0


def scores(law: TargetLaw, first: torch.Tensor, second: torch.Tensor | None = None) -> dict[int, float]:
    row_C = law.scores(first[None], [second])[0]
    return dict(zip(law.ids_C.tolist(), (row_C - 5.0).exp().tolist(), strict=True))


def test_a_longer_token_of_the_draft_counts_for_what_it_begins_with(law: TargetLaw) -> None:
    found = scores(law, logits(the=0.25, there=0.25, close=0.5))
    assert found[THE] == pytest.approx(0.5, abs=1e-5)
    assert found[41] == pytest.approx(0.5, abs=1e-5), "'):' is no token of the target, but it begins with ')'"


def test_two_tokens_that_the_target_writes_in_one(law: TargetLaw) -> None:
    found = scores(law, logits(bracket=0.6, a=0.4), logits(line=0.75, a=0.25))
    assert found[LINE] == pytest.approx(0.45, abs=1e-5)
    assert found[41] == pytest.approx(0.15, abs=1e-5)
    assert found[97] == pytest.approx(0.4, abs=1e-5)
    found = scores(law, logits(close=0.6, a=0.4), logits(line=1.0))
    assert found[CLOSED] == pytest.approx(0.6, abs=1e-5)
    assert found[41] == pytest.approx(0.0, abs=1e-5)


def test_half_a_character_and_the_other_half(law: TargetLaw) -> None:
    found = scores(law, logits(begin=0.8, a=0.2), logits(umlaut=0.5, a=0.5))
    assert found[UMLAUT] == pytest.approx(0.4, abs=1e-5)


def test_mass_is_neither_made_nor_lost(law: TargetLaw) -> None:
    generator = torch.Generator().manual_seed(1)
    for _ in range(20):
        first, second = (torch.randn(261, generator=generator) * 4 for _ in range(2))
        first[257] = -40.0  # the beginning counts for nothing
        assert sum(torch.softmax(law.scores(first[None], [second])[0], 0).tolist()) == pytest.approx(1.0)
        total = torch.logsumexp(law.scores(first[None], [second])[0], 0)
        assert total.item() == pytest.approx(torch.logsumexp(first, 0).item(), abs=1e-3)


def test_columns_are_given_away_when_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_law, "SPARE", 1)
    bridge = TextBridge(TARGET, DRAFT, target_vocab=262, draft_vocab=261)
    law = TargetLaw(bridge, target_vocab=262)
    before = law.ids_C
    for first, second, token in (
        (logits(bracket=0.9), logits(line=0.9), LINE),
        (logits(close=0.9), logits(line=0.9), CLOSED),
        (logits(begin=0.9), logits(umlaut=0.9), UMLAUT),
    ):
        found = scores(law, first, second)
        assert max(found, key=lambda each: found[each]) == token
        assert len(set(law.ids_C.tolist())) == len(law.ids_C) == len(before)
    assert before is not law.ids_C
    assert UMLAUT not in before.tolist(), "what was handed out stays as it was"
