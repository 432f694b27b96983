"""Where a model comes from: a directory, a GGUF file, a hub id or `toy:...`, behind one face.

Opening is cheap: configuration and names are read and checked, no tensor and no torch, so that a wrong path or an
unknown architecture is one sentence in a fraction of a second. Must not know: packing, devices.
Tests: tests/models/test_checkpoint.py.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saguaro.errors import ConfigError, WeightsError
from saguaro.models import hub
from saguaro.models.config import ModelConfig
from saguaro.models.draft_ids import target_ids
from saguaro.models.tokenizer import TextCodec, Tokenizer
from saguaro.models.tokenizer_files import copy_files
from saguaro.models.vocabulary import Signature, directory_signature, directory_stop_ids, gguf_signature
from saguaro.models.weights.gguf import GgufWeights, gguf_config
from saguaro.models.weights.gguf_header import MAGIC, GgufFile
from saguaro.models.weights.names import DRAFT_TO_TARGET, TARGET_TO_DRAFT, from_gguf_name, is_harmless, parameters
from saguaro.models.weights.safetensors import SafetensorsWeights
from saguaro.models.weights.source import Stored, WeightSource, check_names

if TYPE_CHECKING:
    import torch

TOY = "toy:"
BORROWED = "borrowed_embedding"
"""The key of a config.json whose model leaves embedding and head to its target."""
SAMPLES, SAMPLE_BYTES = 64, 4096


class Checkpoint(ABC):
    """A model's files: configuration, tensors, tokenizer.

    `source` is what the user wrote. `config.stop_ids` is the union of all that the files say. `fingerprint` changes
    when the files do and is a key for caches.
    """

    source: str

    @property
    @abstractmethod
    def config(self) -> ModelConfig:
        """Sizes and stop ids."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of the files."""

    @abstractmethod
    def weights(self) -> WeightSource:
        """The tensors, after the strict check of their names and shapes (no data is read).

        Raises:
            WeightsError: naming what is missing, unknown or of another shape.
        """

    @abstractmethod
    def tokenizer(self) -> TextCodec:
        """The tokenizer, built on first use.

        Raises:
            ConfigError, WeightsError: there is none, or none that is known here.
        """

    @abstractmethod
    def signature(self) -> Signature:
        """What the ids mean, for `vocabulary.compare`; cheap."""

    @property
    def is_int8(self) -> bool:
        """Whether its files hold int8 rows, as those of small drafts do, which lose much in fewer bits."""
        return False

    def draft_ids(self) -> list[int] | None:
        """Target id of each row of a head with a vocabulary of its own; None where row = id.

        Raises:
            WeightsError: a map that leads outside the vocabulary, or twice to one id.
        """
        return None

    def stored(self, name: str) -> Stored | None:
        """Where a tensor lies, by canonical name; None where no file holds it as it is."""
        return None

    def save_tokenizer(self, directory: Path) -> None:
        """Write the tokenizer's files into a directory, for a model that shares the vocabulary."""
        self.tokenizer().save(directory)

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every parameter by canonical name, read one after another."""
        weights = self.weights()
        for name in parameters(self.config):
            yield name, weights.get(name)


class DirectoryCheckpoint(Checkpoint):
    """A directory with config.json, safetensors files and tokenizer.json."""

    def __init__(self, directory: Path, *, source: str) -> None:
        self.source = source
        self._directory = directory
        config, generation = (_read_json(directory / name) for name in ("config.json", "generation_config.json"))
        if config is None:
            raise WeightsError(f"{directory} holds no config.json and no GGUF file; it is not a model.")
        self._config = ModelConfig.from_json(config, generation=generation)

    @cached_property
    def config(self) -> ModelConfig:
        """As config.json says, with the tokenizer's stop ids added."""
        if not (self._directory / "tokenizer.json").exists():
            return self._config
        return replace(self._config, stop_ids=self._config.stop_ids | directory_stop_ids(self._directory))

    @cached_property
    def fingerprint(self) -> str:
        """Of config.json and of samples of every weight file."""
        files = SafetensorsWeights(self._directory).files
        return file_digest([self._directory / "config.json", *files])

    def weights(self) -> WeightSource:
        """From safetensors."""
        weights = SafetensorsWeights(self._directory)
        check_tensors(weights, self._config, where=str(self._directory))
        return weights

    def draft_ids(self) -> list[int] | None:
        """By the tensor `d2t`."""
        return None if self._config.draft_vocab is None else own_ids(self.weights(), self._config, where=self.source)

    def stored(self, name: str) -> Stored | None:
        """In one of the safetensors files."""
        return SafetensorsWeights(self._directory).place(name)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer.from_directory(self._directory)

    def tokenizer(self) -> Tokenizer:
        """From tokenizer.json."""
        return self._tokenizer

    def save_tokenizer(self, directory: Path) -> None:
        """A copy of the files."""
        copy_files(self._directory, directory)

    def signature(self) -> Signature:
        """Of tokenizer.json."""
        return directory_signature(self._directory)


