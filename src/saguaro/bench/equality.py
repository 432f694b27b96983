"""The exactness check of a benchmark: the same request has the same tokens in every mode, batch, rate and repeat.

Pure. Tests: tests/bench/test_equality.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class _Reference(NamedTuple):
    """The tokens of one request as a run first had them; `fixed` where they are a function of the seed alone."""

    run: str
    fixed: bool
    token_ids: list[int]


class Comparison:
    """Compares each run with the first that answered the same requests at the same temperature.

    Requests are known by their number, so runs of different length are compared over those that both have. Outputs
    must agree where both runs' tokens are functions of the seed alone, on the same target device: greedy,
    autoregressive or verified by shared noise. `entries` has one entry a run after the first of its temperature.
    """

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self._first: dict[float, list[_Reference]] = {}

    def add(self, name: str, run: Mapping[str, Any], token_ids: Sequence[Sequence[int]]) -> None:
        """Compare a run; `token_ids` are those of its requests, in order of their numbers from 0."""
        fixed = not run["equal_hardware"] and (
            run["temperature"] == 0 or run["mode"] == "ar" or run["verification"] in (None, "shared_noise")
        )
        known = self._first.setdefault(run["temperature"], [])
        if known:
            self._compare(name, known, fixed, token_ids, run["temperature"])
        for number, ids in enumerate(token_ids):
            reference = _Reference(name, fixed, list(ids))
            if number == len(known):
                known.append(reference)
            elif fixed and not known[number].fixed:
                known[number] = reference

    def _compare(
        self, name: str, known: list[_Reference], fixed: bool, ids: Sequence[Sequence[int]], temperature: float
    ) -> None:
        count = min(len(known), len(ids))
        difference = first_difference([known[i].token_ids for i in range(count)], ids[:count])
        reference = known[difference["prompt"] if difference else 0]
        self.entries.append(
            {
                "temperature": temperature,
                "of": name,
                "with": reference.run,
                "requests": count,
                "equal": difference is None,
                "expected": fixed and reference.fixed,
                "first_difference": difference,
            }
        )


def equal_everywhere(record: Mapping[str, Any]) -> bool:
    """Whether every comparison that must agree did agree."""
    return all(entry["equal"] for entry in record["token_equality"] if entry["expected"])


def first_difference(one: Sequence[Sequence[int]], other: Sequence[Sequence[int]]) -> dict[str, int] | None:
    """Prompt (request) and position of the first token that differs; None when there is none."""
    for prompt, (a, b) in enumerate(zip(one, other, strict=True)):
        if list(a) != list(b):
            same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            return {"prompt": prompt, "position": same}
    return None


def token_ids_sha256(token_ids: Sequence[Sequence[int]]) -> str:
    """SHA-256 of the compact JSON of the id lists."""
    return hashlib.sha256(json.dumps([list(ids) for ids in token_ids], separators=(",", ":")).encode()).hexdigest()
