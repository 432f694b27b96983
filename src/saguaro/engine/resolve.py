"""From what the user asked to what this machine will run: one frozen plan, made before any weight is loaded.

Everything that can be refused is refused here, in one sentence: files, pairs of tokenizers, devices, sizes. Must not
know: channels, loops. Tests: tests/cli/test_bad_input.py, tests/engine/test_placement.py.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from saguaro.algorithm.fan_out import FAN_OUT
from saguaro.config import EngineConfig, FanOut, fan_out_lists, frozen_fan_out
from saguaro.device import Device, parse_device
from saguaro.drafting.drafters import DRAFTERS
from saguaro.engine.eagle3 import check_head, taps_of
from saguaro.engine.from_profile import open_profile
from saguaro.engine.placement import Spot, spots
from saguaro.engine.round_log import check_writable
from saguaro.engine.through_text import reads_text
from saguaro.errors import ConfigError
from saguaro.models.checkpoint import Checkpoint, open_checkpoint
from saguaro.models.config import ModelConfig
from saguaro.models.pairing import HEAD, pairing
from saguaro.profile import Best, Profile

DEFAULT_MAX_MODEL_LEN = 8192
KV_BYTES = 2 << 30
"""Default budget for keys and values of one model; fewer when the rows need fewer."""
DEFAULT_LOOKAHEAD, DEFAULT_BUDGET = 4, 8


@dataclass(frozen=True)
class Placement:
    """One model in one process: what is loaded, where, with how much room."""

    source: str
    dtype: str
    device: Device
    max_positions: int
    num_pages: int
    page_bytes: int

    def kv_summary(self, page_size: int) -> dict[str, int]:
        """Room for keys and values, as plain values."""
        tokens = self.num_pages * page_size
        return {"pages": self.num_pages, "tokens": tokens, "bytes": self.num_pages * self.page_bytes}


@dataclass(frozen=True)
class Plan:
    """What will run. `lookahead` and `budget` are None while they are still to be measured (`auto`).

    `gears` are what the engine may change to while it runs (none: `mode` is fixed), `why` says in a line why it runs
    so. `others` are plans of other placements that are to be tried before one is kept; `key` is what the choice is
    remembered by. `profile` is what a calibration found. `taps` are the layers of the target whose inputs an EAGLE-3
    draft reads, `tap_width` numbers for each token; `through_text` says that the draft has another tokenizer.
    """

    config: EngineConfig
    mode: str
    target: Placement
    draft: Placement | None
    vocab: int
    max_model_len: int
    lookahead: int | None
    budget: int | None
    fan_out: FanOut
    fallback: str
    cache_dir: str | None = None
    hub_cache: str | None = None
    gears: tuple[str, ...] = ()
    why: str = ""
    others: tuple[Plan, ...] = ()
    key: str = ""
    profile: Profile | None = None
    saguaro_c: float = 1.0
    taps: tuple[int, ...] = ()
    tap_width: int = 0
    through_text: bool = False

    @property
    def acceptance(self) -> tuple[float, ...]:
        """What is known of acceptance by position before anything has run."""
        return () if self.profile is None else self.profile.after_hit.acceptance

    def summary(self) -> dict[str, Any]:
        """The plan as plain values, for people and records."""
        return {
            "mode": self.mode,
            "gears": list(self.gears),
            "why": self.why,
            "target": self.target.source,
            "draft": self.draft.source if self.draft else None,
            "target_device": self.target.device.text,
            "draft_device": self.draft.device.text if self.draft else None,
            "dtype": self.target.dtype,
            "draft_dtype": self.draft.dtype if self.draft else None,
            "lookahead": self.lookahead,
            "budget": self.budget,
            "fan_out": self.fan_out if isinstance(self.fan_out, str) else [*self.fan_out],
            "fallback": self.fallback,
            "tree": self.config.tree,
            "verification": self.config.verification,
            "pacing": self.config.pacing,
            "max_batch": self.config.max_batch,
            "max_model_len": self.max_model_len,
            "kv": self.target.kv_summary(self.config.page_size),
            "draft_kv": self.draft.kv_summary(self.config.page_size) if self.draft else None,
        }


def resolve(config: EngineConfig, *, cache_dir: str | None = None, hub_cache: str | None = None) -> Plan:
    """Check a configuration against files and machine. What a profile says holds where the user said `auto`.

    Raises:
        ConfigError: when something cannot work, naming it.
        WeightsError: when a source is no model that can be read.
    """
    if config.round_log is not None:
        check_writable(config.round_log)
    DRAFTERS.check(config.drafter)
    if config.fan_out != "auto":
        check_fan_out(config.fan_out)
    hub = Path(hub_cache) if hub_cache else None
    target = open_checkpoint(config.target, hub_cache=hub)
    _check_target(target)
    dtype = _dtype(config.dtype, config.target)
    draft, through_text = None, False
    if config.draft is not None and config.mode != "ar":
        draft = open_checkpoint(config.draft, hub_cache=hub, target=target)
        relation = pairing(target, draft)
        if relation.kind == HEAD:
            check_head(draft, target)
        through_text = reads_text(config, relation, draft)

    draft_dtype = _draft_dtype(config.draft_dtype, dtype, draft)

    def models() -> list[str]:
        assert draft is not None
        return [target.fingerprint, dtype, draft.fingerprint, draft_dtype]

    profile = open_profile(config.profile, target, draft, dtype=dtype, draft_dtype=draft_dtype)
    found, key = spots(config, models=models, folder=cache_dir)
    plans = [_plan(config, spot, target, draft, dtype, profile) for spot in found]
    more = {} if draft is None else taps_of(config, draft.config, target.config) | {"through_text": through_text}
    plans = [replace(plan, cache_dir=cache_dir, hub_cache=hub_cache, key=key, **more) for plan in plans]
    return replace(plans[0], others=tuple(plans[1:]))


def _check_target(target: Checkpoint) -> None:
    if target.config.eagle3 is not None:
        raise ConfigError(f"{target.source!r} is an EAGLE-3 head; it can only be a draft, given with --draft.")
    if target.config.draft_vocab is not None:
        raise ConfigError(
            f"{target.source!r} has a vocabulary of {target.config.draft_vocab} tokens of its own; "
            "it can only be a draft, given with --draft."
        )


def _plan(
    config: EngineConfig, spot: Spot, target: Checkpoint, draft: Checkpoint | None, dtype: str, profile: Profile | None
) -> Plan:
    """The plan of one placement."""
    mode, target_device = spot.mode, parse_device(spot.target_device)
    max_model_len = _max_model_len(config, target.config)
    target_place = _place(config, config.target, target.config, dtype, target_device, max_model_len)
    draft_place = None
    if mode != "ar":
        assert draft is not None
        assert config.draft is not None
        draft_device = parse_device(spot.draft_device)
        draft_dtype = _draft_dtype(config.draft_dtype, dtype, draft)
        length = min(max_model_len, draft.config.max_position)
        extra = (config.budget if isinstance(config.budget, int) else 16) * 16
        draft_place = _place(
            config, config.draft, draft.config, draft_dtype, draft_device, length, extra=extra, draft=True
        )
    best = None if profile is None else profile.best_of(mode)
    fan_out = _fan_out(config, best)
    return Plan(
        config=config,
        mode=mode,
        target=target_place,
        draft=draft_place,
        vocab=target.config.vocab,
        max_model_len=max_model_len,
        lookahead=0 if mode == "ar" else _number(config.lookahead, fan_out, best),
        budget=_budget(config, mode, fan_out, best),
        fan_out=fan_out if mode == "ssd" else "none",
        fallback=_fallback(config.fallback, mode),
        gears=spot.gears if config.lookahead != 0 else (),
        why=spot.why,
        profile=profile,
        saguaro_c=_saguaro_c(config, profile),
    )


def check_fan_out(value: Any) -> FanOut:
    """A fan-out that can run.

    Raises:
        ConfigError: for a policy that is not known, or counts that make no sense.
    """
    fan_out = frozen_fan_out(value)
    if isinstance(fan_out, str):
        if fan_out == "listed":
            raise ConfigError("fan_out 'listed' needs its list; give fan_out=[F_0, ..., F_K] instead of the name.")
        FAN_OUT.get(fan_out)
    return fan_out


def _fan_out(config: EngineConfig, best: Best | None) -> FanOut:
    if config.fan_out != "auto":
        return config.fan_out
    return EngineConfig.fan_out if best is None else check_fan_out(best.fan_out)


def _saguaro_c(config: EngineConfig, profile: Profile | None) -> float:
    if isinstance(config.saguaro_c, (int, float)):
        return config.saguaro_c
    return profile.saguaro_c if profile is not None and config.verification == "rejection" else 1.0


def _number(lookahead: int | str, fan_out: FanOut, best: Best | None) -> int | None:
    if lists := fan_out_lists(fan_out):
        return len(lists[0]) - 1
    if isinstance(lookahead, int):
        return lookahead
    return None if best is None else best.lookahead


def _fallback(fallback: str, mode: str) -> str:
    if mode == "sd":
        return "neural"
    return "adaptive" if fallback == "auto" else fallback


def _budget(config: EngineConfig, mode: str, fan_out: FanOut, best: Best | None) -> int | None:
    if mode != "ssd":
        return 0
    if lists := fan_out_lists(fan_out):
        return max(map(sum, lists))
    if isinstance(config.budget, int):
        return config.budget
    return None if best is None else best.budget


def _max_model_len(config: EngineConfig, model: ModelConfig) -> int:
    if config.max_model_len is None:
        return min(model.max_position, DEFAULT_MAX_MODEL_LEN)
    if config.max_model_len > model.max_position:
        raise ConfigError(
            f"max_model_len {config.max_model_len} is above what the target was made for ({model.max_position} tokens)."
        )
    return config.max_model_len


def _dtype(dtype: str, source: str) -> str:
    """`auto`: int8 for real models (the fastest here), float32 for toys, where exactness is looked at."""
    if dtype != "auto":
        return dtype
    return "float32" if source.startswith("toy:") else "int8"


def _draft_dtype(draft_dtype: str, dtype: str, draft: Checkpoint | None) -> str:
    """`auto`: half the bytes of an int8 target's draft; a little acceptance for much less time a step. A draft that is
    stored as int8 is small, and would lose much acceptance for little time.
    """
    if draft_dtype != "auto":
        return draft_dtype
    return "int4" if dtype == "int8" and not (draft is not None and draft.is_int8) else dtype


def _place(
    config: EngineConfig,
    source: str,
    model: ModelConfig,
    dtype: str,
    device: Device,
    length: int,
    *,
    extra: int = 0,
    draft: bool = False,
) -> Placement:
    """Pages for all rows at full length, or as many as the byte budget allows, and never fewer than one full row."""
    size = config.page_size
    pages_a_row = -(-(length + extra) // size) + 1
    page_bytes = max(1, model.kv_bytes_per_token(4 if dtype == "float32" else 2) * size)
    budget = config.kv_memory if isinstance(config.kv_memory, int) else KV_BYTES
    fixed = config.draft_kv_pages if draft else config.kv_pages
    if fixed is not None:
        pages = fixed
    elif config.kv_memory is not None:
        pages = budget // page_bytes
    else:
        pages = max(pages_a_row, min(pages_a_row * config.max_batch, budget // page_bytes))
    if pages < 1:
        raise ConfigError(f"kv_memory of {budget} bytes holds no page of {page_bytes} bytes; raise it.")
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if pages * page_bytes > free:
        raise ConfigError(
            f"keys and values need {pages * page_bytes >> 20} MiB, {free >> 20} MiB are free; lower kv_memory or "
            f"max_model_len."
        )
    return Placement(source, dtype, device, length, pages, page_bytes)


def with_measured(plan: Plan, lookahead: int, budget: int) -> Plan:
    """The plan with what was `auto` filled in."""
    return replace(
        plan,
        lookahead=lookahead if plan.lookahead is None else plan.lookahead,
        budget=budget if plan.budget is None else plan.budget,
    )
