"""What a calibration found for a pair of models: one file that `profile=` takes (`saguaro calibrate` writes it).

A profile belongs to one pair of model files and their dtypes; for another pair, and in another version of this form,
it is refused. Numbers are plain values here; the engine makes what it needs of them. Must not know: theory, engines.
Tests: tests/ground/test_profile.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from saguaro.errors import ConfigError

SCHEMA = 1
PROFILE = "saguaro profile"


@dataclass(frozen=True)
class Pair:
    """Which models, and how their weights are kept. A print changes when a model's files do."""

    target: str
    draft: str
    target_print: str
    draft_print: str
    dtype: str
    draft_dtype: str


@dataclass(frozen=True)
class Curves:
    """Rounds of one kind, as `theory.evidence.Evidence` has them."""

    rate: float
    acceptance: tuple[float, ...]
    after_rejection: tuple[float, ...]
    after_all: tuple[float, ...]


@dataclass(frozen=True)
class Best:
    """Settings that were found best for so many requests at once, and the speed (of all) that they promise."""

    mode: str
    batch: int
    lookahead: int
    budget: int
    fan_out: str
    fallback: str
    tokens_per_second: float


@dataclass(frozen=True)
class Profile:
    """A calibration.

    Args:
        pair: whose it is.
        devices: device strings of target and draft that were measured.
        after_hit: rounds whose proposal the draft drew, as a branch or as neural fallback (their law is the same).
        after_miss: rounds whose proposal was random, or nothing.
        sharpness, doubt: how the draft's scores become odds (`algorithm.odds.Calibration`).
        times: seconds by rows, as `Engine.measure_times` names them.
        best: settings by mode and batch, the fastest of each.
        saguaro_c: C of Saguaro sampling that promises the most under `rejection`; 1 is off.
        details: what the report shows beyond that.
        machine, versions, created, prompts: where it comes from.
    """

    pair: Pair
    devices: tuple[str, str]
    after_hit: Curves
    after_miss: Curves
    sharpness: float
    doubt: float
    times: dict[str, dict[int, float]]
    best: tuple[Best, ...]
    saguaro_c: float = 1.0
    details: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)
    created: str = ""
    prompts: dict[str, Any] = field(default_factory=dict)

    @property
    def by_lookahead(self) -> dict[int, Curves]:
        """`after_hit` for proposals of each length; empty in files of earlier versions."""
        return {int(lookahead): _curves(each) for lookahead, each in self.details.get("by_lookahead", {}).items()}

    def best_of(self, mode: str, batch: int = 1) -> Best | None:
        """The best settings of a mode for the nearest batch that was looked at; None when the mode was not."""
        own = [each for each in self.best if each.mode == mode]
        return min(own, key=lambda each: (abs(each.batch - batch), each.batch), default=None)

    def check(self, pair: Pair, path: str) -> None:
        """Refuse another pair.

        Raises:
            ConfigError: naming what differs.
        """
        for name in ("target", "draft"):
            mine, theirs = getattr(self.pair, f"{name}_print"), getattr(pair, f"{name}_print")
            if mine != theirs:
                raise ConfigError(
                    f"profile {path} was made for the {name} {getattr(self.pair, name)!r}, and this {name} is another "
                    "one or has changed; run `saguaro calibrate` for this pair."
                )
        for name in ("dtype", "draft_dtype"):
            mine, theirs = getattr(self.pair, name), getattr(pair, name)
            if mine != theirs:
                raise ConfigError(
                    f"profile {path} was made for {name} {mine}, not {theirs}; run `saguaro calibrate` for it."
                )


def save(profile: Profile, path: Path) -> None:
    """Write a profile; a reader sees the old file or the whole new one."""
    staging = path.with_name(path.name + ".writing")
    values = {"form": PROFILE, "schema": SCHEMA, **asdict(profile)}
    staging.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    staging.replace(path)


def load(path: str | Path) -> Profile:
    """A profile from its file.

    Raises:
        ConfigError: when the file is missing, is no profile, is damaged, or has another version of the form.
    """
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"profile {path} does not exist; `saguaro calibrate --out {path}` writes one.") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"profile {path} cannot be read: {error}.") from None
    if not isinstance(values, dict) or values.get("form") != PROFILE:
        raise ConfigError(f"{path} is not a profile; `saguaro calibrate` writes one.")
    if values.get("schema") != SCHEMA:
        raise ConfigError(
            f"profile {path} has version {values.get('schema')} of its form, and this program reads version {SCHEMA}; "
            "run `saguaro calibrate` again."
        )
    try:
        return _profile(values)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"profile {path} is damaged ({error}); run `saguaro calibrate` again.") from None


def _profile(values: Mapping[str, Any]) -> Profile:
    given = {each.name: values[each.name] for each in fields(Profile)}
    given["pair"] = Pair(**given["pair"])
    given["devices"] = (str(given["devices"][0]), str(given["devices"][1]))
    given |= {name: _curves(given[name]) for name in ("after_hit", "after_miss")}
    given |= {name: float(given[name]) for name in ("sharpness", "doubt", "saguaro_c")}
    given["times"] = {
        name: {int(rows): float(seconds) for rows, seconds in each.items()} for name, each in given["times"].items()
    }
    given["best"] = tuple(Best(**each) for each in given["best"])
    return Profile(**given)


def _curves(values: Mapping[str, Any]) -> Curves:
    def numbers(name: str) -> tuple[float, ...]:
        each: Sequence[float] = values[name]
        found = tuple(map(float, each))
        if any(not 0 <= value <= 1 for value in found):
            raise ValueError(f"{name} holds a number that is no probability")
        return found

    return Curves(float(values["rate"]), numbers("acceptance"), numbers("after_rejection"), numbers("after_all"))
