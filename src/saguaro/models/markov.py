"""A model that is a table: the logits after a prefix depend on its last tokens (or on all of them) through a hash.

Logits are exact numbers of (seed, context, token): the same for every dtype, device and batch, so that laws can be
computed by hand and whole engines checked against them. It lives behind the same face as a decoder and through the same
pool: a token's id is written to its slot as four digits (exact in bfloat16), and earlier tokens are read back through
the plan, so that a wrong slot or a wrong plan shows in its logits. Must not know: rounds.
Tests: tests/models/test_markov.py, tests/conformance/test_models.py.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from saguaro.attention.base import AttentionPlan
from saguaro.models.causal_lm import LayerPool
from saguaro.models.config import ModelConfig
from saguaro.models.short_head import ShortHead
from saguaro.models.toy import WHOLE_PREFIX, MarkovRule

DIGIT = 128  # base of the digits in which ids are kept: whole numbers up to 256 are exact in bfloat16
MASK = (1 << 64) - 1


class MarkovModel:
    """See `CausalLM`. Hidden states are the four 16-bit pieces of the context's hash, exact in float32."""

    def __init__(
        self, config: ModelConfig, rule: MarkovRule, *, pool_dtype: torch.dtype, max_positions: int | None = None
    ) -> None:
        self.config = config
        self.pool_dtype = pool_dtype
        self.max_positions = max_positions or config.max_position
        self.short_head: ShortHead | None = None
        self.weight_bytes = 0
        self._rule = rule
        self._known: dict[int, torch.Tensor] = {}

    def forward(
        self,
        tokens_T: torch.Tensor,
        plan: AttentionPlan,
        pool: LayerPool,
        *,
        interrupt: Callable[[], bool] | None = None,
    ) -> torch.Tensor | None:
        """Write the ids to their slots, read the contexts back, hash them: (T, 4) float32."""
        if interrupt is not None and interrupt():
            return None
        powers = torch.tensor([1, DIGIT, DIGIT**2, DIGIT**3])
        digits_T4 = (tokens_T[:, None].to(torch.int64) // powers) % DIGIT
        keys_S4 = pool.k[0][:, 0, :]
        keys_S4[plan.slots_T.long()] = digits_T4.to(keys_S4.dtype)
        rows = []
        for token in range(tokens_T.shape[0]):
            slots = _last_slots(plan, token, self._rule.order)
            ids = (keys_S4[torch.tensor(slots)].to(torch.int64) * powers).sum(-1).tolist()
            state = self.context_key(ids)
            rows.append([(state >> shift) & 0xFFFF for shift in (0, 16, 32, 48)])
        return torch.tensor(rows, dtype=torch.float32)

    def logits(self, hidden_RH: torch.Tensor) -> torch.Tensor:
        """Logits (R, V) float32."""
        pieces = hidden_RH.to(torch.int64).tolist()
        states = [sum(piece << shift for piece, shift in zip(row, (0, 16, 32, 48), strict=True)) for row in pieces]
        return torch.stack([self.logits_after(state) for state in states]) if states else torch.empty(0, 0)

    def context_key(self, ids: list[int]) -> int:
        """64-bit hash of the tokens that count: the last `order` of them, or all."""
        if self._rule.order != WHOLE_PREFIX:
            ids = ids[-self._rule.order :]
        state = 0
        for token in ids:
            state = _mix(state ^ (token + 1))
        return state

    def logits_after(self, state: int) -> torch.Tensor:
        """The row (V) of a context; computed once."""
        if state not in self._known:
            rule = self._rule
            values = _normals(state, rule.seed, self.config.vocab)
            if rule.noise:
                other = _mix(rule.seed ^ _mix(rule.noise_seed))
                values = values + rule.noise * _normals(state, other, self.config.vocab)
            if len(self._known) > 4096:
                self._known.clear()
            self._known[state] = (rule.scale * values).to(torch.float32)
        return self._known[state]


def _last_slots(plan: AttentionPlan, token: int, order: int) -> list[int]:
    """The last `order` slots that a token sees (all for `WHOLE_PREFIX`), in order."""
    own = plan.own_TS[token, : int(plan.own_count_T[token])].tolist()
    if order != WHOLE_PREFIX and len(own) >= order:
        return own[-order:]
    shared = int(plan.shared_T[token])
    first = 0 if order == WHOLE_PREFIX else max(0, shared - (order - len(own)))
    table = plan.tables_RP[int(plan.row_T[token])].tolist()
    size = plan.page_size
    return [table[place // size] * size + place % size for place in range(first, shared)] + own


def _normals(state: int, seed: int, vocab: int) -> torch.Tensor:
    """Normal numbers (V) float64 keyed by context, seed and token."""
    key = torch.tensor(_signed(_mix(state ^ _mix(seed & MASK))), dtype=torch.int64)
    bits = _mix_tensor(key ^ (torch.arange(vocab, dtype=torch.int64) * _signed(0x9E3779B97F4A7C15)))
    uniform = (_shift_right(bits, 11).to(torch.float64) + 0.5) * 2.0**-53
    return torch.special.ndtri(uniform)


def _mix(value: int) -> int:
    """A bijection of 64-bit numbers that scatters every bit (the finaliser of splitmix64)."""
    value &= MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def _mix_tensor(value: torch.Tensor) -> torch.Tensor:
    """`_mix` for int64 tensors, whose products wrap as unsigned ones do."""
    value = (value ^ _shift_right(value, 30)) * _signed(0xBF58476D1CE4E5B9)
    value = (value ^ _shift_right(value, 27)) * _signed(0x94D049BB133111EB)
    return value ^ _shift_right(value, 31)


def _shift_right(value: torch.Tensor, places: int) -> torch.Tensor:
    """Shift without copying the sign down."""
    return (value >> places) & ((1 << (64 - places)) - 1)


def _signed(value: int) -> int:
    """The int64 with the same bits."""
    return value - (1 << 64) if value >= 1 << 63 else value
