"""A draft that reads text: its law is its model's law over texts, whatever slots, pieces and branches it ran."""

from __future__ import annotations

import pytest
import torch
from tests.models.text_pairs import merged

from saguaro.drafting.drafters.text import TextDrafter
from saguaro.drafting.target_law import SECOND
from saguaro.execution.batch import Span
from saguaro.execution.kv_pool import KVPool
from saguaro.execution.runner import Runner
from saguaro.models.build import build_model, make_ops
from saguaro.models.byte_tokenizer import ByteTokenizer
from saguaro.models.causal_lm import CausalLM
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.text_bridge import TextBridge

TARGET = ByteTokenizer(512)
TEXT = list(b"the tab and na\xc3\xafve tabs, and 314")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[CausalLM, TextBridge]:
    draft = open_checkpoint(merged(tmp_path_factory.mktemp("draft")))
    model = build_model(draft, make_ops("native", "float32"), max_positions=200)
    return model, TextBridge(TARGET, draft.tokenizer(), target_vocab=512, draft_vocab=draft.config.vocab)


@pytest.fixture
def drafter(pair: tuple[CausalLM, TextBridge]) -> TextDrafter:
    return TextDrafter(pair[0], bridge=pair[1], target_vocab=512, num_slots=256, page_size=4, max_positions=120)


def logits_after(model: CausalLM, ids: list[int]) -> torch.Tensor:
    runner = Runner(model, KVPool(model.config, 256, model.pool_dtype), 64)
    logits_1D = runner.run([Span(ids, 0, [0, 1, 2, 3], list(range(len(ids))), 1)])
    assert logits_1D is not None
    return torch.softmax(logits_1D[0].double(), dim=0)


def alone(pair: tuple[CausalLM, TextBridge], text: list[int]) -> torch.Tensor:
    """The law after a text (512), from the model and the tokenizers as they are."""
    model, bridge = pair
    ids = bridge.encode(bytes(text))
    law_D = logits_after(model, ids)
    law_V = torch.zeros(512, dtype=torch.float64)
    for own, mass in enumerate(law_D.tolist()):
        if bridge.column_of[own] >= 0:
            law_V[bridge.token_ids[bridge.column_of[own]]] += mass
    likeliest = int(law_D.argmax())
    piece, alone_token = bridge.draft_piece(likeliest), bridge.first_token(bridge.draft_piece(likeliest))
    if piece:
        second_D = logits_after(model, [*ids, likeliest])
        for own in second_D.topk(SECOND).indices.tolist():
            token = bridge.first_token(piece + bridge.draft_piece(own))
            if token is not None and token != alone_token:
                moved = law_D[likeliest] * second_D[own]
                law_V[token] += moved
                if alone_token is not None:
                    law_V[alone_token] -= moved
    return law_V / law_V.sum()


def over_ids(drafter: TextDrafter, row_C: torch.Tensor) -> torch.Tensor:
    assert drafter.token_ids is not None
    law_V = torch.zeros(512, dtype=torch.float64)
    law_V[drafter.token_ids.long()] = torch.softmax(row_C.double(), dim=0)
    return law_V


@torch.inference_mode()
def test_the_law_is_the_models_over_the_targets_next_token(
    pair: tuple[CausalLM, TextBridge], drafter: TextDrafter
) -> None:
    rows = drafter.run([Span(TEXT, 0, list(range(9)), list(range(len(TEXT))), len(TEXT))])
    assert rows is not None
    assert rows.shape == (len(TEXT), drafter.vocab)
    assert rows.dtype == torch.float32
    for place, row in enumerate(rows):
        assert torch.allclose(over_ids(drafter, row), alone(pair, TEXT[: place + 1]), atol=1e-6)


@torch.inference_mode()
def test_pieces_branches_and_moves_see_the_same_text(pair: tuple[CausalLM, TextBridge], drafter: TextDrafter) -> None:
    drafter.run([Span(TEXT[:9], 0, [0, 1, 2], list(range(9)), 0)])
    two = drafter.run(
        [
            Span(TEXT[9:12], 9, [0, 1, 2], [9, 10, 11], 2),
            Span([65], 9, [0, 1, 2], [40], 1, shared=9),
            Span([66], 9, [0, 1, 2], [41], 1, shared=9),
        ]
    )
    assert two is not None
    laws = [TEXT[:11], TEXT[:12], [*TEXT[:9], 65], [*TEXT[:9], 66]]
    for row, text in zip(two, laws, strict=True):
        assert torch.allclose(over_ids(drafter, row), alone(pair, text), atol=1e-6)
    deeper = drafter.run([Span([67], 10, [0, 1, 2], [42], 1, shared=9, own=[41])])
    assert deeper is not None
    assert torch.allclose(over_ids(drafter, deeper[0]), alone(pair, [*TEXT[:9], 66, 67]), atol=1e-6)
    drafter.move([41, 42], [9, 10])  # that branch became the row's text
    after = drafter.run([Span([68], 11, [0, 1, 2], [11], 1)])
    assert after is not None
    assert torch.allclose(over_ids(drafter, after[0]), alone(pair, [*TEXT[:9], 66, 67, 68]), atol=1e-6)


@torch.inference_mode()
def test_only_what_changed_is_run(
    pair: tuple[CausalLM, TextBridge], drafter: TextDrafter, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    run = drafter._runs._runner.run

    def counted(spans: list[Span], **options: object) -> torch.Tensor | None:
        counts.append(sum(len(span.tokens) for span in spans))
        return run(spans, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(drafter._runs._runner, "run", counted)
    drafter.run([Span(TEXT[:20], 0, list(range(9)), list(range(20)), 1)])
    for place in range(20, len(TEXT)):
        drafter.run([Span([TEXT[place]], place, list(range(9)), [place], 1)])
    assert counts[0] == len(pair[1].encode(bytes(TEXT[:20])))
    assert max(counts[1:]) <= 3


@torch.inference_mode()
def test_a_pass_that_is_given_up_leaves_nothing(drafter: TextDrafter) -> None:
    free = drafter._runs.tree.num_free
    assert drafter.run([Span(TEXT, 0, list(range(9)), list(range(len(TEXT))), 1)], interrupt=lambda: True) is None
    assert drafter._runs.tree.num_free == free


@torch.inference_mode()
def test_without_room_there_are_no_scores(pair: tuple[CausalLM, TextBridge]) -> None:
    """Too few slots, or positions: such a row has nothing to say, and the others do."""
    small = TextDrafter(pair[0], bridge=pair[1], target_vocab=512, num_slots=12, page_size=4, max_positions=120)
    short = Span(TEXT[:2], 0, [0], [0, 1], 1)
    rows = small.run([short, Span(list(b"xqzjxqzjxqzjxq"), 0, [0, 1, 2, 3], [*range(12), 5, 6], 1)])
    assert rows is not None
    assert torch.isfinite(rows[0]).any()
    assert torch.isinf(rows[1]).all()


@torch.inference_mode()
def test_passes_that_are_only_timed(drafter: TextDrafter) -> None:
    """Steps are measured behind a context that nobody has read."""
    rows = drafter.run([Span([1] * 3, 8, [0, 1, 2], [8, 9, 10], 3)])
    assert rows is not None
    assert rows.shape == (3, drafter.vocab)
    assert drafter.run([Span([1], 0, [0], [0], 0)]) is not None