class GgufCheckpoint(Checkpoint):
    """A GGUF file, or the first of its splits."""

    def __init__(self, path: Path, *, source: str) -> None:
        self.source = source
        self._path = path
        self._file = GgufFile(path)
        self._config = gguf_config(self._file)

    @property
    def config(self) -> ModelConfig:
        """From the metadata."""
        return self._config

    @cached_property
    def fingerprint(self) -> str:
        """Of samples of the file."""
        return file_digest(self._file.paths)

    def weights(self) -> WeightSource:
        """Dequantised as they are read."""
        weights = GgufWeights(self._file, self._config)
        check_tensors(weights, self._config, where=str(self._path))
        return weights

    def stored(self, name: str) -> Stored | None:
        """In the file, or one of its splits."""
        info = next((info for own, info in self._file.tensors.items() if from_gguf_name(own) == name), None)
        if info is None:
            return None
        return Stored(info.path, info.offset, info.num_bytes, info.type_name, info.shape)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer.from_gguf(self._file.metadata)

    def tokenizer(self) -> Tokenizer:
        """From the vocabulary and merges of the metadata."""
        return self._tokenizer

    def signature(self) -> Signature:
        """Of the metadata's token strings."""
        return gguf_signature(self._file.metadata)


class TruncatedCheckpoint(Checkpoint):
    """The first layers of another checkpoint: a draft that is related to its target."""

    def __init__(self, inner: Checkpoint, num_layers: int, *, source: str) -> None:
        if not 1 <= num_layers <= inner.config.num_layers:
            raise ConfigError(
                f"{source!r} keeps {num_layers} layers; {inner.source} has 1 ... {inner.config.num_layers}."
            )
        self.source = source
        self.inner = inner
        self._num_layers = num_layers

    @property
    def config(self) -> ModelConfig:
        """The inner one with fewer layers."""
        return replace(self.inner.config, num_layers=self._num_layers)

    @property
    def fingerprint(self) -> str:
        """The inner one and the number of layers."""
        return f"{self.inner.fingerprint}-{self._num_layers}"

    def stored(self, name: str) -> Stored | None:
        """The inner one."""
        return self.inner.stored(name)

    def weights(self) -> WeightSource:
        """The inner ones; the tensors of the layers left out are not read."""
        return self.inner.weights()

    def draft_ids(self) -> list[int] | None:
        """The inner one's."""
        return self.inner.draft_ids()

    def tokenizer(self) -> TextCodec:
        """The inner one."""
        return self.inner.tokenizer()

    def save_tokenizer(self, directory: Path) -> None:
        """The inner one's."""
        self.inner.save_tokenizer(directory)

    def signature(self) -> Signature:
        """The inner one."""
        return self.inner.signature()


def open_checkpoint(
    source: str, *, hub_cache: Path | None = None, download: bool = True, target: Checkpoint | str | None = None
) -> Checkpoint:
    """Open a model.

    Args:
        source: a directory, a .gguf file, a hub id (`organisation/name[@revision]`), or `toy:...`.
        hub_cache: the hub's cache folder; None is the standard place.
        download: fetch a hub id that is not in the cache.
        target: of a draft, the model beside which it runs: some drafts borrow its embedding (`borrowed.py`).

    Raises:
        ConfigError: nothing of that name, an unknown architecture or feature.
        WeightsError: files that are damaged, incomplete or no model.
    """
    if source.startswith(TOY):
        from saguaro.models.toy import open_toy

        return open_toy(source, open_inner=lambda path: open_checkpoint(path, hub_cache=hub_cache, download=download))
    lender = partial(_lender, target, hub_cache=hub_cache, download=download)
    path = Path(source).expanduser()
    if os.path.isfile(path):  # unlike Path.is_file, false for what can be no path at all
        return _open_file(path, source)
    if os.path.isdir(path):
        return _open_directory(path, source, lender)
    if not hub.is_hub_id(source):
        raise ConfigError(
            f"there is no model {source!r}: no such directory or file, and neither a hub id (organisation/name) "
            "nor a toy model (toy:llama)."
        )
    found = hub.find_cached(source, cache=hub_cache)
    if found is None and not download:
        raise ConfigError(f"there is no directory {source!r}, and no model of that name in the hub's cache.")
    return _open_directory(found or hub.fetch(source, cache=hub_cache), source, lender)


