"""What is asked of a distillation: frozen values, checked once, without torch.

Must not know: files' content, models. Tests: tests/training/test_settings.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from saguaro.errors import ConfigError
from saguaro.registry import nearest

TRAINED = ("layers", "head", "all")
PRECISIONS = ("float32", "bfloat16")
BORROWING = "int8"
STORED = (*PRECISIONS, BORROWING)
"""`int8` keeps matrices as int8 with a scale a row; a small language model leaves embedding and head to the target."""
TRAINING, PARTS = "training", 1000
"""Name of the last stage, and the parts that it is shown in."""
DEFAULT_LAYERS = 4
DEFAULT_EPOCHS = 4
OWN_STATES, MEASURED_STATES = 4, 8
OWN_WEIGHT = 0.8
"""As published heads were trained: a token further on is reached less often."""
OWN_SHARE = 1.0


@dataclass(frozen=True)
class DataSettings:
    """Texts and laws.

    Args:
        temperatures: the target writes a text for each prompt at each of them.
        samples: texts of one prompt at one temperature above 0, each with its own seed.
        max_tokens: longest output.
        top_k: tokens of each law that are kept, with the mass of all others.
        held_out: prompts that are never trained on.
        context: longest piece of a text that is learnt at once, in tokens.
        rows: texts that the target writes at once.
        keep_states: keep the target's last hidden states beside the laws, for `TrainSettings.states`.
        seed: key of the order, of the outputs' noise, and of nothing else.

    Raises:
        ConfigError: for a value out of its range.
    """

    temperatures: tuple[float, ...] = (0.0, 1.0)
    samples: int = 1
    max_tokens: int = 128
    top_k: int = 64
    held_out: int = 16
    context: int = 256
    rows: int = 96
    keep_states: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        _require(bool(self.temperatures), "--temperatures names none")
        _require(len(set(self.temperatures)) == len(self.temperatures), "a temperature is given twice")
        _require(all(0 <= value <= 100 for value in self.temperatures), "temperatures are in 0 ... 100")
        for name in ("samples", "max_tokens", "top_k", "held_out", "rows"):
            _require(getattr(self, name) >= 1, f"{name} must be 1 or more")
        _require(8 <= self.context <= 1 << 16, "context must be in 8 ... 65536")
        _require(0 <= self.seed < 1 << 32, "seed must be in 0 ... 2^32 - 1")


@dataclass(frozen=True)
class TrainSettings:
    """The student and how it learns.

    Args:
        layers: layers of the model that it starts from, in this order; None takes the first and last ones.
        draft_vocab: rows of a head of its own; None has the whole vocabulary.
        head_rows: rows of the head that a step computes (`sampled_head.py`); None computes all.
        trained: `layers` (embedding and head stay as they are), `head` (layers and head), or `all`.
        steps: optimiser steps; None counts epochs.
        epochs: times that the texts are seen; None is 4, or until the minutes are over.
        minutes: the whole run ends after so many, data included; None is no limit.
        data_share: part of the minutes that texts and laws may take.
        states: weight of the distance between the last states of student and target, beside KL.
        texts: learn from so many texts, rounded up to whole shards; None takes all.
        lr: highest learning rate.
        weight_decay: of matrices.
        clip: largest norm of a gradient.
        batch_tokens: tokens of a step.
        precision: of matrix products; weights and sums are float32.
        stored: dtype of the tensors written; with `int8` a language model leaves embedding and head to the target
            (`models/borrowed.py`).
        eagle3: train an EAGLE-3 head instead of a small language model.
        own_states: of a head: tokens in a row that it learns to go on from its own states; None is OWN_STATES.
        own_weight: of a head: what each further token in a row counts, beside the one before it; None is OWN_WEIGHT.
        own_share: of a head: part of a step's places at which it learns to go on from its own states; None is
            OWN_SHARE.
        measured_states: of a head: positions at which acceptance is measured; None is MEASURED_STATES.

    Raises:
        ConfigError: for a value out of its range.
    """

    layers: tuple[int, ...] | None = None
    draft_vocab: int | None = None
    head_rows: int | None = None
    trained: str = "layers"
    steps: int | None = None
    epochs: int | None = None
    minutes: float | None = None
    data_share: float = 0.4
    texts: int | None = None
    states: float = 0.0
    lr: float = 5e-4
    weight_decay: float = 0.01
    clip: float = 1.0
    batch_tokens: int = 2048
    precision: str = "float32"
    stored: str = "bfloat16"
    eagle3: bool = False
    own_states: int | None = None
    own_weight: float | None = None
    own_share: float | None = None
    measured_states: int | None = None

    def __post_init__(self) -> None:
        for name, known in (("trained", TRAINED), ("precision", PRECISIONS), ("stored", STORED)):
            value = getattr(self, name)
            if value not in known:
                hint = nearest(value, known) or "."
                raise ConfigError(f"{name} must be one of {', '.join(known)}, not {value!r}{hint}")
        _require(self.layers is None or len(self.layers) > 0, "--layers names none")
        for name in ("draft_vocab", "head_rows", "texts", "steps", "epochs"):
            value = getattr(self, name)
            _require(value is None or value >= 1, f"{name} must be 1 or more")
        for name, least, most in (
            ("own_states", 1, 32), ("measured_states", 1, 32), ("own_weight", 0, 1), ("own_share", 0.01, 1)
        ):  # fmt: skip
            value = getattr(self, name)
            _require(value is None or least <= value <= most, f"{name} must be in {least} ... {most}")
            _require(value is None or self.eagle3, f"--{name.replace('_', '-')} is for heads; it needs --eagle3")
        _require(self.head_rows is None or self.trained == "layers", "--head-rows is for a head that does not learn")
        if self.stored == BORROWING and not self.eagle3:
            whole = self.trained == "layers" and self.draft_vocab is None
            _require(whole, "--stored int8 leaves embedding and head to the target; they must be whole and not learn")
        if self.eagle3:
            _require(self.trained == "layers", "--train is for language models; of an EAGLE-3 head all learns")
            _require(self.head_rows is None, "--head-rows is for language models; the head of an EAGLE-3 head learns")
            _require(not self.states, "--states is for language models; an EAGLE-3 head reads the target's states")
        _require(self.steps is None or self.epochs is None, "give --steps or --epochs, not both")
        _require(self.minutes is None or self.minutes > 0, "minutes must be above 0")
        _require(0 < self.data_share < 1, "data_share must be between 0 and 1")
        _require(0 < self.lr <= 1, "lr must be above 0 and at most 1")
        _require(self.states >= 0, "states must be 0 or more")
        _require(self.weight_decay >= 0, "weight_decay must be 0 or more")
        _require(self.clip > 0, "clip must be above 0")
        _require(self.batch_tokens >= 8, "batch_tokens must be 8 or more")


def default_layers(count: int) -> tuple[int, ...]:
    """The first and the last layers of `count`: four of them, or half where there are fewer than eight."""
    kept = max(1, min(DEFAULT_LAYERS, count // 2))
    first = (kept + 1) // 2
    return (*range(first), *range(count - (kept - first), count))


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(f"{message}.")
