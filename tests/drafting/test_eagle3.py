"""An EAGLE-3 head as the draft computes what the published description says: shifted pairs, taps, its own states."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.models.eagle3_heads import head_tensors, write
from tests.models.eagle3_reference import NaiveHead, taps_of

from saguaro.drafting.drafters.eagle3 import Eagle3Drafter
from saguaro.execution.batch import Span
from saguaro.models.build import make_ops
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.eagle3 import build_head

TARGET = "toy:llama?seed=1&vocab=48&layers=8&hidden=32"
TEXT = [3, 1, 4, 1, 5, 9, 2, 6]
IDS = [47, 3, 9, 21, 22, 0, 30, 11, 40, 41, 5, 17]
PAGES = [3, 1, 2]


def slots(first: int, last: int) -> list[int]:
    """Of the pairs of tokens first ... last - 1: one place earlier."""
    return [PAGES[p // 4] * 4 + p % 4 for p in range(first - 1, last - 1)]


@pytest.fixture(params=["plain", "wide"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Eagle3Drafter, NaiveHead]:
    target = open_checkpoint(TARGET)
    more = {"hidden": 24, "head_dim": 10, "own_embedding": True} if request.param == "wide" else {"ids": IDS}
    tensors, config = head_tensors(target.config, **more)
    head = open_checkpoint(write(tmp_path, tensors, config))
    model = build_head(head, target, make_ops("native", "float32"), max_positions=40)
    naive = NaiveHead(tensors, config, target.weights().get("model.embed_tokens.weight"))
    return Eagle3Drafter(model, num_slots=64, page_size=4, max_positions=40), naive


@torch.inference_mode()
def test_pieces_branches_and_moves(pair: tuple[Eagle3Drafter, NaiveHead]) -> None:
    drafter, naive = pair
    taps_TW = taps_of(TARGET, (2, 4, 5), TEXT)
    states, wanted = [], []
    for place, token in enumerate(TEXT[1:]):  # five tokens have taps before them, two go on from the head's own states
        states.append(naive.pair(token, naive.fuse(taps_TW[place]) if place < 5 else states[-1]))
        logits = naive.t["lm_head.weight"] @ (states[-1] / (states[-1].pow(2).mean() + naive.eps).sqrt())
        wanted.append(logits * 1.0)
        wanted[-1] = naive.t["lm_head.weight"] @ (
            states[-1] / (states[-1].pow(2).mean() + naive.eps).sqrt() * naive.t["norm.weight"]
        )

    def same(found: torch.Tensor | None, *places: int) -> None:
        assert found is not None
        torch.testing.assert_close(found, torch.stack([wanted[p] for p in places]), rtol=1e-3, atol=1e-3)

    same(drafter.run([Span(TEXT[1:4], 1, PAGES, slots(1, 4), 3, taps=taps_TW[:3])]), 0, 1, 2)
    same(drafter.run([Span(TEXT[4:6], 4, PAGES, slots(4, 6), 1, taps=taps_TW[3:5].bfloat16())]), 4)
    same(drafter.run([Span(TEXT[6:7], 6, PAGES, [40], 1, shared=6)]), 5)  # a branch behind six committed tokens
    same(drafter.run([Span(TEXT[7:8], 7, PAGES, [41], 1, shared=6, own=(40,))]), 6)
    drafter.move([40, 41], slots(6, 8))
    again = drafter.run([Span(TEXT[6:8], 6, PAGES, slots(6, 8), 2)])  # in one pass, from the states that were kept
    same(again, 5, 6)
    ids = drafter.token_ids
    assert (None if ids is None else ids.tolist()) == (None if drafter.vocab == 48 else IDS)


@torch.inference_mode()
def test_a_row_without_taps_goes_on_from_nothing(pair: tuple[Eagle3Drafter, NaiveHead]) -> None:
    drafter, naive = pair
    state = naive.pair(5, torch.zeros(naive.embedding.shape[1]))
    found = drafter.run([Span([5], 1, PAGES, slots(1, 2), 1)])
    assert found is not None
    ids = drafter.token_ids
    best = int(found[0].argmax())
    assert naive.best(state) == (best if ids is None else int(ids[best]))
    assert drafter.run([Span([5], 1, PAGES, slots(1, 2), 1)], interrupt=lambda: True) is None
