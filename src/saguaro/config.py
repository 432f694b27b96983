"""What the user asked of an engine: one frozen value, checked once, before anything is loaded.

What the machine allows is computed later (`engine/resolve.py`) and printed; nothing here is ever changed.
Must not know: torch, devices that exist, model files. Tests: tests/ground/test_config.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from os import PathLike
from typing import Any

from saguaro.errors import ConfigError
from saguaro.registry import nearest

MODES = ("auto", "ar", "sd", "ssd")
DTYPES = ("auto", "float32", "bfloat16", "int8")
VERIFICATIONS = ("shared_noise", "rejection")
PACINGS = ("free", "lockstep")
CHANNELS = ("processes", "loopback")
FALLBACKS = ("adaptive", "auto", "none", "random", "ngram", "own_row", "neural")
MAX_LOOKAHEAD = 16
MAX_BUDGET = 64
MAX_TREE = 32
MAX_CORPUS = 1 << 24
MAX_OBSERVED = 64
OPTIONAL = (
    ("max_model_len", 2, 1 << 20),
    ("max_waiting", 1, 1 << 20),
    ("kv_pages", 1, 1 << 24),
    ("draft_kv_pages", 1, 1 << 24),
)
"""Whole numbers that may be left out, with their ranges."""
NO_TREES = "proposal trees run in modes 'sd' and 'ssd'; leave tree out, or name one of these modes."
TREE_MODES = ("sd", "ssd")
UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "kb": 10**3, "mb": 10**6, "gb": 10**9}


FanOut = str | tuple[int, ...] | tuple[tuple[int, ...], tuple[int, ...]]
"""A policy by name, the counts F_0 ... F_K, or two such lists: for rounds after a hit and for rounds after a miss."""


@dataclass(frozen=True)
class EngineConfig:
    """Options of an engine; names and meanings are those of DESIGN section 5.

    Args:
        target: a directory, a .gguf file, a hub id or `toy:...`.
        draft: the same, or None for autoregressive decoding.
        mode: `auto` tries which placement is faster where no device is named, and changes between AR, SD and SSD while
            it runs, as it pays; without a draft it is `ar`.
        lookahead: K, tokens of a proposal, or `auto` (from step times measured at start, or the profile's;
            planned anew while it runs).
        budget: B, branches of a round, or `auto`.
        fan_out: a policy by name, or the list [F_0, ..., F_K], or two such lists: for rounds after a hit and after a
            miss; `auto` is what the profile found best, and `ranked` without one.
        verification: `shared_noise` or `rejection`.
        tree: proposals are trees of at most so many nodes and `lookahead` levels instead of chains (modes `sd` and
            `ssd`; in `ssd` chains with siblings, where the chain may be longer than that); with `auto` as many nodes
            and levels as pay by measured times, down to a chain. 0 makes chains. A request with a grammar gets chains
            in any case. Under `rejection` the nodes that `sd` grows, and siblings, are likely tokens of the draft, not
            drawn ones.
        saguaro_c: C of Saguaro sampling (Section 4.2), for `rejection` only; None takes the profile's and is 1 (off)
            without one, `auto` needs a profile.
        fallback: answer to a miss: `none`, `random`, `ngram`, `own_row`, `neural`, or `adaptive` (also `auto`), which
            chooses among all but `random` by running estimates. SD drafts in any case.
        fallback_corpus: so many tokens of earlier outputs are kept for `ngram` to look up; 0 keeps none. It changes
            the speed, never the text.
        pacing: `lockstep` makes the target wait until all branches are full (experiments and tests).
        target_device, draft_device: `cpu:0`, `cpu:0-1` or `auto`.
        dtype: `float32`, `bfloat16`, `int8` or `auto`.
        draft_dtype: the same or `int4`; `auto` is `int4` beside an int8 target, and `int8` for a draft that is
            stored so (it changes the speed, never the text).
        max_batch: rows that run at once.
        max_model_len: prompt and output together, in tokens; None takes the model's own, at most 8,192.
        profile: file that `saguaro calibrate` wrote for this pair: what the draft expects at first, and the values of
            lookahead, budget, fan_out and saguaro_c where those are `auto`.
        observe: candidates of each position that the draft keeps of every round, for a calibration; 0 keeps nothing.
        drafter: member of the drafter table, or a dotted path.
        drafter_options: passed to the drafter.
        page_size: slots of a page.
        prefill_chunk: tokens of prompts that run in one step.
        mixed_chunk: the same beside rows that decode; `auto` keeps such a step below twice its usual time.
        max_step_tokens: tokens of all rows in one step, proposals included.
        max_waiting: requests that may wait for a row; further ones are refused. None is no limit.
        kv_memory: bytes for the keys and values of each model, or a text such as `2GiB`; None takes what `max_batch`
            rows of full length need, at most 2 GiB.
        kv_pages, draft_kv_pages: pages of the target and of the draft, instead of `kv_memory`.
        prefix_cache: keep keys and values of what ran, for prompts that begin alike.
        restart_draft: start a new draft process when one dies.
        channel: `processes`, or `loopback` (everything in the calling process: tests, debugging).
        round_log: a file that gets a JSON line for every round of every request; what is in it already stays.
        trace: keep what both processes do and when, for `LLM.trace` (`saguaro trace`).

    Raises:
        ConfigError: for an unknown option (with the nearest name) or a value out of its range.
    """

    target: str
    draft: str | None = None
    mode: str = "auto"
    lookahead: int | str = "auto"
    budget: int | str = "auto"
    fan_out: FanOut = "ranked"
    tree: int | str = 0
    verification: str = "shared_noise"
    saguaro_c: float | str | None = None
    fallback: str = "adaptive"
    fallback_corpus: int = 0
    pacing: str = "free"
    target_device: str = "auto"
    draft_device: str = "auto"
    dtype: str = "auto"
    draft_dtype: str = "auto"
    max_batch: int = 8
    max_model_len: int | None = None
    profile: str | None = None
    observe: int = 0
    drafter: str = "lm"
    drafter_options: tuple[tuple[str, Any], ...] = ()
    page_size: int = 64
    prefill_chunk: int = 128
    mixed_chunk: int | str = "auto"
    max_step_tokens: int = 512
    max_waiting: int | None = None
    kv_memory: int | str | None = None
    kv_pages: int | None = None
    draft_kv_pages: int | None = None
    prefix_cache: bool = True
    restart_draft: bool = True
    channel: str = "processes"
    round_log: str | None = None
    trace: bool = False

    @classmethod
    def from_options(cls, target: str, draft: str | None = None, **options: Any) -> EngineConfig:
        """Build from keyword options, refusing unknown names with the nearest known one."""
        known = [f.name for f in fields(cls)]
        for name in options:
            if name not in known:
                raise ConfigError(f"unknown option {name!r}{nearest(name, known) or '.'}")
        return cls(target=str(target), draft=None if draft is None else str(draft), **options)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fan_out", frozen_fan_out(self.fan_out))
        if isinstance(self.drafter_options, dict):
            object.__setattr__(self, "drafter_options", tuple(sorted(self.drafter_options.items())))
        for option, built in (("fallback", FALLBACKS), ("mode", MODES), ("dtype", DTYPES)):
            self._one_of(option, built)
        self._one_of("draft_dtype", (*DTYPES, "int4"))
        self._one_of("verification", VERIFICATIONS)
        self._one_of("pacing", PACINGS)
        self._one_of("channel", CHANNELS)
        self._whole("lookahead", 0, MAX_LOOKAHEAD, auto=True)
        self._whole("budget", 0, MAX_BUDGET, auto=True)
        self._whole("tree", 0, MAX_TREE, auto=True)
        self._whole("fallback_corpus", 0, MAX_CORPUS)
        self._whole("observe", 0, MAX_OBSERVED)
        self._whole("max_batch", 1, 1024)
        self._whole("page_size", 1, 1024)
        self._whole("prefill_chunk", 1, 4096)
        self._whole("mixed_chunk", 1, 4096, auto=True)
        self._whole("max_step_tokens", 1, 1 << 16)
        for option, low, high in OPTIONAL:
            if getattr(self, option) is not None:
                self._whole(option, low, high)
        for option in ("prefix_cache", "trace"):
            if not isinstance(getattr(self, option), bool):
                raise ConfigError(f"{option} must be true or false, not {getattr(self, option)!r}.")
        if self.round_log is not None:
            if not isinstance(self.round_log, (str, PathLike)) or not str(self.round_log):
                raise ConfigError(f"round_log must name a file, not {self.round_log!r}.")
            object.__setattr__(self, "round_log", str(self.round_log))
        if self.kv_memory is not None:
            object.__setattr__(self, "kv_memory", parse_bytes("kv_memory", self.kv_memory))
        if self.profile is not None:
            object.__setattr__(self, "profile", str(self.profile))
        self._check_pairs()

    def _check_pairs(self) -> None:
        if self.max_step_tokens < self.max_batch:
            raise ConfigError(
                f"max_step_tokens {self.max_step_tokens} is below max_batch {self.max_batch}: each row needs one token."
            )
        if self.mode in ("sd", "ssd") and self.draft is None:
            raise ConfigError(f"mode {self.mode!r} needs a draft model; give draft=..., or use mode='ar'.")
        if self.tree and self.mode not in TREE_MODES:
            raise ConfigError(NO_TREES)
        if self.saguaro_c is not None:
            if self.verification != "rejection":
                raise ConfigError("saguaro_c applies to verification='rejection' only; leave it out or change that.")
            self._check_c(self.saguaro_c)
        lists = fan_out_lists(self.fan_out)
        if lists:
            budget = max(map(sum, lists))
            if isinstance(self.lookahead, int) and len(lists[0]) != self.lookahead + 1:
                raise ConfigError(f"fan_out lists {len(lists[0])} values; lookahead {self.lookahead} needs K + 1.")
            if isinstance(self.budget, int) and self.budget != budget:
                raise ConfigError(f"budget {self.budget} differs from the sum {budget} of the fan_out list.")

    def _check_c(self, value: object) -> None:
        if value == "auto":
            if self.profile is None:
                raise ConfigError("saguaro_c 'auto' needs a profile; give profile=FILE, or a number in 0 ... 1.")
        elif isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise ConfigError(f"saguaro_c must be in 0 ... 1 or 'auto', not {value!r}.")

    def _one_of(self, option: str, allowed: tuple[str, ...]) -> None:
        value = getattr(self, option)
        if value not in allowed:
            hint = nearest(str(value), allowed) or "."
            raise ConfigError(f"{option} must be one of {', '.join(allowed)}, not {value!r}{hint}")

    def _whole(self, option: str, low: int, high: int, *, auto: bool = False) -> None:
        value = getattr(self, option)
        if auto and value == "auto":
            return
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            also = " or 'auto'" if auto else ""
            raise ConfigError(f"{option} must be a whole number in {low} ... {high}{also}, not {value!r}.")


def frozen_fan_out(value: Any) -> FanOut:
    """A fan-out as it is kept: names as they are, lists as tuples.

    Raises:
        ConfigError: when it is neither a name, nor one or two lists of counts.
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, (list, tuple)) or not value:
        raise ConfigError("fan_out is a policy by name, the list F_0 ... F_K, or two such lists.")
    nested = all(isinstance(each, (list, tuple)) for each in value)
    lists = [tuple(each) for each in value] if nested else [tuple(value)]
    if any(isinstance(f, bool) or not isinstance(f, int) or f < 0 for each in lists for f in each) or not lists[0]:
        raise ConfigError("fan_out as a list holds whole numbers F_0 ... F_K, each 0 or more.")
    if nested and (len(lists) != 2 or len(lists[0]) != len(lists[1])):
        raise ConfigError("fan_out as two lists has K + 1 counts after a hit and as many after a miss.")
    for each in lists:
        check_sizes(len(each) - 1, sum(each))
    return (lists[0], lists[1]) if nested else lists[0]


