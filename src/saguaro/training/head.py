"""Training an EAGLE-3 head: what it starts from, what a batch teaches, acceptance by position, how it is written.

A head that is to draft for SSD has to go on from its own states for longer than one for SD, up to twice the lookahead
(the paper's Appendix E and Figure 9): `own_states` is how long chains get in training. Letters: B rows, T tokens, P
places of a corpus, R learnt places, S steps, V the target's vocabulary. Must not know: how texts and laws were made.
Tests: tests/training/test_eagle3.py.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import torch

from saguaro.models.checkpoint import Checkpoint
from saguaro.models.config import ModelConfig
from saguaro.models.config_json import config_json
from saguaro.models.eagle3_shape import Eagle3Shape, usual_taps
from saguaro.models.weights.names import EMBEDDING, FINAL_NORM, HEAD
from saguaro.training.corpus import Rows
from saguaro.training.curve import Curve
from saguaro.training.head_student import HeadStudent, Window, texts_of
from saguaro.training.loss import backward, taken
from saguaro.training.taps import TapTable

PART = 256
WINDOW = 64
"""Places in a row where chains go on, if not all do: a chain of n steps begins n - 2 places into one."""


def head_config(target: ModelConfig, *, draft_vocab: int | None) -> ModelConfig:
    """A head of one layer with the sizes of the target's layers."""
    shape = Eagle3Shape(
        target_hidden=target.hidden,
        num_taps=len(usual_taps(target.num_layers)),
        fused=True,
        own_embedding=False,
        stated_taps=usual_taps(target.num_layers),
    )
    return replace(
        target,
        architecture="llama",
        num_layers=1,
        tied=False,
        qkv_bias=False,
        qk_norm=False,
        draft_vocab=draft_vocab,
        eagle3=shape,
    )


def first_tensors(
    target: Checkpoint, config: ModelConfig, *, draft_ids_N: torch.Tensor | None, seed: int
) -> dict[str, torch.Tensor]:
    """The authors' names. Norm and head are the target's, `fc` passes the highest tap on, the layer is random and
    begins by adding nothing.
    """
    assert config.eagle3 is not None
    generator = torch.Generator().manual_seed(seed)
    weights, hidden = target.weights(), config.hidden
    query, value = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim

    def random(outputs: int, inputs: int) -> torch.Tensor:
        return torch.randn(outputs, inputs, generator=generator) / math.sqrt(inputs)

    head_VH = weights.get(EMBEDDING if target.config.tied else HEAD).float()
    fuse = torch.zeros(hidden, config.eagle3.tap_width)
    fuse[:, -hidden:] = torch.eye(hidden)
    return {
        "fc.weight": fuse,
        "midlayer.input_layernorm.weight": torch.ones(hidden),
        "midlayer.hidden_norm.weight": torch.ones(hidden),
        "midlayer.self_attn.q_proj.weight": random(query, 2 * hidden),
        "midlayer.self_attn.k_proj.weight": random(value, 2 * hidden),
        "midlayer.self_attn.v_proj.weight": random(value, 2 * hidden),
        "midlayer.self_attn.o_proj.weight": torch.zeros(hidden, query),
        "midlayer.post_attention_layernorm.weight": torch.ones(hidden),
        "midlayer.mlp.gate_proj.weight": random(config.ffn, hidden),
        "midlayer.mlp.up_proj.weight": random(config.ffn, hidden),
        "midlayer.mlp.down_proj.weight": torch.zeros(hidden, config.ffn),
        "norm.weight": weights.get(FINAL_NORM).float(),
        "lm_head.weight": head_VH if draft_ids_N is None else head_VH[draft_ids_N],
    }


def head_json(config: ModelConfig, *, dtype: str) -> dict[str, Any]:
    """The content of config.json, in the layout of published heads."""
    shape = config.eagle3
    assert shape is not None
    values = config_json(config, draft_vocab=config.draft_vocab, dtype=dtype)
    values["target_hidden_size"] = shape.target_hidden
    values["eagle_config"] = {
        "eagle_aux_hidden_state_layer_ids": list(shape.stated_taps or ()),
        "use_aux_hidden_state": True,
    }
    return values


class Lessons:
    """Batches as a head learns them.

    Args:
        student: what learns.
        rows: texts with laws. taps: of the same texts.
        column_V: the head's column of each of the target's tokens.
        own_states: steps of a chain.
        weight: what a step counts, beside the one before it.
        share: part of a batch's learnt places, in windows, where chains go beyond step 1. They stand for all, and a
            batch costs 1 + share * (own_states - 1) steps.
        seed: with a step's number, decides where.
    """

    def __init__(
        self,
        student: HeadStudent,
        rows: Rows,
        taps: TapTable,
        column_V: torch.Tensor,
        *,
        own_states: int,
        weight: float,
        share: float,
        seed: int,
    ) -> None:
        self._student, self._rows, self._taps = student, rows, taps
        self._column_V = column_V
        self._own_states, self._weight = own_states, weight
        self._share, self._seed = share, seed

    def learn(self, number: int, rows: Sequence[int]) -> tuple[float, int]:
        """Gradients of the weighed mean KL over all steps of some rows, in a training's step of that number; returns
        it, and the places that were learnt.
        """
        batch = self._rows.batch(rows)
        key = f"chains/{self._seed}/{number}"
        going_on = None if self._share >= 1 else chosen(texts_of(batch.text_BT), batch.wanted_R, self._share, key)
        states, laws_R = _chains(self._student, self._rows, self._taps, rows, self._own_states, going_on)
        laws = self._rows.corpus.laws(torch.cat(laws_R), self._column_V)
        hidden_RH = torch.cat(states)
        of_step = (len(laws_R[0]) / max(1, len(each)) * self._weight**step for step, each in enumerate(states))
        weight_R = torch.cat([torch.full((len(each),), value) for each, value in zip(states, of_step, strict=True)])
        loss = backward(
            hidden_RH, self._student.head_weight, laws, compute=self._student.compute, weight_R=weight_R.to(hidden_RH)
        )
        return loss, len(laws_R[0])


