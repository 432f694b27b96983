"""The parts of a distillation that differ for an EAGLE-3 head: its taps, its student, its lessons, curve and config.

Must not know: the command line. Tests: tests/training/test_eagle3.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from saguaro.engine.build import load
from saguaro.models.decoder import Decoder
from saguaro.models.weights.names import EMBEDDING
from saguaro.training import export
from saguaro.training.corpus import Rows
from saguaro.training.curve import Curve
from saguaro.training.folder import DATA
from saguaro.training.head import Lessons, first_tensors, head_config, head_json, measure_head
from saguaro.training.head_student import HeadStudent
from saguaro.training.settings import MEASURED_STATES, OWN_SHARE, OWN_STATES, OWN_WEIGHT
from saguaro.training.taps import TapTable, write_taps
from saguaro.training.texts import HELD_OUT

if TYPE_CHECKING:
    from saguaro.training.run import Asked, Listener


@dataclass(frozen=True)
class HeadParts:
    """What a training of a head runs on: `learn` makes the gradients of a step's rows, `config` is what is written."""

    student: HeadStudent
    learn: Callable[[int, Sequence[int]], tuple[float, int]]
    curve: Callable[[], Curve]
    config: dict[str, Any]


def head_parts(
    asked: Asked,
    names: Sequence[str],
    rows: tuple[Rows, Rows, Rows],
    column_V: torch.Tensor,
    ids_N: torch.Tensor | None,
    listener: Listener,
) -> HeadParts:
    """Everything but the training itself; taps that are not there yet are read now.

    Args:
        asked: what is wanted.
        names: shards to learn from.
        rows: to learn from, and held out at temperatures 0 and 1.
        column_V: the head's column of each of the target's tokens.
        ids_N: token of each column; None where column = id.
        listener: told of the reading.
    """
    train = asked.train
    config = head_config(asked.target.config, draft_vocab=train.draft_vocab)
    assert config.eagle3 is not None
    assert config.eagle3.stated_taps is not None
    _read_taps(asked, [*HELD_OUT, *names], config.eagle3.stated_taps, listener)
    student = HeadStudent(
        config,
        first_tensors(asked.target, config, draft_ids_N=ids_N, seed=asked.data.seed),
        asked.target.weights().get(EMBEDDING),
        compute=export.stored_dtype(train.precision),
        device=asked.device,
    )
    tables = [TapTable(asked.work.path, part) for part in (names, HELD_OUT[:1], HELD_OUT[1:])]
    learnt, greedy, sampled = zip(rows, tables, strict=True)
    rows_a_batch = max(1, train.batch_tokens // asked.data.context)

    steps = train.measured_states or MEASURED_STATES

    def curve() -> Curve:
        return measure_head(student, greedy, sampled, column_V, steps=steps, rows_a_batch=rows_a_batch)

    lessons = Lessons(
        student,
        *learnt,
        column_V,
        own_states=train.own_states or OWN_STATES,
        weight=OWN_WEIGHT if train.own_weight is None else train.own_weight,
        share=OWN_SHARE if train.own_share is None else train.own_share,
        seed=asked.data.seed,
    )
    return HeadParts(student, lessons.learn, curve, head_json(config, dtype=train.stored))


def _read_taps(asked: Asked, names: Sequence[str], layers: tuple[int, ...], listener: Listener) -> None:
    began, spent = time.monotonic(), asked.work.spent().get(DATA, 0.0)

    def open_model() -> Decoder:
        model = load(asked.plan.target, asked.plan)
        assert isinstance(model, Decoder)
        model.tap_layers = layers
        return model

    listener.stage("the target's hidden states", len(names))
    write_taps(asked.work.path, names, open_model, on_shard=lambda tokens: listener.advance(1, f"{tokens:,} tokens"))
    asked.work.spend(DATA, spent + time.monotonic() - began)