def fan_out_lists(fan_out: FanOut) -> list[tuple[int, ...]]:
    """The lists of a fan-out given by hand: one, or one after hits and one after misses; none for a policy by name."""
    if isinstance(fan_out, str):
        return []
    lists = [each for each in fan_out if isinstance(each, tuple)]
    return lists or [tuple(each for each in fan_out if isinstance(each, int))]


def check_sizes(lookahead: object, budget: object) -> None:
    """Refuse a lookahead or a budget out of range; None is not looked at.

    Raises:
        ConfigError: naming the option and its range.
    """
    for option, value, high in (("lookahead", lookahead, MAX_LOOKAHEAD), ("budget", budget, MAX_BUDGET)):
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= high:
            raise ConfigError(f"{option} must be a whole number in 0 ... {high}, not {value!r}.")


def check_changes(changes: Mapping[str, Any], *, rejection: bool) -> None:
    """Refuse values with which an engine cannot go on; sizes and tables are looked at elsewhere.

    Raises:
        ConfigError: naming the option.
    """
    for option in ("lookahead", "budget"):
        if changes.get(option, 0) is None:
            raise ConfigError(f"{option} must be a whole number or 'auto', not None.")
    tree = changes.get("tree", 0)
    if tree != "auto" and (isinstance(tree, bool) or not isinstance(tree, int) or not 0 <= tree <= MAX_TREE):
        raise ConfigError(f"tree must be a whole number in 0 ... {MAX_TREE} or 'auto', not {tree!r}.")
    pacing, c, adapt = (
        changes.get("pacing", PACINGS[0]),
        changes.get("saguaro_c", 1.0),
        changes.get("adapt_depth", True),
    )
    if pacing not in PACINGS:
        raise ConfigError(f"pacing must be one of {', '.join(PACINGS)}, not {pacing!r}{nearest(str(pacing), PACINGS)}.")
    if isinstance(c, bool) or not isinstance(c, (int, float)) or not 0 <= c <= 1:
        raise ConfigError(f"saguaro_c must be a number in 0 ... 1 while an engine runs, not {c!r}.")
    if c != 1 and not rejection:
        raise ConfigError("saguaro_c applies to verification='rejection' only; leave it out or change that.")
    if not isinstance(adapt, bool):
        raise ConfigError(f"adapt_depth must be true or false, not {adapt!r}.")


def parse_bytes(option: str, value: object) -> int:
    """Bytes of a number or of a text such as `512MiB` or `1.5 GB`.

    Raises:
        ConfigError: when it is neither.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(value).lower())
    if isinstance(value, bool) or match is None or match[2] not in UNITS:
        raise ConfigError(f"{option} must be a number of bytes or a text such as '2GiB', not {value!r}.")
    size = int(float(match[1]) * UNITS[match[2]])
    if size < 1:
        raise ConfigError(f"{option} must be above 0.")
    return size
