"""What a plan is asked for: models, hardware, traffic, and what is known or assumed of the pair.

Must not know: how anything is predicted. Tests: tests/planner/test_question.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from saguaro.errors import ConfigError
from saguaro.profile import Curves, Profile
from saguaro.simulate.costs import Costs, Seconds, measured, memory_shares, roofline
from saguaro.simulate.hardware import Hardware
from saguaro.simulate.pairs import LawfulPair, consistent, unproposed
from saguaro.simulate.paper import backup_law, rejection_law
from saguaro.simulate.published import COMMITTED_LOOKAHEAD, MISSES_PRIMARY
from saguaro.simulate.shapes import ModelShape, bytes_of
from saguaro.theory.evidence import Evidence
from saguaro.theory.fan_out import PowerLaw

USABLE_MEMORY = 0.9
"""Of a device; the rest goes to activations, graphs and the system."""


@dataclass(frozen=True)
class Traffic:
    """What is served: so many requests at once, with prompts and outputs of such lengths (tokens)."""

    batch: int = 1
    prompt: int = 512
    output: int = 512

    def __post_init__(self) -> None:
        if min(self.batch, self.prompt, self.output) < 1:
            raise ConfigError("traffic needs a batch, a prompt and an output of 1 or more.")

    @property
    def context(self) -> float:
        """Mean tokens of a sequence while it decodes."""
        return self.prompt + self.output / 2


@dataclass(frozen=True)
class Laws:
    """What is known of a pair; a plan's error bars come from changing these numbers.

    Args:
        acceptance: constant acceptance rate of the draft's tokens.
        rejection: miss curve after a rejection.
        backup: miss curve after a round without a right proposal.
        source: where the numbers come from.
        measured: laws of rounds with and without a drafted proposal that were measured; they replace the others.
        by_lookahead: the first of these for a lookahead, where it was measured: positions are not independent.
    """

    acceptance: float
    rejection: PowerLaw
    backup: PowerLaw
    source: str
    measured: tuple[Evidence, Evidence] | None = None
    by_lookahead: tuple[tuple[int, Evidence], ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.acceptance <= 1:
            raise ConfigError(f"an acceptance rate lies in 0 ... 1, not at {self.acceptance}.")

    @cached_property
    def drafted(self) -> Evidence:
        """Rounds whose proposal the draft drew."""
        return self.measured[0] if self.measured else consistent(self.acceptance, self.rejection)

    def drafted_at(self, lookahead: int) -> Evidence:
        """The same for proposals of so many tokens."""
        return dict(self.by_lookahead).get(lookahead, self.drafted)

    @cached_property
    def empty(self) -> Evidence:
        """Rounds without a right proposal."""
        return self.measured[1] if self.measured else unproposed(self.backup)

    def pair(self, lookahead: int) -> LawfulPair:
        """For the simulator."""
        return LawfulPair({"draft": self.drafted_at(lookahead), "none": self.empty})

    def changed(self, *, rejections: float = 1.0, misses: float = 1.0) -> Laws:
        """The laws with so many times the rejections and the misses."""
        if self.measured:
            own, other = self.measured
            each = tuple((k, _changed(known, rejections, misses)) for k, known in self.by_lookahead)
            both = (_changed(own, rejections, misses), _changed(other, 1.0, misses))
            return replace(self, measured=both, by_lookahead=each)
        return replace(
            self,
            acceptance=max(0.0, min(1.0, 1 - (1 - self.acceptance) * rejections)),
            rejection=PowerLaw(min(1.0, self.rejection.c * misses), self.rejection.r),
            backup=PowerLaw(min(1.0, self.backup.c * misses), self.backup.r),
        )


def _changed(known: Evidence, rejections: float, misses: float) -> Evidence:
    def fewer(rate: float, times: float) -> float:
        return max(0.0, min(1.0, 1 - (1 - rate) * times))

    def curve(values: tuple[float, ...]) -> tuple[float, ...]:
        return (0.0, *(fewer(value, misses) for value in values[1:]))

    if known.rate == 0:
        return replace(known, after_rejection=curve(known.after_rejection), after_all=curve(known.after_all))
    return Evidence(
        fewer(known.rate, rejections),
        tuple(fewer(rate, rejections) for rate in known.acceptance),
        curve(known.after_rejection),
        curve(known.after_all),
    )


def published_laws(temperature: float, acceptance: float) -> Laws:
    """Hit curves of the paper's Figure 3 at the nearest published temperature, with a given acceptance."""
    nearest = min(MISSES_PRIMARY, key=lambda known: abs(known - temperature))
    law = rejection_law(nearest, round(acceptance, 6), COMMITTED_LOOKAHEAD)
    said = f"acceptance {acceptance:g}; hit curves of the paper's Figure 3 at temperature {nearest:g}"
    return Laws(acceptance, law, backup_law(nearest), said)


