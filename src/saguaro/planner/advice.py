"""How sure a plan is, where SSD breaks even, what would help most, and what to do.

Error bars: each number that is assumed is moved, one at a time, and the lowest and highest speed of the same setting
are kept. Must not know: terminals. Tests: tests/planner/test_advice.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from saguaro.planner.predict import FORMULAS, Candidate, Prediction, predict, spent
from saguaro.planner.question import Question
from saguaro.planner.search import FALLBACKS, Compared, best, compare
from saguaro.simulate.clock import Setting, simulate
from saguaro.simulate.drafting import PUSH
from saguaro.theory.speedup import break_even_hit_rate

Change = Callable[[Question], Question]

UNSURE: dict[str, tuple[Change, Change]] = {
    "rejections of draft tokens, a fifth fewer or more": (
        lambda q: replace(q, laws=q.laws.changed(rejections=0.8)),
        lambda q: replace(q, laws=q.laws.changed(rejections=1.2)),
    ),
    "misses, a fifth fewer or more": (
        lambda q: replace(q, laws=q.laws.changed(misses=0.8)),
        lambda q: replace(q, laws=q.laws.changed(misses=1.2)),
    ),
    "launches and small kernels of a layer, a quarter less or more": (
        lambda q: replace(q, layer=0.75 * q.layer),
        lambda q: replace(q, layer=1.25 * q.layer),
    ),
    "bytes and operations of the target, a tenth less or more": (
        lambda q: replace(q, verify_factor=0.9 * q.verify_factor),
        lambda q: replace(q, verify_factor=1.1 * q.verify_factor),
    ),
    "draft passes, a fifth shorter or longer": (
        lambda q: replace(q, draft_factor=0.8 * q.draft_factor),
        lambda q: replace(q, draft_factor=1.2 * q.draft_factor),
    ),
}
HELP: dict[str, Change] = {
    "verification, a tenth shorter": lambda q: replace(q, verify_factor=0.9 * q.verify_factor),
    "draft passes, a tenth shorter": lambda q: replace(q, draft_factor=0.9 * q.draft_factor),
    "a better draft: a tenth fewer rejections": lambda q: replace(q, laws=q.laws.changed(rejections=0.9)),
    "better prediction: a tenth fewer misses": lambda q: replace(q, laws=q.laws.changed(misses=0.9)),
}
SIMULATED_ROUNDS = 1500


class Range(NamedTuple):
    """Lowest and highest tokens a second of a setting, and which assumption moves it most."""

    low: float
    high: float
    most: str


def error_bars(question: Question, prediction: Prediction) -> Range:
    """What the same placement and setting give when assumptions are a little wrong, one at a time."""
    speeds = {
        name: [predict(change(question), prediction.candidate).tokens_per_second for change in changes]
        for name, changes in UNSURE.items()
    }
    every = [speed for pair in speeds.values() for speed in pair]
    most = max(speeds, key=lambda name: abs(speeds[name][0] - speeds[name][1]))
    return Range(min(every), max(every), most)


def improvements(question: Question, prediction: Prediction) -> list[tuple[str, float]]:
    """What a tenth better would gain, each at its own best setting; largest first."""
    own = prediction.candidate

    def speed(asked: Question) -> float:
        return best(asked, own.mode, own.target_devices, own.draft_devices, own.devices).tokens_per_second

    now = speed(question)
    found = [(name, speed(change(question)) / now - 1) for name, change in HELP.items()]
    return sorted(found, key=lambda each: -each[1])


def break_even(question: Question, compared: Compared) -> dict[str, float] | None:
    """By fallback, the hit rate from which the asked SSD is as fast as the best SD on as many devices.

    Theorem 7 solved for p_hit (`theory.speedup.break_even_hit_rate`), in units of a verification, for one row. With the
    neural fallback it is near 0 (Corollary 8); without a fallback it says what hits must bring. inf
    when SSD never wins; None where there is no SSD or no SD.
    """
    ssd, sd = compared.of("ssd"), compared.of("sd", equal=True) or compared.of("sd")
    if ssd is None or sd is None:
        return None
    found = {}
    for fallback in FALLBACKS:
        own = predict(question, replace(ssd.candidate, fallback=fallback))
        # SD enters by its speed alone, so its round is put into one number: tokens in the time of a verification.
        found[fallback] = break_even_hit_rate(
            tokens_sd=sd.tokens_per_second * own.verify, draft=0.0, tokens_hit=own.tokens_hit,
            tokens_miss=own.tokens_miss, primary=own.t_p, fallback=own.t_b,
        )  # fmt: skip
    return found


def simulated(question: Question, candidate: Candidate, *, handover: str = PUSH, seed: int = 0) -> float:
    """Tokens a second of a request by Algorithm 1 on the virtual clock.

    With "ask", every proposal is whole, as in the closed form; with "push" the waiting rule decides, as in the engine.
    """
    setting = Setting(
        candidate.mode, candidate.lookahead, candidate.budget, "optimal", candidate.fallback,
        handover=handover, batch=question.traffic.batch,
    )  # fmt: skip
    costs = question.costs(candidate.target_devices, candidate.draft_devices)
    rounds = max(200, SIMULATED_ROUNDS // question.traffic.batch)
    return simulate(
        setting, costs, question.laws.pair(candidate.lookahead), rounds=rounds, seed=seed
    ).tokens_per_second / (question.traffic.batch)


def verdict(compared: Compared) -> str:
    """Which to take for one fast request, and which for the most tokens of a device."""
    fastest = max(compared.every, key=lambda each: each.tokens_per_second)
    thrifty = max(compared.every, key=lambda each: each.per_device)
    own, other = fastest.candidate, thrifty.candidate
    text = (
        f"Fastest for a request: {own.mode.upper()} on {own.placement}, {fastest.tokens_per_second:.0f} tokens/s. "
        f"Most tokens a second of a device: {other.mode.upper()} on {other.placement} ({thrifty.per_device:.0f})."
    )
    ssd, sd = compared.of("ssd"), compared.of("sd")
    if ssd is not None and sd is not None:
        gain = ssd.tokens_per_second / sd.tokens_per_second - 1
        added = ssd.candidate.devices / sd.candidate.devices - 1
        pays = "pays" if gain > added else "does not pay"
        text += (
            f" The draft's own device makes a request {gain:+.0%} faster than SD for {added:+.0%} devices: counted by "
            f"tokens of a device it {pays}."
        )
    return text


def plan(question: Question) -> dict[str, Any]:
    """Everything about a question, as JSON has it."""
    compared = compare(question)
    rows = []
    for group, members in (("asked", compared.asked), ("equal devices", compared.equal), ("others", compared.others)):
        for each in members:
            bars = error_bars(question, each)
            row = {"group": group, **each.plain(), "low": bars.low, "high": bars.high, "most_unsure": bars.most}
            if group == "asked":
                row["simulated_tokens_per_second"] = simulated(question, each.candidate)
                if each.candidate.mode != "ar":
                    row["overhead"] = spent(question, each.candidate)
            rows.append(row)
    main = compared.of("ssd") or compared.of("sd") or compared.asked[0]
    even = break_even(question, compared)
    hardware = question.hardware
    return {
        "target": question.target.name,
        "draft": question.draft.name if question.draft else None,
        "hardware": {"name": hardware.name, "source": hardware.source, "dollars_an_hour": question.dollars},
        "traffic": {
            "batch": question.traffic.batch, "prompt": question.traffic.prompt, "output": question.traffic.output,
        },
        "laws": question.laws.source,
        "rows": rows,
        "left_out": compared.left_out,
        "break_even_hit_rate": even and {name: None if math.isinf(rate) else rate for name, rate in even.items()},
        "improve": [{"what": name, "gain": gain} for name, gain in improvements(question, main)],
        "verdict": verdict(compared),
        "formulas": FORMULAS,
        "assumed": "a layer's launches, all-reduces, messages and the price are assumptions "
        "(saguaro.simulate.hardware); error bars move them",
    }  # fmt: skip
