"""The training itself: steps of AdamW under a cosine schedule, measured along the way, saved so that it can go on.

What a step does is a function of its number and of the settings, unless `minutes` are given: then the schedule follows
the clock. Must not know: how data was made, files of results. Tests: tests/training/test_run.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from saguaro.training import saved
from saguaro.training.corpus import Rows
from saguaro.training.curve import Curve
from saguaro.training.head_student import HeadStudent
from saguaro.training.loss import Laws, backward, pull
from saguaro.training.sampled_head import SampledHead
from saguaro.training.settings import DEFAULT_EPOCHS, TrainSettings
from saguaro.training.student import Student

WARM_UP = 0.03
"""Part of the run in which the learning rate rises."""
LOWEST = 0.01
"""The last learning rate, as a part of the highest."""
POINTS = 8
"""The curve is measured so many times, evenly over the run, and once before."""
SAVE_SECONDS = 60.0
SMOOTH = 0.95
BETAS = (0.9, 0.98)
"""Of AdamW: steps are small, so that squares are averaged over more of them than is usual."""


@dataclass(frozen=True)
class Report:
    """How far a training is: `progress` in 0 ... 1, `loss` smoothed, tokens a second of this process."""

    step: int
    steps: int | None
    progress: float
    loss: float
    tokens: int
    tokens_per_second: float
    seconds: float


@dataclass
class Training:
    """One training, from its beginning or from where `state` was saved.

    Args:
        student: what learns.
        rows: what it learns from.
        column_V: the student's column of each of the target's tokens.
        measure: makes the curve now.
        settings: how it learns.
        state: file of the saved training.
        budget: seconds until it ends; None counts steps only.
        on_step: told after each step. on_curve: told each point, as plain values.
        should_stop: asked between steps; True saves and ends.
        sampled: chooses rows of the head for each step; None computes all.
        norm_H: weights of the target's last norm, where its states are imitated.
        clock: seconds.
        learn: makes the gradients of a step, by its number and those of its rows; returns the loss and the places that
            were learnt. By default the KL of the student's logits at every place.
    """

    student: Student | HeadStudent
    rows: Rows
    column_V: torch.Tensor
    measure: Callable[[], Curve]
    settings: TrainSettings
    state: Path
    budget: float | None = None
    on_step: Callable[[Report], None] = lambda report: None
    on_curve: Callable[[dict[str, Any]], None] = lambda point: None
    should_stop: Callable[[], bool] = lambda: False
    sampled: SampledHead | None = None
    norm_H: torch.Tensor | None = None
    clock: Callable[[], float] = time.monotonic
    learn: Callable[[int, Sequence[int]], tuple[float, int]] | None = None
    step: int = 0
    tokens: int = 0
    loss: float | None = None
    points: list[dict[str, Any]] = field(default_factory=list)
    _before: float = 0.0
    _epoch: tuple[int, list[list[int]]] = (-1, [])

    def __post_init__(self) -> None:
        self._parameters = self.student.trained()
        matrices = [value for value in self._parameters.values() if value.dim() > 1]
        vectors = [value for value in self._parameters.values() if value.dim() == 1]
        groups = [
            {"params": matrices, "weight_decay": self.settings.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        self._optimiser = torch.optim.AdamW(groups, lr=self.settings.lr, betas=BETAS, eps=1e-8, fused=True)
        longest = max(1, max(sum(piece.end - piece.begin for piece in row) for row in self.rows.rows))
        self._rows_a_batch = max(1, self.settings.batch_tokens // longest)
        self._steps_an_epoch = len(self.rows.batches(0, self._rows_a_batch))
        where = saved.restore(self.state, self._parameters, self._optimiser)
        if where is not None:
            self.step, self.tokens, self.loss = where["step"], where["tokens"], where["loss"]
            self.points, self._before, self.budget = where["points"], where["seconds"], where["budget"]

    @property
    def steps(self) -> int | None:
        """Steps of the whole run; None where only the clock ends it."""
        if self.settings.steps is not None:
            return self.settings.steps
        if self.settings.epochs is None and self.budget is not None:
            return None
        return (self.settings.epochs or DEFAULT_EPOCHS) * self._steps_an_epoch

    @property
    def epochs(self) -> float:
        """Times that the texts were seen."""
        return self.step / self._steps_an_epoch

    def run(self) -> bool:
        """Train to the end; False when it was stopped before, saved."""
        self._began = self._saved_at = self.clock()
        tokens_before = self.tokens
        if not self.points:
            self._point()
            if self.budget is not None:
                self.budget = max(0.0, self.budget - self.seconds)  # what the last point will take
        while (progress := self.progress) < 1:
            if self.should_stop():
                self.save()
                return False
            loss = self._step(self.rate(progress))
            self.loss = self._smoothed(loss)
            now = self.clock()
            speed = (self.tokens - tokens_before) / max(1e-9, now - self._began)
            self.on_step(Report(self.step, self.steps, self.progress, self.loss, self.tokens, speed, self.seconds))
            if POINTS > int(self.progress * POINTS) >= len(self.points):
                self._point()
            elif now - self._saved_at > SAVE_SECONDS:
                self.save()
        self.save()
        return True

    @property
    def seconds(self) -> float:
        """Time of training so far, over all processes."""
        return self._before + self.clock() - self._began

    @property
    def progress(self) -> float:
        """How much of the run is over, by steps or by the clock, whichever is further."""
        by_steps = self.step / self.steps if self.steps is not None else 0.0
        by_clock = 0.0
        if self.budget is not None:
            by_clock = self.seconds / self.budget if self.budget > 0 else 1.0
        return min(1.0, max(by_steps, by_clock))

    def rate(self, progress: float) -> float:
        """The learning rate: a short rise, then half a cosine."""
        shape = LOWEST + (1 - LOWEST) * (1 + math.cos(math.pi * progress)) / 2
        rise = (progress + 1e-3) / WARM_UP
        return self.settings.lr * min(rise, shape)

    def save(self) -> None:
        """Write where it is."""
        where = {
            "step": self.step, "tokens": self.tokens, "loss": self.loss, "points": self.points,
            "seconds": self.seconds, "budget": self.budget,
        }  # fmt: skip
        saved.save(self.state, self._parameters, self._optimiser, where)
        self._saved_at = self.clock()

    def _step(self, rate: float) -> float:
        """One step; returns its loss."""
        epoch, place = divmod(self.step, self._steps_an_epoch)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self.rows.batches(epoch, self._rows_a_batch))
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.zero_grad(set_to_none=True)
        loss, count = (self.learn or self._learn)(self.step, self._epoch[1][place])
        torch.nn.utils.clip_grad_norm_(self._parameters.values(), self.settings.clip)
        self._optimiser.step()
        self.step += 1
        self.tokens += count
        return loss

    def _learn(self, step: int, numbers: Sequence[int]) -> tuple[float, int]:
        """Gradients of the mean KL of some rows."""
        batch = self.rows.batch(numbers)
        device = self.student.head_weight.device
        hidden_BTH = self.student(batch.tokens_BT.to(device), batch.positions_BT.to(device), batch.text_BT.to(device))
        hidden_RH = hidden_BTH.flatten(0, 1)[batch.wanted_R.to(device)]
        laws = self.rows.corpus.laws(batch.laws_R, self.column_V).to(device)
        loss = self._backward(step, hidden_RH, laws, self._pull(hidden_RH, batch.laws_R))
        return loss, len(batch.laws_R)

    def _backward(self, step: int, hidden_RH: torch.Tensor, laws: Laws, pull_RH: torch.Tensor | None) -> float:
        """The loss of a step; its gradient is added to all that learns."""
        compute = self.student.compute
        if self.sampled is None:
            return backward(hidden_RH, self.student.head_weight, laws, compute=compute, pull_RH=pull_RH)
        chosen = self.sampled.choose(step, laws)
        return backward(
            hidden_RH, chosen.weight_SH, chosen.laws, compute=compute, raise_N=chosen.raise_S, pull_RH=pull_RH
        )

    def _pull(self, hidden_RH: torch.Tensor, laws_R: torch.Tensor) -> torch.Tensor | None:
        """What draws the student's last states to the target's."""
        states_PH = self.rows.corpus.states_PH
        if not self.settings.states or states_PH is None or self.norm_H is None:
            return None
        target_RH = (states_PH[laws_R].float() * self.norm_H).to(hidden_RH.device)
        return pull(hidden_RH, target_RH, self.settings.states)

    def _smoothed(self, loss: float) -> float:
        """The mean of the first losses, then one that forgets the older ones."""
        keep = min(SMOOTH, 1 - 1 / self.step)
        return keep * (self.loss or 0.0) + (1 - keep) * loss

    def _point(self) -> None:
        """Measure the curve, keep it and save."""
        point = self.point(self.measure())
        self.points.append(point)
        self.save()
        self.on_curve(point)

    def point(self, curve: Curve) -> dict[str, Any]:
        """A measured curve with where it was measured, as plain values."""
        where = {"step": self.step, "tokens": self.tokens, "seconds": round(self.seconds, 1), "loss": self.loss}
        return where | curve.as_dict()
