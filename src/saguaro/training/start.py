"""What a student starts from: some layers of the target, or of another model with the same vocabulary.

Must not know: training, files of results. Tests: tests/training/test_student.py, tests/training/test_run.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from saguaro.errors import ConfigError
from saguaro.models.borrowed import digest
from saguaro.models.checkpoint import Checkpoint
from saguaro.models.config import ModelConfig
from saguaro.models.eagle3_shape import usual_taps
from saguaro.models.vocabulary import compare
from saguaro.models.weights.names import EMBEDDING, FINAL_NORM, HEAD, layer_name, parameters
from saguaro.training.settings import BORROWING, TrainSettings, default_layers

if TYPE_CHECKING:
    import torch


def check_start(target: Checkpoint, source: Checkpoint, settings: TrainSettings) -> tuple[int, ...]:
    """The layers that the student takes, once it is known that it can.

    Args:
        target: the model that is imitated.
        source: the model whose layers are taken: the target, or a draft for it.
        settings: which layers, and what is trained.

    Raises:
        ConfigError: layers that are not there, another vocabulary, a model without tensors.
    """
    config = source.config
    if getattr(source, "markov", None) is not None:
        raise ConfigError(f"{source.source!r} is a table without layers; name a model to start from with --from.")
    if config.draft_vocab is not None:
        raise ConfigError(
            f"{source.source!r} has a vocabulary of its own, from which training cannot go on; start from a model "
            "with the whole vocabulary."
        )
    difference = compare(target.signature(), source.signature())
    if difference is not None:
        raise ConfigError(f"a draft cannot start from {source.source!r}: {difference}")
    if settings.stored == BORROWING and source is not target and digest(source) != digest(target):
        raise ConfigError(
            f"--stored int8 leaves the embedding to the target, and {source.source!r} has another one; start from the "
            "target, or from a draft with its embedding."
        )
    vocab = min(config.vocab, target.config.vocab)
    if settings.draft_vocab is not None and settings.draft_vocab >= vocab:
        raise ConfigError(f"--draft-vocab {settings.draft_vocab} is no reduction: there are {vocab} tokens.")
    if settings.trained == "head" and config.tied and settings.draft_vocab is None:
        raise ConfigError("the head is the embedding here; use --train layers or all, or give --draft-vocab.")
    if settings.states and config.hidden != target.config.hidden:
        raise ConfigError(
            f"--states draws states of {config.hidden} numbers to states of {target.config.hidden}; start from a model "
            "of the target's hidden size."
        )
    layers = settings.layers
    if layers is None:
        kept = source is target or source.fingerprint == target.fingerprint
        layers = default_layers(config.num_layers) if kept else tuple(range(config.num_layers))
    for layer in layers:
        if not 0 <= layer < config.num_layers:
            raise ConfigError(f"there is no layer {layer}: {source.source} has 0 ... {config.num_layers - 1}.")
    return layers


def check_head(target: Checkpoint, source: Checkpoint, settings: TrainSettings) -> None:
    """Raise ConfigError where a head cannot be trained as asked."""
    if getattr(target, "markov", None) is not None:
        raise ConfigError(f"{target.source!r} is a table without layers; an EAGLE-3 head has nothing to listen to.")
    if source.fingerprint != target.fingerprint or settings.layers is not None:
        raise ConfigError("an EAGLE-3 head starts from its target alone; leave --from and --layers out.")
    if min(usual_taps(target.config.num_layers)) < 0:
        raise ConfigError(f"{target.source} has {target.config.num_layers} layers, too few for three taps.")


def student_config(
    source: ModelConfig, target: ModelConfig, layers: Sequence[int], *, draft_vocab: int | None
) -> ModelConfig:
    """The student's sizes: those of the source with fewer layers; a head of some tokens is never the embedding."""
    return replace(
        source,
        num_layers=len(layers),
        tied=source.tied and draft_vocab is None,
        stop_ids=target.stop_ids,
        bos_id=target.bos_id,
    )


def student_tensors(
    source: Checkpoint, layers: Sequence[int], *, draft_ids_N: torch.Tensor | None = None
) -> dict[str, torch.Tensor]:
    """Every parameter of the student by canonical name.

    Args:
        source: where they come from.
        layers: layer i of the student is layer `layers[i]` of the source.
        draft_ids_N: rows of the head that are kept; None keeps it whole (or tied).
    """
    weights, config = source.weights(), source.config
    first = [name.removeprefix(layer_name(0, "")) for name in parameters(config) if name.startswith(layer_name(0, ""))]
    tensors = {EMBEDDING: weights.get(EMBEDDING), FINAL_NORM: weights.get(FINAL_NORM)}
    for index, layer in enumerate(layers):
        tensors |= {layer_name(index, part): weights.get(layer_name(layer, part)) for part in first}
    if draft_ids_N is not None:
        head_VH = tensors[EMBEDDING] if config.tied else weights.get(HEAD)
        tensors[HEAD] = head_VH[draft_ids_N]
    elif not config.tied:
        tensors[HEAD] = weights.get(HEAD)
    return tensors
