"""Acceptance and foreseen tokens of `rejection`: against enumeration of every draw, and read from real toy models."""

import pytest
import torch

from saguaro.algorithm import saguaro_sampling
from saguaro.algorithm.outcomes import predict
from saguaro.algorithm.verify import outcome_law
from saguaro.calibrate import laws
from saguaro.calibrate.reading import Reader, open_readers, whole_rows
from saguaro.config import EngineConfig
from saguaro.drafting.drafters.base import Drafter
from saguaro.engine.resolve import resolve
from saguaro.errors import CapacityError


def test_the_sums_are_those_of_all_draws():
    """For every drawn token x: its probability, the law of the outcome, and whether the outcome is prepared for."""
    draw = torch.Generator().manual_seed(4)
    p_RV, q_RV = (torch.rand(3, 6, generator=draw, dtype=torch.float64) ** 3 for _ in range(2))
    p_RV, q_RV = (law / law.sum(dim=1, keepdim=True) for law in (p_RV, q_RV))
    sums = {(c, fan_out): laws.Sums() for c in (1.0, 0.4) for fan_out in (1, 2, 4)}
    laws.add(sums, p_RV, q_RV)
    for (c, fan_out), own in sums.items():
        accepted = foreseen = 0.0
        for p_V, q_V in zip(p_RV, q_RV, strict=True):
            [law_V] = saguaro_sampling.scale(q_V[None], fan_out, c)
            ranked = q_V.argsort(descending=True).tolist()
            for x in range(6):
                outcomes = outcome_law(torch.stack([p_V, p_V]), torch.tensor([x]), law_V[None])
                accepted += float(law_V[x] * outcomes[1].sum())
                cached = [outcome.bonus for outcome in predict([ranked, ranked], [x], [fan_out, 0])]
                foreseen += float(law_V[x] * outcomes[0][cached].sum())
        assert own.accepted == pytest.approx(accepted)
        assert own.foreseen == pytest.approx(foreseen)
        assert own.hit_after_rejection == pytest.approx(foreseen / (3 - accepted))
        assert own.hit_after_all == pytest.approx(
            float(sum(p[q.argsort(descending=True)[:fan_out]].sum() for p, q in zip(p_RV, q_RV, strict=True))) / 3
        )


@pytest.fixture(scope="module")
def readers():
    config = EngineConfig(
        "toy:llama?seed=1&vocab=48", "toy:llama?seed=1&vocab=48&noise=0.1", mode="ssd", max_model_len=300, page_size=8
    )
    with torch.inference_mode():
        yield open_readers(resolve(config), 200)


def test_a_text_is_read_in_pieces_like_at_once(readers):
    target, _ = readers
    ids = [token % 48 for token in range(200)]
    whole = target(ids, 150)
    assert whole.shape == (150, 48)
    assert torch.allclose(target(ids[:120], 5), whole[65:70], atol=1e-4)
    with pytest.raises(CapacityError, match="room for 200"):
        target([0] * 201, 1)


def test_over_texts(readers):
    rows = []
    texts = [([1, 2, 3], list(range(20))), ([4, 5], list(range(4)))]
    sums = laws.measure(texts, *readers, temperature=1.0, positions=16, rows=3, on_rows=rows.append)
    assert sum(rows) == 8 + 4
    assert {each.rows for each in sums.values()} == {12}
    acceptance = [sums[1.0, fan_out].acceptance for fan_out in laws.FS]
    assert acceptance == pytest.approx([acceptance[0]] * len(laws.FS))
    assert 0 < acceptance[0] < 1
    assert sums[0.1, 1].acceptance < acceptance[0]
    hits = [sums[1.0, fan_out].hit_after_rejection for fan_out in laws.FS]
    assert hits == sorted(hits)


def test_a_draft_that_knows_fewer_ids_gives_the_others_nothing():
    wide, narrow = torch.zeros(2, 5), torch.zeros(2, 3)
    target, draft = (Reader(lambda spans, rows=rows: rows, slots=8, page_size=4) for rows in (wide, narrow))
    sums = laws.measure([([1], [2, 3])], target, draft, temperature=1.0, positions=9)
    assert sums[1.0, 1].acceptance == pytest.approx(3 / 5)
    assert sums[1.0, 3].hit_after_all == pytest.approx(3 / 5)


class Scrambled(Drafter):
    """Knows ids 7, 2 and 5, in columns of that order, and 5 only until it hears of others."""

    vocab, num_slots, max_positions = 3, 64, 64

    def __init__(self):
        self.ids, self.heard = [7, 2, 5], []

    @property
    def token_ids(self):
        return torch.tensor(self.ids, dtype=torch.int32)

    def expect(self, tokens):
        self.heard.append(list(tokens))
        self.ids[2] = 5 if len(self.heard) < 2 else 6

    def run(self, spans, *, interrupt=None):
        rows = spans[0].wanted
        return torch.tensor([[1.0, 2.0, 3.0]]).repeat(rows, 1) if rows else torch.empty(0, 0)

    def move(self, sources, targets):
        raise AssertionError


def test_columns_of_a_short_head_are_read_as_ids():
    drafter = Scrambled()
    reader = Reader(whole_rows(drafter, 9), slots=64, page_size=4, expect=drafter.expect)
    logits_RV = reader(list(range(40)), 34)
    assert logits_RV.shape == (34, 9)
    known = [[index for index, value in enumerate(row) if value > float("-inf")] for row in logits_RV.tolist()]
    assert (known[0], known[-1]) == ([2, 5, 7], [2, 6, 7])
    assert logits_RV[0, [7, 2, 5]].tolist() == logits_RV[-1, [7, 2, 6]].tolist() == [1.0, 2.0, 3.0]
    assert drafter.heard == [list(range(7)), list(range(7, 39))]  # what comes before each piece
