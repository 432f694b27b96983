"""One placement and setting in closed form: tokens a second, latency, cost, and the formula of each number.

Times come from the costs of `simulate`, everything else from `theory`. Must not know: which placements there are.
Tests: tests/planner/test_predict.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from saguaro.planner.question import Question
from saguaro.theory.acceptance import expected_by_depth
from saguaro.theory.accounting import sd as sd_spent
from saguaro.theory.accounting import ssd as ssd_spent
from saguaro.theory.branches import Drafting, best_counts, hit_rate
from saguaro.theory.chain import Kind, long_run
from saguaro.theory.evidence import Evidence
from saguaro.theory.rows import time_of_round

FORMULAS = {
    "tokens_per_second": {
        "ar": "1 / verify(b)  [theory.rates.ar_rate]",
        "sd": "E(K) / (verify(b (K + 1)) + K draft(b))  [theory.rates.sd_rate]",
        "ssd": "E / time of a round; Theorem 7 by kinds of rounds, Corollary 16 by missed rows  "
        "[theory.chain.long_run, theory.rows.time_of_round]",
    },
    "verify_ms": "max(bytes / bandwidth, flops / rate) / devices + layers (layer + 2 all-reduces)  "
    "[simulate.costs.roofline]",
    "draft_step_ms": "the same for the draft on one device  [simulate.costs.roofline]",
    "hit_rate": "p_b / (1 + p_b - p_p), each the sum over k of P(k) hit_k(F_k)  "
    "[theory.branches.hit_rate, theory.chain.stationary]",
    "tokens_a_round": "1 + sum over i of a^i, by kinds of rounds  [theory.acceptance.expected_by_depth]",
    "t_p": "(extend + K steps of B branches) / verify  [theory.branches.Drafting.until]",
    "t_b": "what one missed row waits for its answer / verify",
    "total_tokens_per_second": "b x tokens_per_second",
    "tokens_per_second_per_device": "total_tokens_per_second / devices",
    "ms_per_token": "1000 / tokens_per_second",
    "first_token_ms": "a pass over the prompt  [simulate.costs.roofline]",
    "request_seconds": "first token + (output - 1) / tokens_per_second",
    "dollars_per_million": "devices x dollars an hour / (3600 total_tokens_per_second) x 10^6",
}


@dataclass(frozen=True)
class Candidate:
    """Where models run and how: a placement and a setting. `devices` are those that are paid for."""

    mode: str
    target_devices: int
    draft_devices: int
    devices: int
    lookahead: int = 0
    budget: int = 0
    fallback: str = "none"

    @property
    def placement(self) -> str:
        """As people write it: 4, 4+1, or 4 of 5 where a device is left over."""
        used = self.target_devices + self.draft_devices
        own = f"{self.target_devices}+{self.draft_devices}" if self.draft_devices else str(self.target_devices)
        return own if used == self.devices else f"{own} of {self.devices}"


@dataclass(frozen=True)
class Prediction:
    """What a candidate promises; names as in `FORMULAS`."""

    candidate: Candidate
    tokens_per_second: float
    verify: float
    draft_step: float
    tokens_a_round: float
    hit_rate: float | None
    tokens_hit: float
    tokens_miss: float
    t_p: float
    t_b: float
    first_token: float
    batch: int
    output: int
    dollars: float

    @property
    def total(self) -> float:
        """Tokens a second of all requests."""
        return self.batch * self.tokens_per_second

    @property
    def per_device(self) -> float:
        """Tokens a second of each device that is paid for."""
        return self.total / self.candidate.devices

    @property
    def dollars_per_million(self) -> float:
        """Of output tokens."""
        return self.candidate.devices * self.dollars / (3600 * self.total) * 1e6

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        own = self.candidate
        return {
            "mode": own.mode,
            "placement": own.placement,
            "devices": own.devices,
            "lookahead": own.lookahead,
            "budget": own.budget,
            "fallback": own.fallback if own.mode == "ssd" else None,
            "tokens_per_second": self.tokens_per_second,
            "total_tokens_per_second": self.total,
            "tokens_per_second_per_device": self.per_device,
            "ms_per_token": 1e3 / self.tokens_per_second,
            "first_token_ms": 1e3 * self.first_token,
            "request_seconds": self.first_token + (self.output - 1) / self.tokens_per_second,
            "dollars_per_million": self.dollars_per_million if self.dollars else None,
            "verify_ms": 1e3 * self.verify,
            "draft_step_ms": 1e3 * self.draft_step,
            "tokens_a_round": self.tokens_a_round,
            "hit_rate": self.hit_rate,
            "t_p": self.t_p if own.mode == "ssd" else None,
            "t_b": self.t_b if own.mode == "ssd" else None,
        }


def predict(question: Question, candidate: Candidate) -> Prediction:
    """What one candidate promises."""
    costs = question.costs(candidate.target_devices, candidate.draft_devices)
    batch, lookahead = question.traffic.batch, candidate.lookahead
    first = costs.verify(question.traffic.prompt)

    def prediction(rate: float, verify: float, **numbers: Any) -> Prediction:
        known = {
            "draft_step": 0.0, "tokens_a_round": 1.0, "hit_rate": None, "tokens_hit": 1.0, "tokens_miss": 1.0,
            "t_p": 0.0, "t_b": 0.0,
        }  # fmt: skip
        return Prediction(
            candidate, rate, verify, first_token=first, batch=batch, output=question.traffic.output,
            dollars=question.dollars, **{**known, **numbers},
        )  # fmt: skip

    if candidate.mode == "ar":
        verify = costs.verify(batch)
        return prediction(1 / verify, verify)
    drafted = question.laws.drafted_at(lookahead)
    tokens = expected_by_depth(drafted.rates(lookahead))[-1]
    if candidate.mode == "sd":
        verify, step = costs.verify(batch * (lookahead + 1)), costs.draft(batch)
        rate = tokens / (verify + lookahead * step)
        return prediction(rate, verify, draft_step=step, tokens_a_round=tokens, tokens_hit=tokens, tokens_miss=tokens)
    return _ssd(question, candidate, prediction)


def _ssd(question: Question, candidate: Candidate, prediction: Callable[..., Prediction]) -> Prediction:
    costs = question.costs(candidate.target_devices, candidate.draft_devices)
    batch, lookahead, budget = question.traffic.batch, candidate.lookahead, candidate.budget
    drafted, empty = question.laws.drafted_at(lookahead), question.laws.empty
    neural = candidate.fallback == "neural"
    other, other_depth = (drafted, lookahead) if neural else (empty, 0)
    own, theirs = _hits(drafted, lookahead, budget), _hits(other, other_depth, budget)
    tokens = [
        expected_by_depth(known.rates(depth))[-1] for known, depth in ((drafted, lookahead), (other, other_depth))
    ]
    run = long_run([Kind(tokens[0], 1.0, (own, 1 - own)), Kind(tokens[1], 1.0, (theirs, 1 - theirs))])
    hit = run.shares[0]
    width = batch * (hit * (lookahead + 1) + (1 - hit) * (other_depth + 1))
    verify = costs.verify_while(max(1, round(width)), both=True)
    drafting = Drafting(costs.extend(batch), costs.step, late=costs.link)
    primary = drafting.until(lookahead, batch * budget)

    def answered(missed: int) -> float:
        return 2 * costs.link + lookahead * costs.draft(missed) if neural else 0.0

    time = time_of_round(hit, batch=batch, primary=primary, fallback=answered, verify=verify)
    return prediction(
        run.tokens / time,
        verify,
        draft_step=costs.step(batch * budget),
        tokens_a_round=run.tokens,
        hit_rate=hit,
        tokens_hit=tokens[0],
        tokens_miss=tokens[1],
        t_p=primary / verify,
        t_b=answered(1) / verify,
    )


@lru_cache(maxsize=4096)
def _hits(known: Evidence, depth: int, budget: int) -> float:
    return hit_rate(known, best_counts(known, depth, budget))


def spent(question: Question, candidate: Candidate) -> dict[str, float]:
    """Appendix C for a candidate with a draft: draft tokens and operations a round, and bytes."""
    assert question.draft is not None
    flops, batch = question.draft.flops_per_token, question.traffic.batch
    if candidate.mode == "sd":
        found = sd_spent(batch, candidate.lookahead, flops_per_token=flops)
    else:
        found = ssd_spent(
            batch, candidate.lookahead, candidate.budget, vocab=question.draft.vocab,
            kv_bytes_per_token=question.draft.kv_bytes_per_token(), flops_per_token=flops,
        )  # fmt: skip
    return {
        "draft_tokens_a_round": found.draft_tokens,
        "draft_flops_a_round": found.draft_flops,
        "cache_bytes": found.cache_bytes,
        "branch_kv_bytes": found.keys_bytes,
        "wire_bytes_a_round": found.wire_bytes,
    }