def profile_laws(profile: Profile, path: str) -> Laws:
    """Acceptance and hit curves of a calibration."""

    def evidence(curves: Curves) -> Evidence:
        return Evidence(curves.rate, curves.acceptance, curves.after_rejection, curves.after_all)

    both = (evidence(profile.after_hit), evidence(profile.after_miss))
    unused = PowerLaw(0.5, 0.5)
    each = tuple((lookahead, evidence(curves)) for lookahead, curves in profile.by_lookahead.items())
    said = f"calibration profile {path}"
    return Laws(profile.after_hit.rate, unused, unused, said, measured=both, by_lookahead=each)


@dataclass(frozen=True)
class Question:
    """A whole question.

    Args:
        target, draft: shapes; without a draft only AR is looked at.
        hardware: of every device.
        target_devices, draft_devices: the placement that is asked about; others on as many devices, and AR and SD on
            the target's alone, are compared with it.
        traffic: what is served.
        laws: of the pair.
        target_dtype, draft_dtype: of weights.
        dollars: an hour of one device.
        lookahead, budget: fixed ones; None looks for the best.
        times: seconds by rows from a calibration profile, which then stand for the asked placement.
        layer, verify_factor, draft_factor: times the cost of a layer, of a verification and of a draft pass, for error
            bars and advice.
        link: seconds of a message between target and draft; None takes the hardware's.
    """

    target: ModelShape
    draft: ModelShape | None
    hardware: Hardware
    target_devices: int
    draft_devices: int
    traffic: Traffic
    laws: Laws
    target_dtype: str = "bfloat16"
    draft_dtype: str = "bfloat16"
    dollars: float = 0.0
    lookahead: int | None = None
    budget: int | None = None
    times: Mapping[str, Mapping[int, float]] | None = None
    layer: float = 1.0
    verify_factor: float = 1.0
    draft_factor: float = 1.0
    link: float | None = None

    def __post_init__(self) -> None:
        if self.target_devices < 1 or self.draft_devices < 0:
            raise ConfigError("a placement needs one device or more for the target, and 0 or more for the draft.")
        if self.draft is not None and self.draft.vocab != self.target.vocab:
            larger = max(self.draft.vocab, self.target.vocab)
            if abs(self.draft.vocab - self.target.vocab) > 0.01 * larger:
                raise ConfigError(
                    f"{self.target.name} has {self.target.vocab} token ids and {self.draft.name} {self.draft.vocab}; a "
                    "draft must share the target's vocabulary."
                )

    def need(self, shape: ModelShape, dtype: str) -> float:
        """Bytes of a model: weights, and keys and values of all requests at full length."""
        tokens = self.traffic.batch * (self.traffic.prompt + self.traffic.output)
        return shape.stored * bytes_of(dtype) + tokens * shape.kv_bytes_per_token()

    def fits(self, shape: ModelShape, dtype: str, devices: int, *, beside: float = 0.0) -> bool:
        """Whether a model fits on so many devices, beside so many bytes on each."""
        return self.need(shape, dtype) / devices + beside <= USABLE_MEMORY * self.hardware.memory

    def costs(self, target_devices: int, draft_devices: int) -> Costs:
        """What passes take in a placement; without draft devices the draft shares one of the target's."""
        if self.times is not None:
            return self._scaled(measured(self.times))
        batch, context = self.traffic.batch, self.traffic.context
        layer = self.hardware.layer * self.layer
        working = target_devices + draft_devices
        share = memory_shares(self.hardware, devices=working)

        def target(part: float = 1.0) -> Seconds:
            return roofline(
                self.target, self.hardware, devices=target_devices, weight_bytes=bytes_of(self.target_dtype),
                sequences=batch, context=context, layer=layer, share=part,
            )  # fmt: skip

        def draft(part: float = 1.0) -> Seconds:
            assert self.draft is not None
            return roofline(
                self.draft, self.hardware, weight_bytes=bytes_of(self.draft_dtype), sequences=batch, context=context,
                layer=layer, share=part,
            )  # fmt: skip

        if self.draft is None:
            return self._scaled(Costs(target(), lambda rows: 0.0))
        link = self.hardware.hop if self.link is None else self.link
        return self._scaled(
            Costs(target(), draft(), target(share), draft(share), link=link, draft_devices=max(1, draft_devices))
        )

    def _scaled(self, costs: Costs) -> Costs:
        def times(seconds: Seconds, factor: float) -> Seconds:
            return seconds if factor == 1 else lambda rows: factor * seconds(rows)

        return replace(
            costs,
            verify=times(costs.verify, self.verify_factor),
            verify_beside=times(costs.verify_beside or costs.verify, self.verify_factor),
            draft=times(costs.draft, self.draft_factor),
            draft_beside=times(costs.draft_beside or costs.draft, self.draft_factor),
        )
