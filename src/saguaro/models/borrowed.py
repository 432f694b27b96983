"""A draft that leaves embedding and head to its target: a directory of layers, which runs beside that target alone.

    config.json         as of any model, and `borrowed_embedding`: {"target": a name, "digest": of the target's tensors}
    model.safetensors   the layers and the last norm, as int8 rows (`weights/int8_rows.py`)

Ids mean what they mean in the target, whose tokenizer it has, too. Must not know: packing, engines.
Tests: tests/models/test_borrowed.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saguaro.errors import ConfigError, WeightsError
from saguaro.models.checkpoint import BORROWED, SAMPLE_BYTES, SAMPLES, Checkpoint, file_digest
from saguaro.models.config import ModelConfig
from saguaro.models.tokenizer import TextCodec
from saguaro.models.vocabulary import Signature
from saguaro.models.weights.int8_rows import Int8Rows
from saguaro.models.weights.names import EMBEDDING, HEAD, parameters
from saguaro.models.weights.safetensors import SINGLE
from saguaro.models.weights.source import Stored, WeightSource, check_names

if TYPE_CHECKING:
    import torch

FEW = 8
"""Digits of a digest that a message shows."""


def borrowed_names(config: ModelConfig) -> tuple[str, ...]:
    """The tensors that the target holds."""
    return (EMBEDDING,) if config.tied else (EMBEDDING, HEAD)


def digest(target: Checkpoint) -> str:
    """What a draft knows its target's embedding and head by: a hash of their kind, shape and samples of their bytes."""
    found = hashlib.blake2b(digest_size=16)
    for name in borrowed_names(target.config):
        place = target.stored(name)
        if place is None:  # no file holds it
            tensor = target.weights().get(name)
            found.update(f"{name} {list(tensor.shape)} made;".encode())
            found.update(tensor.float().numpy().tobytes())
            continue
        found.update(f"{name} {list(place.shape)} {place.kind};".encode())
        with place.path.open("rb") as file:
            for index in range(SAMPLES):
                file.seek(place.offset + max(0, place.num_bytes - SAMPLE_BYTES) * index // (SAMPLES - 1))
                found.update(file.read(min(SAMPLE_BYTES, place.num_bytes)))
    return found.hexdigest()


def lender_of(directory: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Name and digest of the target whose embedding a draft borrows.

    Raises:
        WeightsError: config.json does not say.
    """
    lender = config[BORROWED] if isinstance(config[BORROWED], dict) else {}
    if not all(isinstance(lender.get(name), str) for name in ("target", "digest")):
        raise WeightsError(f"{directory / 'config.json'} does not say whose embedding it borrows.")
    return dict(lender)


def check_lender(lender: Mapping[str, str], target: Checkpoint, *, source: str) -> None:
    """Raise ConfigError where a target's embedding is not the one that a draft borrows."""
    found = digest(target)
    if found != lender["digest"]:
        raise ConfigError(
            f"the draft {source!r} has the embedding of {lender['target']} ({lender['digest'][:FEW]}), and the target "
            f"{target.source!r} has another one ({found[:FEW]}); it runs beside that model only."
        )


class BorrowingCheckpoint(Checkpoint):
    """Layers of its own between the embedding and the head of a target.

    Args:
        directory: of the layers.
        config: content of its config.json.
        source: what the user wrote.
        target: the model beside which it is to run; None lets its sizes be read and nothing else.

    Raises:
        ConfigError: the target has another embedding.
        WeightsError: config.json does not say whose embedding it borrows.
    """

    def __init__(
        self, directory: Path, config: Mapping[str, Any], *, source: str, target: Checkpoint | None = None
    ) -> None:
        self.source = source
        self._directory = directory
        self._config = ModelConfig.from_json(config)
        self._target = target
        self._lender = lender_of(directory, config)
        if target is not None:
            check_lender(self._lender, target, source=source)

    @property
    def config(self) -> ModelConfig:
        """From config.json."""
        return self._config

    @property
    def is_int8(self) -> bool:
        """Always."""
        return True

    @cached_property
    def fingerprint(self) -> str:
        """Of its files; config.json holds the digest of what is borrowed."""
        return file_digest([self._directory / "config.json", self._directory / SINGLE])

    def weights(self) -> WeightSource:
        """Its own layers, embedding and head of the target.

        Raises:
            ConfigError: no target is known.
        """
        own, borrowed = Int8Rows(self._directory), borrowed_names(self._config)
        needed = {name: shape for name, shape in parameters(self._config).items() if name not in borrowed}
        check_names(needed, own.shapes(), where=str(self._directory))
        lent = self._lent().weights()
        check_names(
            {name: parameters(self._config)[name] for name in borrowed},
            {name: shape for name, shape in lent.shapes().items() if name in borrowed},
            where=self._lent().source,
        )
        return Joined(own, lent, borrowed)

    def stored(self, name: str) -> Stored | None:
        """What is borrowed lies with the target; what is its own is not stored as it is."""
        return self._lent().stored(name) if name in borrowed_names(self._config) else None

    def tokenizer(self) -> TextCodec:
        """The target's."""
        return self._lent().tokenizer()

    def save_tokenizer(self, directory: Path) -> None:
        """The target's."""
        self._lent().save_tokenizer(directory)

    def signature(self) -> Signature:
        """The target's: a draft with its embedding means the same by every id."""
        return self._lent().signature()

    def _lent(self) -> Checkpoint:
        if self._target is None:
            raise ConfigError(
                f"{self.source!r} has no embedding of its own and is no model by itself; give it as the draft of "
                f"{self._lender['target']}."
            )
        return self._target


class Joined:
    """Some tensors of one source, all others of another (see `WeightSource`)."""

    def __init__(self, own: WeightSource, lent: WeightSource, borrowed: tuple[str, ...]) -> None:
        self._own, self._lent, self._borrowed = own, lent, borrowed

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Of both."""
        return {**self._own.shapes(), **{name: self._lent.shapes()[name] for name in self._borrowed}}

    def get(self, name: str) -> torch.Tensor:
        """From where it is."""
        return (self._lent if name in self._borrowed else self._own).get(name)
