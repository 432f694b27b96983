"""Costs and laws fitted to the paper's AR and SD alone, so that its SSD can be predicted.

Three steps. AR gives what a layer costs beside its bytes: the one number that a data sheet lacks. The step of the draft
follows from it (no all-reduces: the draft runs on one device). SD then gives the acceptance of each prompt set. Hit
curves come from Figure 3, which shows them for uniform fan-outs; the law of rejections is what is left when "all
accepted" is taken out. Never looks at published speeds of SSD. Tests: tests/simulate/test_paper.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from saguaro.errors import ConfigError
from saguaro.simulate.clock import Setting, Simulated, simulate
from saguaro.simulate.costs import Costs, Seconds, laws_reply, roofline
from saguaro.simulate.drafting import ASK
from saguaro.simulate.hardware import Hardware, open_hardware
from saguaro.simulate.pairs import LawfulPair, consistent, unproposed
from saguaro.simulate.published import FAN_OUTS, MISSES_BACKUP, MISSES_PRIMARY, Family
from saguaro.simulate.shapes import PRESETS, ModelShape
from saguaro.theory.acceptance import expected_by_depth
from saguaro.theory.fan_out import PowerLaw

DEVICES = 4
CONTEXT = 350.0
"""Mean tokens of a sequence: prompts of about a hundred, 512 new ones."""


def layer_seconds(
    shape: ModelShape, hardware: Hardware, step_seconds: float, *, devices: int = DEVICES, context: float = CONTEXT
) -> float:
    """What a layer costs beside its bytes and all-reduces, from one measured step of AR.

    Raises:
        ConfigError: when the step is shorter than its bytes take.
    """
    bare = roofline(shape, hardware, devices=devices, context=context, layer=0.0)(1)
    left = (step_seconds - bare) / shape.layers
    if left < 0:
        raise ConfigError(f"a step of {1e3 * step_seconds:.1f} ms is shorter than the data sheet allows.")
    return left


def acceptance_for(tokens: float, lookahead: int) -> float:
    """The constant acceptance rate under which a round of K proposed tokens gives so many on average.

    Raises:
        ConfigError: when no rate does: less than 1 token or more than K + 1.
    """
    if not 1 <= tokens <= lookahead + 1:
        raise ConfigError(f"{tokens:.2f} tokens a round cannot come from {lookahead} proposed ones.")
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if expected_by_depth([middle] * lookahead)[-1] < tokens:
            low = middle
        else:
            high = middle
    return (low + high) / 2


@dataclass(frozen=True)
class Fitted:
    """A family's costs, and the acceptance of each prompt set; `draft_step`: seconds that were measured, None derives
    them from the layer of AR.
    """

    family: Family
    layer: float
    verify: Seconds
    draft: Seconds
    acceptance: Mapping[str, float]
    sd_lookahead: int
    hardware: Hardware
    draft_step: float | None = None

    @property
    def mean_acceptance(self) -> float:
        """That of the mean speed of SD."""
        return self.acceptance["mean"]

    def costs(self, *, batch: int = 1, service: float = 0.0, branching: float = 0.0, draft_devices: int = 1) -> Costs:
        """What a round takes with so many rows.

        Args:
            batch: rows, each with the mean context.
            service: host work at each question to the draft.
            branching: added to each step of the branches.
            draft_devices: that share the branches.
        """
        target, draft = PRESETS[self.family.target], PRESETS[self.family.draft]
        verify = roofline(target, self.hardware, devices=DEVICES, sequences=batch, context=CONTEXT, layer=self.layer)
        step = _step(draft, self.hardware, self.layer, self.draft_step, sequences=batch)
        return Costs(
            verify, step, link=self.hardware.hop, reply=laws_reply(draft.vocab, self.hardware, batch=batch),
            service=service, branching=branching, draft_devices=draft_devices,
        )  # fmt: skip

    def tokens_of_sd(self, speed: float, *, batch: int = 1) -> float:
        """Tokens a round that a published speed of SD means under these costs."""
        costs = self.costs(batch=batch)
        return speed * (costs.verify(batch * (self.sd_lookahead + 1)) + self.sd_lookahead * costs.draft(batch))


def fit(
    family: Family,
    *,
    sd_lookahead: int | None = None,
    all_reduce: float | None = None,
    draft_step: float | None = None,
) -> Fitted:
    """Costs from AR, then acceptance from SD.

    Args:
        family: whose table.
        sd_lookahead: K of SD; None takes that of the authors' command lines.
        all_reduce: seconds of a small all-reduce; None takes what is assumed of the hardware.
        draft_step: seconds of a step of the draft where they are known; None derives them from the layer of AR.
    """
    hardware = open_hardware("h100")
    if all_reduce is not None:
        hardware = replace(hardware, all_reduce=all_reduce)
    target, draft = PRESETS[family.target], PRESETS[family.draft]
    layer = layer_seconds(target, hardware, 1 / family.ar)
    verify = roofline(target, hardware, devices=DEVICES, context=CONTEXT, layer=layer)
    step = _step(draft, hardware, layer, draft_step)
    lookahead = sd_lookahead or family.sd_lookahead
    fitted = Fitted(family, layer, verify, step, {}, lookahead, hardware, draft_step)
    speeds = {**family.sd, "mean": family.mean_sd}
    rates = {name: acceptance_for(fitted.tokens_of_sd(speed), lookahead) for name, speed in speeds.items()}
    return replace(fitted, acceptance=rates)


def _step(draft: ModelShape, hardware: Hardware, layer: float, known: float | None, *, sequences: int = 1) -> Seconds:
    if known is not None:
        return lambda rows: known
    return roofline(draft, hardware, sequences=sequences, context=CONTEXT, layer=layer)


@lru_cache(maxsize=64)
def rejection_law(temperature: float, acceptance: float, lookahead: int) -> PowerLaw:
    """The miss curve after a rejection, c * F^-r, that gives Figure 3's curve of uniform fan-outs.

    With F guesses everywhere, 1 - p_hit,p(F) = (1 - a^K) m(F) + a^K (1 - a) m(F - 1): after all were accepted the first
    guess is right with probability a, and the other F - 1 follow m.
    """
    whole = acceptance**lookahead

    def misses(law: PowerLaw) -> list[float]:
        return [
            (1 - whole) * law.miss(guesses) + whole * (1 - acceptance) * law.miss(guesses - 1) for guesses in FAN_OUTS
        ]

    return _nearest(MISSES_PRIMARY[temperature], misses)


@lru_cache(maxsize=8)
def backup_law(temperature: float) -> PowerLaw:
    """The miss curve after a proposal that is never right: 1 - p_hit,b(F)."""
    return _nearest(MISSES_BACKUP[temperature], lambda law: [law.miss(guesses) for guesses in FAN_OUTS])


def _nearest(points: Sequence[float], misses: Callable[[PowerLaw], Sequence[float]]) -> PowerLaw:
    """The law whose logarithms are nearest to those of the points: a grid that is made finer three times."""
    best, c_step, r_step = PowerLaw(c=0.5, r=0.5), 0.1, 0.1
    for _ in range(4):
        tried = [
            PowerLaw(c=c, r=r)
            for i in range(-6, 7)
            for j in range(-6, 7)
            if 0 < (c := best.c + i * c_step) <= 1 and (r := best.r + j * r_step) >= 0
        ]
        best = min(tried, key=lambda law: _distance(points, misses(law)))
        c_step, r_step = c_step / 5, r_step / 5
    return best


def _distance(points: Sequence[float], found: Sequence[float]) -> float:
    return sum((math.log(a) - math.log(b)) ** 2 for a, b in zip(points, found, strict=True))


def hidden_lookahead(fitted: Fitted, *, fan_out: int) -> int:
    """The largest K for which a round of the draft, an extend and K steps of its branches, ends before a verification
    does: T_p < 1, which Appendix A says that the choice of K saw to. At least 1.
    """
    costs, lookahead = fitted.costs(), 1
    while costs.extend(1) + (lookahead + 1) * costs.step(fan_out * (lookahead + 2)) < costs.verify(lookahead + 2):
        lookahead += 1
    return lookahead


def pair_at(temperature: float, acceptance: float, *, lookahead: int, sureness: float | None = None) -> LawfulPair:
    """Target and draft of the paper at a temperature: Figure 3's laws, and an acceptance."""
    law = rejection_law(temperature, round(acceptance, 6), lookahead)
    laws = {"draft": consistent(acceptance, law), "none": unproposed(backup_law(temperature))}
    return LawfulPair(laws, sureness=sureness)


def ssd_of(
    fitted: Fitted,
    acceptance: float,
    *,
    lookahead: int,
    fan_out: int,
    fallback: str = "neural",
    temperature: float = 0.0,
    batch: int = 1,
    rounds: int = 3000,
    costs: Costs | None = None,
    policy: str = "uniform",
) -> Simulated:
    """The paper's SSD with `fan_out` guesses a position: the draft keeps the cache and answers when it is done."""
    setting = Setting("ssd", lookahead, fan_out * (lookahead + 1), policy, fallback, handover=ASK, batch=batch)
    pair = pair_at(temperature, acceptance, lookahead=lookahead)
    return simulate(setting, costs or fitted.costs(batch=batch), pair, rounds=rounds, seed=1)
