"""What an engine takes from a calibration: settings that were left open, and what the draft expects at first.

Must not know: channels, loops, how a profile is made. Tests: tests/engine/test_from_profile.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from saguaro.algorithm.odds import UNCALIBRATED, Calibration
from saguaro.models.checkpoint import Checkpoint
from saguaro.profile import Curves, Pair, Profile, load
from saguaro.theory.evidence import Evidence, RunningEvidence

EMPTY_HANDED = ("none", "random")
"""Fallbacks after which the profile's `after_miss` holds; the others propose what the draft itself might."""


def short_name(source: str) -> str:
    """A model without the folders of this machine: the last part of a path; hub ids and toys as they are."""
    if source.startswith("toy:") or not source.startswith(("/", ".", "~")):
        return source
    return Path(source).name


def pair_of(target: Checkpoint, draft: Checkpoint, *, dtype: str, draft_dtype: str) -> Pair:
    """The pair that a profile is made for, or asked about."""
    names = (short_name(target.source), short_name(draft.source))
    return Pair(*names, target.fingerprint, draft.fingerprint, dtype, draft_dtype)


def open_profile(
    path: str | None, target: Checkpoint, draft: Checkpoint | None, *, dtype: str, draft_dtype: str
) -> Profile | None:
    """The profile that a configuration names, made sure to be of this pair; without a draft, of this target.

    Raises:
        ConfigError: when it cannot be read, or belongs to another pair.
    """
    if path is None:
        return None
    profile = load(path)
    own = pair_of(target, draft or target, dtype=dtype, draft_dtype=draft_dtype)
    if draft is None:
        theirs = profile.pair
        own = replace(own, draft=theirs.draft, draft_print=theirs.draft_print, draft_dtype=theirs.draft_dtype)
    profile.check(own, path)
    return profile


def running_evidence(profile: Profile | None, fallback: str) -> RunningEvidence:
    """What the draft expects of rounds until it has seen some."""
    if profile is None:
        return RunningEvidence()
    after_miss = profile.after_miss if fallback in EMPTY_HANDED else profile.after_hit
    return RunningEvidence(evidence(profile.after_hit), evidence(after_miss))


def evidence(curves: Curves) -> Evidence:
    """Curves of a profile as policies take them."""
    return Evidence(curves.rate, curves.acceptance, curves.after_rejection, curves.after_all)


def calibration(profile: Profile | None) -> Calibration:
    """How scores become odds."""
    return UNCALIBRATED if profile is None else Calibration(profile.sharpness, profile.doubt)
