"""A JSON line for each round of each request, written by the parent as the reports come in.

A line says which outcome was looked up, what that gave, and how the proposal fared; docs/metrics.md defines the fields.
The same record, with the tokens of the round, can come with the answer of a request (`choices.py`).
Must not know: engines, how a round runs. Tests: tests/engine/test_round_log.py.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saguaro.errors import ConfigError

if TYPE_CHECKING:
    from saguaro.engine.sequence import RoundReport

log = logging.getLogger(__name__)
KINDS = ("depth", "pending", "handover")


def check_writable(path: str) -> None:
    """Refuse a file that lines cannot be added to; nothing is made yet.

    Raises:
        ConfigError: naming the file and what is wrong.
    """
    file = Path(path)
    if file.is_dir():
        raise ConfigError(f"round_log {path} is a folder; name a file.")
    if not file.parent.is_dir():
        raise ConfigError(f"the folder of round_log {path} does not exist; make it first.")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise ConfigError(f"round_log {path} cannot be written; name another file.")


class RoundLog:
    """Adds lines to a file, each flushed at once. A disk that is full ends the log, never a request.

    Args:
        path: the file; lines of earlier runs stay.
        engine: what each line calls the engine, so that several may share a file.

    Raises:
        ConfigError: when the file cannot be opened.
    """

    def __init__(self, path: str, engine: str) -> None:
        check_writable(path)
        self._engine = engine
        try:
            self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115  # closed by `close`
        except OSError as error:
            raise ConfigError(f"round_log {path} cannot be written: {error.strerror}.") from None

    def write(self, request: int, index: int, report: RoundReport, *, looks_up: bool) -> None:
        """One round."""
        if self._file.closed:
            return
        line = json.dumps({"engine": self._engine, **fields_of(request, index, report, looks_up=looks_up)})
        try:
            self._file.write(line + "\n")
            self._file.flush()
        except OSError as error:
            log.warning("the round log ends here: %s.", error.strerror)
            self.close()

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):  # what was not written is lost, and was warned of
            self._file.close()


def fields_of(request: int, index: int, report: RoundReport, *, looks_up: bool) -> dict[str, Any]:
    """The fields of a line. `looks_up`: the round looked a cache up (SSD)."""
    return {"request": request, "index": index, **round_fields(report, looks_up=looks_up)}


def round_fields(report: RoundReport, *, looks_up: bool) -> dict[str, Any]:
    """What a round did, whoever it belongs to."""
    lookup = report.lookup
    hit = report.source == "hit"
    return {
        "round": report.round,
        "k": lookup.accepted,
        "bonus": lookup.bonus,
        "source": report.source,
        "hit": hit if looks_up else None,
        "reason": lookup.reason if looks_up and not hit else None,
        "proposed": report.proposed,
        "accepted": report.accepted,
        "depth": report.depth if hit else 0,
        "branches": lookup.branches,
        "wait_ms": {kind: 1000 * seconds for kind, seconds in zip(KINDS, report.waits, strict=True)},
        "verify_ms": 1000 * report.verify_seconds,
        "rows": report.rows,
        "time": report.time,
    }
