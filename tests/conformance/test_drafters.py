"""Every drafter keeps the promise of its table: scores for the wanted tokens, its own keys and values, and no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from saguaro.drafting.drafters import DRAFTERS
from saguaro.drafting.drafters.base import Drafter
from saguaro.execution.batch import Span
from saguaro.models.build import build_model, make_ops
from saguaro.models.checkpoint import open_checkpoint

TEXT = [3, 1, 4, 1, 5, 9, 2, 6]
OTHERS = {"eagle3", "text"}  # reads taps, or text: tests/drafting has its own
NAMES = [
    *(name for name in DRAFTERS if name not in OTHERS),
    "saguaro.testing.drafters:ScriptedDrafter",
    "saguaro.testing.drafters:OracleDrafter",
]


@pytest.fixture(params=NAMES)
def drafter(request: pytest.FixtureRequest, tmp_path: Path) -> Drafter:
    model = build_model(open_checkpoint("toy:llama?seed=1&vocab=48&layers=2"), make_ops("native", "float32"))
    options: dict[str, Any] = {}
    if request.param.endswith("OracleDrafter"):
        texts = tmp_path / "texts.json"
        texts.write_text(json.dumps([TEXT]))
        options["texts"] = str(texts)
    return DRAFTERS.get(request.param)(model, num_slots=64, page_size=4, max_positions=40, **options)


@torch.inference_mode()
def test_scores_of_the_wanted_tokens(drafter: Drafter) -> None:
    assert 0 < drafter.vocab <= 48
    assert (drafter.num_slots, drafter.max_positions) == (64, 40)
    rows = drafter.run([Span(TEXT, 0, [3, 1], [12, 13, 14, 15, 4, 5, 6, 7], 3), Span([7], 0, [5], [20], 1)])
    assert rows is not None
    assert rows.shape == (4, drafter.vocab)
    assert rows.dtype == torch.float32


@torch.inference_mode()
def test_pieces_branches_and_moves_see_the_same_prefix(drafter: Drafter) -> None:
    """A text at once, in pieces, and with its end in a branch (which sums in another order), whose slots then move."""
    whole = drafter.run([Span(TEXT, 0, [0, 1], list(range(8)), 8)])
    assert whole is not None
    drafter.run([Span(TEXT[:3], 0, [2, 3], [8, 9, 10], 0)])
    pieces = drafter.run([Span(TEXT[3:6], 3, [2, 3], [11, 12, 13], 3)])
    assert pieces is not None
    assert torch.equal(pieces, whole[3:6])
    for place in (6, 7):
        own = [40, 41][: place - 6]
        branch = drafter.run([Span([TEXT[place]], place, [2, 3], [40 + place - 6], 1, shared=6, own=own)])
        assert branch is not None
        assert torch.allclose(branch[0], whole[place], atol=1e-4)
    drafter.move([40, 41], [14, 15])
    after = drafter.run([Span([5], 8, [2, 3, 4], [16], 1)])
    again = drafter.run([Span([5], 8, [0, 1, 5], [20], 1)])
    assert after is not None
    assert again is not None
    assert torch.allclose(after, again, atol=1e-4)


@torch.inference_mode()
def test_a_pass_can_be_given_up(drafter: Drafter) -> None:
    assert drafter.run([Span(TEXT, 0, [0, 1], list(range(8)), 1)], interrupt=lambda: True) is None
