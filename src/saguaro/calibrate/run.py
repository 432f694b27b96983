"""A calibration from beginning to end: step times, recorded rounds, laws, what follows from them, and a check for real.

Each stage is kept as soon as it is done (`stages.py`), so that one that is stopped loses one stage at most. Must not
know: terminals, pictures. Tests: tests/calibrate/test_run.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch

from saguaro.algorithm.odds import Calibration
from saguaro.calibrate import analysis, laws
from saguaro.calibrate.odds_fit import fit_calibration
from saguaro.calibrate.reading import open_readers
from saguaro.calibrate.recording import (
    CANDIDATES,
    LOOKAHEAD,
    ROWS,
    Recording,
    record,
    recording_from,
    recording_options,
)
from saguaro.calibrate.stages import Stages
from saguaro.engine.from_profile import pair_of
from saguaro.engine.resolve import Plan
from saguaro.errors import ConfigError
from saguaro.models.checkpoint import open_checkpoint
from saguaro.profile import SCHEMA, Best, Pair, Profile, save
from saguaro.request import SamplingParams
from saguaro.simulate import curves

VERIFY_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 24, 32, 48, 64)
STEP_ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
TRIED, CHECK_REPEATS, CHECK_PROMPTS = 3, 2, 2
OnStage = Callable[[str, int], None]  # (what is done now, how many steps it has)


@dataclass(frozen=True)
class CalibrationSettings:
    """One calibration.

    Args:
        engine: options of `EngineConfig` for models, devices and dtypes.
        prompts: raw prompts.
        datasets: names of the prompt sets.
        temperatures: each has a recording of its own.
        max_tokens: tokens of each output.
        lookahead: K of the recording, and the largest that SSD is planned with.
        candidates: of a position that are kept.
        rows: prompts that run at once while recording.
        positions: of each temperature where the laws are laid side by side.
        seconds: of each of the three measurements of step times.
        check: run the most promising settings for real.
        seed: key of the first prompt's noise.
    """

    engine: Mapping[str, Any]
    prompts: Sequence[str]
    datasets: Sequence[str] = ()
    temperatures: tuple[float, ...] = (0.0, 0.7, 1.0)
    max_tokens: int = 64
    lookahead: int = LOOKAHEAD
    candidates: int = CANDIDATES
    rows: int = ROWS
    positions: int = 192
    seconds: float = 6.0
    check: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.prompts:
            raise ConfigError("a calibration needs at least one prompt.")
        if any(not 0 <= each <= 100 for each in self.temperatures) or not self.temperatures:
            raise ConfigError("a calibration needs temperatures in 0 ... 100, at least one.")
        if len(set(self.temperatures)) != len(self.temperatures):
            raise ConfigError("every temperature is recorded once; one was given twice.")
        if not 0 <= self.seconds < math.inf:
            raise ConfigError("step times are measured for some seconds, 0 or more.")
        if self.max_tokens < 8:
            raise ConfigError("a calibration needs outputs of 8 tokens or more.")
        self.recording()

    def recording(self) -> dict[str, Any]:
        """Options of the engine that records."""
        return recording_options(self.engine, lookahead=self.lookahead, candidates=self.candidates, rows=self.rows)


@dataclass
class Calibrating:
    """A calibration under way.

    Args:
        settings: what to measure.
        plan: of `settings.recording()`.
        stages: where done stages are.
        open_llm: makes an engine from keyword options (`saguaro.LLM`).
        on_stage: told what is done now.
        on_steps: told of steps that were done.
        facts: `machine` and `versions`, for the profile.
    """

    settings: CalibrationSettings
    plan: Plan
    stages: Stages
    open_llm: Callable[..., Any]
    on_stage: OnStage = lambda name, steps: None
    on_steps: Callable[[int], None] = lambda count: None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def run(self, out: Path) -> Profile:
        """Do what is left to do and write the profile."""
        with ExitStack() as stack:
            times = self._times(stack)
            recordings = [self._recording(stack, temperature) for temperature in self.settings.temperatures]
        found = self._laws(recordings)
        profile = self._profile(times, recordings, found)
        save(profile, out)
        if self.settings.check:
            profile = self._checked(profile, out)
            save(profile, out)
        return profile

    # -- stages -----------------------------------------------------------------------------------------------------

    def _llm(self, stack: ExitStack) -> Any:
        """The engine that records, opened when the first stage needs it."""
        if not hasattr(self, "_opened"):
            self.on_stage("loading both models", 1)
            self._opened = stack.enter_context(self.open_llm(**self.settings.recording()))
        return self._opened

    def _times(self, stack: ExitStack) -> dict[str, dict[int, float]]:
        def measure() -> Any:
            llm = self._llm(stack)
            self.on_stage("step times, alone and together", 1)
            return llm._open.measure_times(VERIFY_ROWS, STEP_ROWS, seconds=self.settings.seconds)

        found = self.stages.get("times", measure)
        return {name: {int(rows): seconds for rows, seconds in each.items()} for name, each in found.items()}

    def _recording(self, stack: ExitStack, temperature: float) -> Recording:
        settings = self.settings

        def make() -> Any:
            llm = self._llm(stack)
            self.on_stage(f"rounds at temperature {temperature:g}", len(settings.prompts))
            done = record(
                llm,
                settings.prompts,
                temperature=temperature,
                max_tokens=settings.max_tokens,
                seed=settings.seed,
                on_prompts=self.on_steps,
            )
            return done.plain()

        return recording_from(self.stages.get(f"rounds-{temperature:g}", make))

    def _laws(self, recordings: Sequence[Recording]) -> dict[str, Any]:
        """By temperature: rows of C, F, acceptance, hit rates after a rejection and after all; and shared noise's."""
        readers: list[Any] = []
        found: dict[str, Any] = {}
        for recording in recordings:
            if recording.temperature > 0:
                name = f"{recording.temperature:g}"
                rows = self.stages.get(f"laws-{name}", partial(self._law_rows, recording, readers))
                found[name] = {"rows": rows, "shared_noise": analysis.shared_noise(recording, laws.FS)}
        return found

    def _law_rows(self, recording: Recording, readers: list[Any]) -> list[list[float]]:
        texts = recording.texts[: max(1, self.settings.positions // 32)]
        longest = max(len(prompt) + len(output) for prompt, output in recording.texts)
        self.on_stage(f"laws at temperature {recording.temperature:g}", self.settings.positions)
        with torch.inference_mode():
            if not readers:
                readers += open_readers(self.plan, longest)
            sums = laws.measure(
                texts,
                *readers,
                temperature=recording.temperature,
                positions=self.settings.positions,
                on_rows=self.on_steps,
            )
        return [
            [c, fan_out, each.acceptance, each.hit_after_rejection, each.hit_after_all]
            for (c, fan_out), each in sums.items()
        ]

    # -- what follows -----------------------------------------------------------------------------------------------

    def _profile(
        self, times: dict[str, dict[int, float]], recordings: Sequence[Recording], found: Mapping[str, Any]
    ) -> Profile:
        settings, plan = self.settings, self.plan
        self.on_stage("hit rates and the best settings", len(recordings) + 1)
        details = []
        for recording in recordings:
            details.append(analysis.describe(recording, lookahead=settings.lookahead, candidates=settings.candidates))
            self.on_steps(1)
        rounds = analysis.pooled(recordings)
        calibration: Calibration = fit_calibration(rounds)[0]
        every = analysis.predicted(rounds, times, calibration, lookahead=settings.lookahead)
        best = analysis.best_settings(every)
        lookahead = next((each.lookahead for each in best if (each.mode, each.batch) == ("ssd", 1)), settings.lookahead)
        sampling = analysis.saguaro_sampling(
            {name: each["rows"] for name, each in found.items()}, times, lookahead=lookahead
        )
        assert plan.draft is not None
        return Profile(
            pair=pair(plan),
            devices=(plan.target.device.text, plan.draft.device.text),
            after_hit=analysis.plain_curves(curves.evidence_of(rounds)),
            after_miss=analysis.plain_curves(curves.evidence_without_proposal(rounds)),
            sharpness=calibration.sharpness,
            doubt=calibration.doubt,
            times=times,
            best=best,
            saguaro_c=sampling["c"],
            details={
                "lookahead": settings.lookahead,
                "by_lookahead": analysis.by_lookahead(rounds, analysis.DEEPEST),
                "temperatures": details,
                "laws": dict(found),
                "saguaro_sampling": sampling,
                "next_best": [each.__dict__ for each in _promising(every)],
            },
            machine=dict(self.facts.get("machine", {})),
            versions=dict(self.facts.get("versions", {})),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            prompts={
                "datasets": list(settings.datasets),
                "count": len(settings.prompts),
                "max_tokens": settings.max_tokens,
            },
        )

    # -- for real ---------------------------------------------------------------------------------------------------

    def _checked(self, profile: Profile, out: Path) -> Profile:
        """Run the most promising settings of one request; the best of each mode is what was fastest then."""
        trials = [Best(**each) for each in profile.details["next_best"]]
        rows = self.stages.get("check", lambda: self._check(trials, out))
        speeds = {Best(**setting): speed for setting, speed in rows}
        measured: dict[str, Best] = {}
        for each in sorted(speeds, key=lambda one: speeds[one]):
            measured[each.mode] = replace(each, tokens_per_second=speeds[each])
        best = tuple(measured[each.mode] if each.batch == 1 else each for each in profile.best)
        checked = [{**each.__dict__, "measured": speed} for each, speed in speeds.items()]
        return replace(profile, best=best, details={**profile.details, "checked": checked})

    def _check(self, trials: Sequence[Best], out: Path) -> list[Any]:
        """Tokens a second of each, one request at a time, settings taking turns."""
        prompts = self.settings.prompts[:CHECK_PROMPTS]
        self.on_stage("the best settings for real", CHECK_REPEATS * len(prompts) * len(trials))
        totals = {each: [0, 0.0] for each in trials}
        with ExitStack() as stack:
            engines = {
                mode: stack.enter_context(self.open_llm(**_real(self.settings.engine, mode, trials, out)))
                for mode in dict.fromkeys(each.mode for each in trials)
            }
            for _ in range(CHECK_REPEATS):
                for number, prompt in enumerate(prompts):
                    for each in trials:
                        llm = engines[each.mode]
                        if each.mode == "ssd":
                            llm.configure(lookahead=each.lookahead, budget=each.budget, fan_out=each.fan_out)
                        [done] = llm.generate([prompt], self._params(number))
                        totals[each][0] += len(done.token_ids) - 1
                        totals[each][1] += done.metrics.decode_seconds
                        self.on_steps(1)
        return [[each.__dict__, tokens / max(seconds, 1e-9)] for each, (tokens, seconds) in totals.items()]

    def _params(self, number: int) -> SamplingParams:
        settings = self.settings
        return SamplingParams(
            temperature=settings.temperatures[0],
            max_tokens=settings.max_tokens,
            seed=settings.seed + number,
            ignore_eos=True,
        )


def pair(plan: Plan) -> Pair:
    """The pair of a plan."""
    assert plan.draft is not None
    hub = Path(plan.hub_cache) if plan.hub_cache else None
    target = open_checkpoint(plan.target.source, hub_cache=hub)
    draft = open_checkpoint(plan.draft.source, hub_cache=hub, target=target)
    return pair_of(target, draft, dtype=plan.target.dtype, draft_dtype=plan.draft.dtype)


def key(settings: CalibrationSettings, plan: Plan) -> dict[str, Any]:
    """What decides the stages of a calibration."""
    assert plan.draft is not None
    own = {name: value for name, value in settings.__dict__.items() if name not in ("check", "datasets")}
    places = [[each.device.text, list(each.device.cores)] for each in (plan.target, plan.draft)]
    return {"schema": SCHEMA, "pair": pair(plan).__dict__, "places": places, **own, "engine": dict(settings.engine)}


def _promising(settings: Sequence[Best]) -> list[Best]:
    """For one request: AR, the best of SD, and the `TRIED` best of SSD with different lookahead or budget."""
    alone = [each for each in settings if each.batch == 1]
    found = [next(each for each in alone if each.mode == mode) for mode in ("ar", "sd")]
    seen: set[tuple[int, int]] = set()
    for each in alone:
        if each.mode == "ssd" and (each.lookahead, each.budget) not in seen and len(seen) < TRIED:
            seen.add((each.lookahead, each.budget))
            found.append(each)
    return found


def _real(engine: Mapping[str, Any], mode: str, trials: Sequence[Best], out: Path) -> dict[str, Any]:
    """Options of an engine for a mode as a user would run it."""
    options = {**engine, "mode": mode, "max_batch": 1, "prefix_cache": False}
    if mode == "ar":
        return {**options, "draft": None}
    first = next(each for each in trials if each.mode == mode)
    options |= {"profile": str(out), "lookahead": first.lookahead}
    return options | ({"budget": first.budget, "fan_out": first.fan_out} if mode == "ssd" else {})
