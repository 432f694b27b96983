"""Stages that were done, kept in files, so that a calibration that was stopped goes on where it was.

A folder belongs to one calibration: its key is everything that decides what the stages hold. Must not know: what the
stages are. Tests: tests/calibrate/test_stages.py.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

KEY = "key.json"


class Stages:
    """Files of one calibration. What another one left in the folder is dropped."""

    def __init__(self, folder: Path, key: Mapping[str, Any]) -> None:
        self._folder = folder
        digest = hashlib.sha256(json.dumps(key, sort_keys=True, default=str).encode()).hexdigest()
        if self._read(KEY) != digest:
            self.drop()
            folder.mkdir(parents=True)
            self._write(KEY, digest)

    def done(self, name: str) -> bool:
        """Whether a stage was done, now or before."""
        return self._path(name).exists()

    def get(self, name: str, make: Callable[[], Any]) -> Any:
        """What a stage gave: from its file, or made now and kept. Plain values."""
        found = self._read(name) if self.done(name) else None
        if found is None:
            found = make()
            self._write(name, found)
        return found

    def drop(self) -> None:
        """Forget everything."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _path(self, name: str) -> Path:
        return self._folder / (name if name == KEY else f"{name}.json")

    def _read(self, name: str) -> Any:
        try:
            return json.loads(self._path(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def _write(self, name: str, value: Any) -> None:
        path = self._path(name)
        staging = path.with_name(path.name + ".writing")
        staging.write_text(json.dumps(value), encoding="utf-8")
        staging.replace(path)
