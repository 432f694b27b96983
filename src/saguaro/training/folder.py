"""The work folder of a distillation: what is done lies there, so that a run that was stopped goes on.

    data.json    key of the texts and laws             texts-N, laws-N, held-N   shards (`texts.py`, `laws.py`)
    train.json   key of the training                   state.safetensors         weights, optimiser, step (`saved.py`)
    spent.json   seconds used, by stage

Work of other settings is never dropped unasked: texts may have cost hours. Must not know: what is in the files.
Tests: tests/training/test_settings.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from saguaro.errors import ConfigError, WeightsError

DATA, TRAIN, SPENT = "data", "train", "spent"
FILES = {
    DATA: ("texts-*", "laws-*", "taps-*", "held-*", "data.json", "shards.json"),
    TRAIN: ("state.safetensors", "train.json"),
}
ADVICE = {
    DATA: "give the same ones, or another --work, or --fresh to begin anew",
    TRAIN: "give the same ones, or --retrain to train anew on the same texts",
}


RECORD = "training.json"
"""What a directory that this command wrote holds."""


def check_place(out: Path) -> None:
    """Refuse to write over what this command has not written.

    Raises:
        ConfigError: a file, a folder that holds something else, or one whose parent is not there.
    """
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file; --out names the folder of the draft.")
    if out.is_dir() and any(out.iterdir()) and not (out / RECORD).exists():
        raise ConfigError(f"{out} holds something else than an earlier draft; name another folder with --out.")
    if not out.resolve().parent.is_dir():
        raise ConfigError(f"the folder of {out} does not exist; make it first.")


class WorkFolder:
    """Files of one distillation."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

    def claim(self, stage: str, key: Mapping[str, Any]) -> None:
        """Go on with a stage, or begin it.

        Raises:
            ConfigError: the folder holds that stage of other settings, naming what differs.
        """
        new = json.loads(json.dumps(dict(key), default=str))
        old = self.read(stage)
        if old is None:
            self.write(stage, new)
        elif old != new:
            names = [name for name in new if old.get(name) != new[name]] or list(set(old) - set(new))
            raise ConfigError(
                f"{self.path} holds {'texts' if stage == DATA else 'a training'} of other settings "
                f"({', '.join(names[:4])} differ); {ADVICE[stage]}."
            )

    def drop(self, stage: str) -> None:
        """Forget a stage; without its texts a training is forgotten, too."""
        for pattern in FILES[stage]:
            for path in self.path.glob(pattern):
                path.unlink()
        spent = self.spent()
        self.write(SPENT, {} if stage == DATA else {name: spent[name] for name in spent if name != TRAIN})
        if stage == DATA:
            self.drop(TRAIN)

    def spent(self) -> dict[str, float]:
        """Seconds used so far, by stage."""
        return self.read(SPENT) or {}

    def spend(self, stage: str, seconds: float) -> None:
        """Set what a stage has used."""
        self.write(SPENT, self.spent() | {stage: seconds})

    def read(self, name: str) -> dict[str, Any] | None:
        """A small file of plain values; None when it is not there.

        Raises:
            WeightsError: it is damaged.
        """
        path = self.path / f"{name}.json"
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise WeightsError(f"{path} is damaged: {error}; remove it or give --fresh.") from error
        return dict(value)

    def write(self, name: str, value: Mapping[str, Any]) -> None:
        """Write it whole or not at all."""
        staging = self.path / f"{name}.json.writing"
        staging.write_text(json.dumps(value, indent=1), encoding="utf-8")
        staging.replace(self.path / f"{name}.json")


def without_folders(text: str) -> str:
    """A path as a card may show it, without the folders of this machine; what is relative stays as it is."""
    path = Path(text).expanduser()
    return path.name if path.is_absolute() else text


def digest(*parts: str) -> str:
    """One short key of several texts."""
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
