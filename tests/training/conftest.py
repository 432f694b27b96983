"""A toy target, prompts, and one distillation of it that several tests look at."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from saguaro.config import EngineConfig
from saguaro.engine.resolve import resolve
from saguaro.models.checkpoint import open_checkpoint
from saguaro.training.folder import WorkFolder
from saguaro.training.run import Asked, distil
from saguaro.training.settings import DataSettings, TrainSettings
from saguaro.training.start import check_start

TARGET = "toy:llama?seed=0&vocab=48&layers=2&hidden=32&ffn=64&scale=3"
ENGINE: dict[str, Any] = {"mode": "ar", "channel": "loopback", "max_model_len": 64, "page_size": 8}
DATA = DataSettings(max_tokens=16, held_out=8, context=32, top_k=12)
TRAIN = TrainSettings(steps=40, batch_tokens=256, lr=2e-3, stored="float32")


@dataclass
class Heard:
    """A listener that keeps what it is told; it may ask to stop after some steps."""

    stop_after: int | None = None
    stages: list[str] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    points: list[dict[str, Any]] = field(default_factory=list)

    def stage(self, name, total):
        self.stages.append(name)

    def advance(self, parts, note):
        assert parts > 0

    def step(self, report):
        self.losses.append(report.loss)

    def point(self, point):
        self.points.append(point)

    def should_stop(self) -> bool:
        return self.stop_after is not None and len(self.losses) >= self.stop_after


def ask(folder: Path, *, target: str = TARGET, source: str | None = None, **changes: Any) -> Asked:
    """A distillation of a toy; `changes` replace what is asked by default."""
    plan = resolve(EngineConfig.from_options(target, **ENGINE))
    opened = open_checkpoint(target)
    start = opened if source is None else open_checkpoint(source)
    values: dict[str, Any] = {
        "plan": plan,
        "target": opened,
        "source": start,
        "prompts": [[1 + i % 40, 2 + i % 7, 3 + i % 11] for i in range(60)],
        "held_out": [[41, 1 + i, 5] for i in range(8)],
        "own_text": [],
        "names": {"toys": 68},
        "data": DATA,
        "train": TRAIN,
        "out": folder / "draft",
        "work": WorkFolder(folder / "work"),
        "threads": 1,
        "command": "saguaro train-draft ...",
        "facts": {"machine": {}, "versions": {}},
    } | changes
    return Asked(layers=check_start(opened, start, values["train"]), **values)


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """What was asked, what was heard and the record of one distillation."""
    asked, heard = ask(tmp_path_factory.mktemp("distilled")), Heard()
    return asked, heard, distil(asked, heard)