def chosen(texts: Sequence[Window], wanted_R: torch.Tensor, share: float, key: str) -> list[Window]:
    """Windows of learnt places, in an order that `key` decides, until they are that share of all; at least one.

    Args:
        texts: of a batch.
        wanted_R: learnt places, sorted; those of a text lie side by side.
        share: above 0.
        key: of the order, and of where windows begin.
    """
    draws, found = random.Random(key), []
    for text in texts:
        first, last = torch.searchsorted(wanted_R, torch.tensor([text.begin, text.end])).tolist()
        if first == last:
            continue
        begin, end = int(wanted_R[first]), int(wanted_R[last - 1]) + 1
        cuts = [begin, *range(begin + draws.randint(1, WINDOW), end, WINDOW), end]
        found += [Window(text.text, *pair) for pair in pairwise(cuts)]
    draws.shuffle(found)
    reached = accumulate((each.end - each.begin for each in found), initial=0)
    return [each for each, before in zip(found, reached, strict=False) if before < share * len(wanted_R)]


def measure_head(
    student: HeadStudent,
    greedy: tuple[Rows, TapTable],
    sampled: tuple[Rows, TapTable],
    column_V: torch.Tensor,
    *,
    steps: int,
    rows_a_batch: int,
) -> Curve:
    """Acceptance by position on greedy and on sampled texts, the draft going on from its own states after the first."""
    at_0 = _taken(student, *greedy, column_V, steps, rows_a_batch)
    at_1 = _taken(student, *sampled, column_V, steps, rows_a_batch)
    return Curve(
        greedy=by_step(at_0[0], at_0[0], at_0[4], greedy[0].corpus.counts),
        sampled=by_step(at_1[1], at_1[3], at_1[4], sampled[0].corpus.counts),
        slack=float(at_1[2][0].mean()),
        greedy_places=greedy[0].corpus.num_positions,
        sampled_places=sampled[0].corpus.num_positions,
    )


def by_step(
    taken_SP: torch.Tensor, passes_SP: torch.Tensor, exists_SP: torch.Tensor, counts: Sequence[int]
) -> tuple[float | None, ...]:
    """As `curve.by_position`, for a draft whose token at a place depends on how long it has gone on by itself.

    Args:
        taken_SP: the share that is taken at each place by each step.
        passes_SP: the weight with which a proposal gets past it.
        exists_SP: 1 where the step exists.
        counts: places of each text.
    """
    steps = len(taken_SP)
    tops, bottoms = ([0.0] * steps for _ in range(2))
    parts = zip(*(x.double().split(list(counts), dim=1) for x in (taken_SP, passes_SP, exists_SP)), strict=True)
    for taken_SN, passes_SN, exists_SN in parts:
        reach = exists_SN[0].clone()
        for step in range(min(steps, taken_SN.shape[1])):
            starts = taken_SN.shape[1] - step
            tops[step] += float((reach[:starts] * taken_SN[step, step:]).sum())
            bottoms[step] += float(reach[:starts].sum())
            reach = reach[:starts] * passes_SN[step, step:]
    return tuple(top / bottom if bottom > 0 else None for top, bottom in zip(tops, bottoms, strict=True))


def _chains(
    student: HeadStudent,
    rows: Rows,
    taps: TapTable,
    numbers: Sequence[int],
    steps: int,
    going_on: Sequence[Window] | None = None,
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Normed states (R, H) of each step at the learnt places where it exists, and the numbers of their laws."""
    batch = rows.batch(numbers)
    found = student(
        batch.tokens_BT,
        batch.positions_BT,
        batch.text_BT,
        taps.batch(rows, numbers),
        steps=steps,
        going_on=going_on,
    )
    law_C = torch.full((batch.tokens_BT.numel(),), -1)
    law_C[batch.wanted_R] = batch.laws_R
    states, laws_R = [], []
    for places_C, normed_CH, exists_C in found:
        kept_C = (law_C[places_C] >= 0) & exists_C
        states.append(normed_CH[kept_C])
        laws_R.append(law_C[places_C[kept_C]])
    return states, laws_R


def _taken(
    student: HeadStudent, rows: Rows, taps: TapTable, column_V: torch.Tensor, steps: int, rows_a_batch: int
) -> torch.Tensor:
    """(5, S, P): what `loss.Taken` says of each step at every place, and whether the step exists there."""
    found = torch.zeros(5, steps, rows.corpus.num_positions)
    with torch.no_grad():
        for numbers in rows.batches(0, rows_a_batch):
            for step, (hidden_RH, laws_R) in enumerate(zip(*_chains(student, rows, taps, numbers, steps), strict=True)):
                for part_RH, part_R in zip(hidden_RH.split(PART), laws_R.split(PART), strict=True):
                    each = taken(student.logits(part_RH), rows.corpus.laws(part_R, column_V))
                    values = (each.greedy_R, each.overlap_R, each.slack_R, each.passes_R, torch.ones(len(part_R)))
                    found[:, step, part_R] = torch.stack(values)
    return found
