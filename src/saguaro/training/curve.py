"""How often the draft's tokens would be taken, by their position in a proposal, on texts that it has not seen.

Position i counts the cases in which the i - 1 tokens before it were taken. At temperature 0 on greedy texts: the
draft's likeliest token is the target's. At temperature 1 on sampled texts: sum of min(p, q), where a case weighs as
much as a draft's own tokens would have led to it, the product of min(1, q / p) over the tokens before; in the mean over
texts that the target draws, this is exact. What laws do not keep is left out (`slack` says how much it could add).
Must not know: training. Tests: tests/training/test_loss.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from saguaro.training.corpus import Rows
from saguaro.training.loss import Taken, taken
from saguaro.training.student import Student

POSITIONS = 6


@dataclass(frozen=True)
class Curve:
    """Acceptance by position (the first is the plain mean over all places), None where nothing was left to count."""

    greedy: tuple[float | None, ...]
    sampled: tuple[float | None, ...]
    slack: float
    greedy_places: int
    sampled_places: int

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "temperature_0": {"by_position": list(self.greedy), "places": self.greedy_places},
            "temperature_1": {"by_position": list(self.sampled), "places": self.sampled_places, "slack": self.slack},
        }


def measure(student: Student, greedy: Rows, sampled: Rows, column_V: torch.Tensor, *, rows_a_batch: int) -> Curve:
    """Acceptance on greedy and on sampled texts."""
    at_0 = _taken(student, greedy, column_V, rows_a_batch)
    at_1 = _taken(student, sampled, column_V, rows_a_batch)
    return Curve(
        greedy=by_position(at_0.greedy_R, at_0.greedy_R, greedy.corpus.counts),
        sampled=by_position(at_1.overlap_R, at_1.passes_R, sampled.corpus.counts),
        slack=float(at_1.slack_R.mean()),
        greedy_places=greedy.corpus.num_positions,
        sampled_places=sampled.corpus.num_positions,
    )


def by_position(taken_P: torch.Tensor, passes_P: torch.Tensor, counts: Sequence[int]) -> tuple[float | None, ...]:
    """Weighted means of `taken`, position by position of a proposal that may begin at every place of a text.

    Args:
        taken_P: the share that is taken at each place, all texts one behind the other.
        passes_P: the weight with which a proposal gets past each place.
        counts: places of each text.
    """
    tops, bottoms = ([0.0] * POSITIONS for _ in range(2))
    for part, weight in zip(taken_P.double().split(list(counts)), passes_P.double().split(list(counts)), strict=True):
        reach = torch.ones_like(part)
        for index in range(min(POSITIONS, len(part))):
            starts = len(part) - index
            tops[index] += float((reach[:starts] * part[index:]).sum())
            bottoms[index] += float(reach[:starts].sum())
            reach = reach[:starts] * weight[index:]
    return tuple(top / bottom if bottom > 0 else None for top, bottom in zip(tops, bottoms, strict=True))


def _taken(student: Student, rows: Rows, column_V: torch.Tensor, rows_a_batch: int) -> Taken:
    """At every place that has a law, in the order of the texts."""
    device = student.head_weight.device
    found = torch.zeros(4, rows.corpus.num_positions)
    with torch.no_grad():
        for numbers in rows.batches(0, rows_a_batch):
            batch = rows.batch(numbers)
            hidden_BTH = student(batch.tokens_BT.to(device), batch.positions_BT.to(device), batch.text_BT.to(device))
            hidden_RH = hidden_BTH.flatten(0, 1)[batch.wanted_R.to(device)]
            for part_R, laws_R in zip(hidden_RH.split(256), batch.laws_R.split(256), strict=True):
                each = taken(student.logits(part_R), rows.corpus.laws(laws_R, column_V).to(device))
                values = (each.greedy_R, each.overlap_R, each.slack_R, each.passes_R)
                found[:, laws_R] = torch.stack(values).cpu()
    return Taken(*found)