def _lender(target: Checkpoint | str | None, *, hub_cache: Path | None, download: bool) -> Checkpoint | None:
    """The model that a draft may borrow from, opened."""
    return open_checkpoint(target, hub_cache=hub_cache, download=download) if isinstance(target, str) else target


def probe(source: str, *, hub_cache: Path | None = None) -> ModelConfig | None:
    """Check a model's name and kind without torch and without the network.

    Returns:
        Its configuration, or None for a hub id that would have to be downloaded first.

    Raises:
        ConfigError, WeightsError: as `open_checkpoint`.
    """
    unseen = hub.is_hub_id(source) and not os.path.exists(Path(source).expanduser())
    if unseen and hub.find_cached(source, cache=hub_cache) is None:
        return None
    return open_checkpoint(source, hub_cache=hub_cache, download=False).config


def _open_file(path: Path, source: str) -> Checkpoint:
    with path.open("rb") as file:
        magic = file.read(4)
    if magic == MAGIC:
        return GgufCheckpoint(path, source=source)
    if path.suffix == ".safetensors":
        raise ConfigError(f"{source!r} is a single safetensors file; give the directory that holds its config.json.")
    raise WeightsError(f"{source!r} is not a model: a GGUF file begins with 'GGUF', this one does not.")


def _open_directory(path: Path, source: str, lender: Callable[[], Checkpoint | None]) -> Checkpoint:
    if not (path / "config.json").exists():
        files = sorted(path.glob("*.gguf"))
        firsts = [file for file in files if "-of-" not in file.name or "-00001-of-" in file.name]
        if len(firsts) == 1:
            return GgufCheckpoint(firsts[0], source=source)
        if firsts:
            names = ", ".join(file.name for file in firsts[:4])
            raise ConfigError(f"{source!r} holds several GGUF files; name one of them: {names}.")
    content = _read_json(path / "config.json")
    if content is not None:
        from saguaro.models.borrowed import BorrowingCheckpoint
        from saguaro.models.eagle3_checkpoint import Eagle3Checkpoint, is_head

        if is_head(path, content):
            return Eagle3Checkpoint(path, content, source=source, lender=lender)
        if BORROWED in content:
            return BorrowingCheckpoint(path, content, source=source, target=lender())
    return DirectoryCheckpoint(path, source=source)


def own_ids(weights: WeightSource, config: ModelConfig, *, where: str) -> list[int] | None:
    """`Checkpoint.draft_ids` of a model whose map, if any, is the tensor `d2t`."""
    if config.draft_vocab is None:
        return None
    if DRAFT_TO_TARGET not in weights.shapes():
        return list(range(config.draft_vocab))
    return target_ids(weights.get(DRAFT_TO_TARGET).tolist(), vocab=config.vocab, where=where)


def check_tensors(weights: WeightSource, config: ModelConfig, *, where: str) -> None:
    """Raise WeightsError unless the tensors are those of the model, and of its vocabulary's map if it has its own."""
    own = config.draft_vocab is not None or config.eagle3 is not None
    expected, shapes = parameters(config), weights.shapes()
    if config.draft_vocab is not None and (config.draft_vocab < config.vocab or DRAFT_TO_TARGET in shapes):
        expected[DRAFT_TO_TARGET] = (config.draft_vocab,)
    check_names(
        expected,
        shapes,
        where=where,
        may_ignore=lambda name: is_harmless(name, tied=config.tied) or (own and name == TARGET_TO_DRAFT),
    )


def _read_json(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        value = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise WeightsError(f"{path} is damaged: {error}.") from error
    if not isinstance(value, dict):
        raise WeightsError(f"{path} does not hold a JSON object.")
    return value


def file_digest(paths: list[Path]) -> str:
    """Hash of names, sizes, times and of some pages spread over every file; reads a quarter of a megabyte a file."""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        state = path.stat()
        digest.update(f"{path.name} {state.st_size} {state.st_mtime_ns};".encode())
        with path.open("rb") as file:
            for index in range(SAMPLES):
                file.seek(max(0, state.st_size - SAMPLE_BYTES) * index // (SAMPLES - 1))
                digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()
