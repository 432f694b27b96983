"""From recordings and step times to what a profile says: curves with their fits, odds, hit rates, the best settings.

Plain values, so that a profile and a report can hold them. Must not know: engines, files, pictures.
Tests: tests/calibrate/test_run.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import Any

from saguaro.algorithm.odds import Calibration
from saguaro.algorithm.rounds import EndedRound
from saguaro.calibrate.odds_fit import fit_calibration
from saguaro.calibrate.predict import Times, best_of_each, every_setting, ssd
from saguaro.calibrate.recording import Recording
from saguaro.errors import ConfigError
from saguaro.profile import Best, Curves
from saguaro.simulate import curves
from saguaro.simulate.replay import replay
from saguaro.theory.acceptance import expected_tokens, number_accepted
from saguaro.theory.evidence import Evidence, RunningEvidence
from saguaro.theory.fan_out import expected_hit_rate
from saguaro.theory.fit import acceptance_per_position, fit_ranks
from saguaro.theory.speedup import long_run_hit_rate

POLICIES = ("ranked", "optimal", "geometric", "uniform")
BUDGETS = (2, 4, 6, 8, 12, 16, 24)
PLANNED_BUDGETS = (2, 4, 6, 8, 12, 16)
DEEPEST = 8
SHOWN = 16
"""Guesses of a curve that a report shows."""


def pooled(recordings: Sequence[Recording]) -> list[EndedRound]:
    """The rounds of all recordings, each request with a number of its own."""
    found: list[EndedRound] = []
    for number, recording in enumerate(recordings):
        found += [replace(each, request=each.request + number * 100_000) for each in recording.rounds]
    return found


def plain_curves(evidence: Evidence) -> Curves:
    """Evidence as a profile holds it."""
    return Curves(evidence.rate, evidence.acceptance, evidence.after_rejection, evidence.after_all)


def describe(recording: Recording, *, lookahead: int, candidates: int) -> dict[str, Any]:
    """What the rounds of one temperature say.

    Raises:
        ConfigError: when they are too few.
    """
    rounds = recording.rounds
    accepted, tried = curves.accepted_and_tried(rounds)
    fitted, likelihood, before = fit_calibration(rounds)
    ranks = {
        "after_rejection": curves.bonus_ranks(rounds, after_all=False),
        "after_all": curves.bonus_ranks(rounds, after_all=True),
        "after_miss": curves.start_ranks(rounds),
    }
    return {
        "temperature": recording.temperature,
        "prompts": len(recording.texts),
        "rounds": len(rounds),
        "acceptance": acceptance_per_position(accepted, tried),
        "tried": tried,
        "curves": {name: _curve(each, candidates) for name, each in ranks.items()},
        "calibration": {
            "sharpness": fitted.sharpness, "doubt": fitted.doubt, "likelihood": likelihood, "without": before,
        },
        "tokens_a_round": curves.tokens_a_round(rounds, DEEPEST),
        "hit_rates": _hit_rates(rounds, lookahead, fitted, ranks["after_miss"]),
    }  # fmt: skip


def by_lookahead(rounds: Sequence[EndedRound], most: int) -> dict[str, Any]:
    """Curves of each lookahead on the same texts: positions of a text are not independent, so that the first token of a
    short proposal is accepted more often than that of a long one, which follows a refusal more often.
    """
    found = {}
    for lookahead in range(1, most + 1):
        own = asdict(plain_curves(curves.evidence_of(curves.walked(rounds, lookahead))))
        found[str(lookahead)] = {name: list(each) if isinstance(each, tuple) else each for name, each in own.items()}
    return found


def _curve(ranks: Sequence[int | None], candidates: int) -> dict[str, Any]:
    """A hit curve as it was seen, and the power law fitted to its misses; no law where too little was missed."""
    shown = min(SHOWN, candidates - 1)
    seen = curves.hit_curve(ranks, (0.0,) * 65, weight=0.0)[: shown + 1] if ranks else ()
    found: dict[str, Any] = {"rounds": len(ranks), "hits": list(seen), "fit": None}
    try:
        fit = fit_ranks(ranks, largest=candidates - 1)
    except ConfigError:
        return found
    if fit.r_error < fit.law.r:  # otherwise there are too few misses to see a law
        found["fit"] = {"c": fit.law.c, "c_error": fit.c_error, "r": fit.law.r, "r_error": fit.r_error}
    return found


def _hit_rates(
    rounds: Sequence[EndedRound], lookahead: int, calibration: Calibration, starts: Sequence[int | None]
) -> dict[str, Any]:
    """Hit rate in lockstep by policy and budget; p_hit,b of a fallback that proposes nothing, and what then follows."""
    by_policy = {
        policy: {str(budget): _rate(rounds, policy, budget, lookahead, calibration) for budget in BUDGETS}
        for policy in POLICIES
    }
    after_nothing = {
        str(budget): sum(rank is not None and rank < budget for rank in starts) / max(1, len(starts))
        for budget in BUDGETS
    }
    long_run = {
        budget: long_run_hit_rate(after_hit=by_policy["ranked"][budget], after_miss=share)
        for budget, share in after_nothing.items()
        if abs(by_policy["ranked"][budget] - share) < 1
    }
    return {"policies": by_policy, "after_nothing": after_nothing, "long_run_without_fallback": long_run}


def _rate(rounds: Sequence[EndedRound], policy: str, budget: int, lookahead: int, calibration: Calibration) -> float:
    hits = replay(rounds, policy, budget, lookahead=lookahead, calibration=calibration)
    return sum(hits) / max(1, len(hits))


def predicted(rounds: Sequence[EndedRound], times: Times, calibration: Calibration, *, lookahead: int) -> list[Best]:
    """All settings that were looked at, fastest first within each batch.

    Hit rates of a smaller lookahead are those of the recorded rounds cut to it, with what a draft with this profile
    expects at first.
    """
    known = curves.evidence_of(rounds)

    @cache
    def hit_rate(policy: str, depth: int, budget: int) -> float:
        cut = curves.cut(rounds, depth)
        hits = replay(cut, policy, budget, lookahead=depth, evidence=RunningEvidence(known), calibration=calibration)
        return sum(hits) / max(1, len(hits))

    return every_setting(
        times,
        curves.tokens_a_round(rounds, DEEPEST),
        hit_rate,
        policies=POLICIES[:3],
        lookaheads=range(1, lookahead + 1),
        budgets=PLANNED_BUDGETS,
    )


def best_settings(settings: Sequence[Best]) -> tuple[Best, ...]:
    """Of each mode and batch the fastest."""
    return tuple(best_of_each(settings))


def saguaro_sampling(laws: Mapping[str, Sequence[Sequence[float]]], times: Times, *, lookahead: int) -> dict[str, Any]:
    """Which C promises the most under `rejection`, with which F, and the table that says so.

    Args:
        laws: by temperature, rows of C, F, acceptance, hit rate after a rejection, and after all were accepted.
        times: as `Engine.measure_times` gives them.
        lookahead: K.

    Returns:
        `c`, `fan_out` and `rows`: C, F, the three means over temperatures, hit rate, tokens a second of one request.
    """
    table: dict[tuple[float, int], list[Sequence[float]]] = {}
    for rows in laws.values():
        for row in rows:
            table.setdefault((row[0], int(row[1])), []).append(row[2:])
    found = []
    for (c, fan_out), each in table.items():
        acceptance, rejected, everything = (sum(values) / len(each) for values in zip(*each, strict=True))
        rates = [min(1.0, acceptance)] * lookahead
        hits = [lambda guesses, value=rejected: value] * lookahead + [lambda guesses, value=everything: value]
        hit_rate = expected_hit_rate(number_accepted(rates), hits, [fan_out] * (lookahead + 1))
        speed = ssd(
            times, 1, lookahead, fan_out * (lookahead + 1), "uniform", tokens=expected_tokens(rates), hit_rate=hit_rate
        )
        found.append([c, fan_out, acceptance, rejected, everything, hit_rate, speed.tokens_per_second])
    best = max(found, key=lambda row: (row[-1], row[0]), default=None)
    return {"c": best[0] if best else 1.0, "fan_out": best[1] if best else 0, "rows": found}


def shared_noise(recording: Recording, fan_outs: Sequence[int]) -> dict[str, Any]:
    """What shared noise gave at the same positions: acceptance of the draft's first choice, and foreseen tokens."""
    places = [place for text in curves.texts(recording.rounds) for place in text[1:]]
    rejected = [place.rank for place in places if place.first != place.token]
    return {
        "acceptance": 1 - len(rejected) / max(1, len(places)),
        "after_rejection": [_within(rejected, fan_out + 1) for fan_out in fan_outs],
        "after_all": [_within([place.rank for place in places], fan_out) for fan_out in fan_outs],
    }


def _within(ranks: Sequence[int | None], count: int) -> float:
    """Share of ranks below `count`."""
    return sum(rank is not None and rank < count for rank in ranks) / max(1, len(ranks))
