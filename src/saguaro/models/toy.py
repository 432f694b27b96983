"""Models without files: tiny random decoders and Markov tables, for tests, examples and an offline demo.

    toy:llama?seed=0&vocab=512&layers=2&hidden=64&scale=4      also toy:qwen2 and toy:qwen3
    toy:llama?seed=0&noise=0.3                                 a relative: the weights of seed 0, disturbed
    toy:markov?seed=0&vocab=16&order=1&scale=2                 logits from a table; order=all hashes the whole prefix
    toy:truncate=4:PATH                                        the first 4 layers of another model

Weights are a function of (seed, tensor name), so models of one seed share their first layers and their embedding
whatever their depth. `scale` is the standard deviation of the logits: about 4 gives a law that is neither flat nor
certain. A model with noise n is related to the one without: at .1 the greedy token agrees about 7 times in 10, at .3
one in 3. Must not know: packing, rounds. Tests: tests/models/test_toy.py.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from saguaro.errors import ConfigError
from saguaro.models.byte_tokenizer import ByteTokenizer
from saguaro.models.checkpoint import TOY, Checkpoint, TruncatedCheckpoint
from saguaro.models.config import ModelConfig
from saguaro.models.families import FAMILIES
from saguaro.models.families.base import Family
from saguaro.models.vocabulary import Signature
from saguaro.models.weights.names import EMBEDDING, HEAD, parameters
from saguaro.models.weights.source import WeightSource
from saguaro.registry import nearest

if TYPE_CHECKING:
    import torch

MARKOV = "markov"
WHOLE_PREFIX = 0
DECODER_DEFAULTS = {
    "seed": "0",
    "vocab": "512",
    "layers": "2",
    "hidden": "64",
    "heads": "4",
    "kv_heads": "2",
    "head_dim": "",
    "ffn": "128",
    "scale": "4",
    "noise": "0",
    "noise_seed": "1",
    "max_len": "4096",
    "tied": "0",
    "eos": "1",
}
MARKOV_DEFAULTS = {
    "seed": "0",
    "vocab": "512",
    "order": "1",
    "scale": "4",
    "noise": "0",
    "noise_seed": "1",
    "max_len": "4096",
    "eos": "1",
}


def open_toy(source: str, *, open_inner: Callable[[str], Checkpoint]) -> Checkpoint:
    """Read a `toy:` string.

    Raises:
        ConfigError: an unknown kind or parameter (with the nearest name), or a value that is no number.
    """
    body = source.removeprefix(TOY)
    if body.startswith("truncate="):
        count, _, path = body.removeprefix("truncate=").partition(":")
        if not count.isdigit() or not path:
            raise ConfigError(f"{source!r} is not understood; write toy:truncate=4:PATH for the first 4 layers.")
        return TruncatedCheckpoint(open_inner(path), int(count), source=source)
    kind, _, query = body.partition("?")
    kinds = [*FAMILIES, MARKOV]
    if kind not in kinds:
        known = f"{', '.join(kinds)}, truncate=N:PATH"
        raise ConfigError(f"unknown toy model {kind!r}{nearest(kind, kinds)} Known: {known}.")
    values = dict(MARKOV_DEFAULTS if kind == MARKOV else DECODER_DEFAULTS)
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in values:
            raise ConfigError(f"unknown parameter {name!r} of toy:{kind}{nearest(name, values)}")
        values[name] = value
    try:
        return ToyCheckpoint(source, kind, values)
    except (ValueError, OverflowError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{source!r} holds a value that is no number: {error}.") from error


@dataclass(frozen=True)
class MarkovRule:
    """Numbers of a table model; see `markov.py`. `order` 0 means the whole prefix."""

    seed: int
    order: int
    scale: float
    noise: float
    noise_seed: int


class ToyCheckpoint(Checkpoint):
    """A toy model; `markov` is set for a table model and None for a decoder."""

    def __init__(self, source: str, kind: str, values: Mapping[str, str]) -> None:
        self.source = source
        self.markov: MarkovRule | None = None
        self._key = f"{kind}?" + "&".join(f"{name}={value}" for name, value in sorted(values.items()))
        self._tokenizer = ByteTokenizer(_count(values["vocab"], "vocab"), stops=values["eos"] != "0")
        self._seed, self._noise_seed = int(values["seed"]), int(values["noise_seed"])
        self._scale, self._noise = float(values["scale"]), float(values["noise"])
        if kind == MARKOV:
            order = WHOLE_PREFIX if values["order"] == "all" else _count(values["order"], "order")
            self.markov = MarkovRule(self._seed, order, self._scale, self._noise, self._noise_seed)
        self._config = _markov_config(self, values) if kind == MARKOV else _decoder_config(self, kind, values)

    @property
    def config(self) -> ModelConfig:
        """From the parameters."""
        return self._config

    @property
    def fingerprint(self) -> str:
        """All parameters, defaults included."""
        return hashlib.blake2b(self._key.encode(), digest_size=16).hexdigest()

    @property
    def stop_ids(self) -> frozenset[int]:
        """The end token, unless eos=0."""
        return self._tokenizer.stop_ids

    def weights(self) -> WeightSource:
        """Random tensors.

        Raises:
            ConfigError: a table model has none.
        """
        if self.markov is not None:
            raise ConfigError(f"{self.source!r} is a table model; it has no tensors.")
        return ToyWeights(self._config, self._seed, self._scale, noise=self._noise, noise_seed=self._noise_seed)

    def tokenizer(self) -> ByteTokenizer:
        """Bytes."""
        return self._tokenizer

    def signature(self) -> Signature:
        """Equal for equal vocabulary sizes."""
        return self._tokenizer.signature()


class ToyWeights:
    """Random tensors of a decoder, each from a generator keyed by seed and name (see `WeightSource`)."""

    def __init__(self, config: ModelConfig, seed: int, scale: float, *, noise: float, noise_seed: int) -> None:
        self._config = config
        self._shapes = parameters(config)
        self._seed, self._scale = seed, scale
        self._noise, self._noise_seed = noise, noise_seed

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Every parameter."""
        return self._shapes

    def get(self, name: str) -> torch.Tensor:
        """One tensor, float32: norms around 1, the rest centred, sized so that activations stay of order 1."""
        shape = self._shapes[name]
        values = _normal(f"{self._seed}/{name}", shape)
        if self._noise:
            values = values + self._noise * _normal(f"{self._seed}/{self._noise_seed}/noise/{name}", shape)
        if name.endswith("norm.weight"):
            return 1 + 0.1 * values
        if name == HEAD or (name == EMBEDDING and self._config.tied):
            return values * (self._scale / math.sqrt(self._config.hidden))
        if name == EMBEDDING or name.endswith("bias"):
            return values
        return values / math.sqrt(shape[1])


def _normal(key: str, shape: tuple[int, ...]) -> torch.Tensor:
    import torch

    seed = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little") >> 1
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _decoder_config(toy: ToyCheckpoint, kind: str, values: Mapping[str, str]) -> ModelConfig:
    family: Family = FAMILIES.get(kind)
    hidden, heads = _count(values["hidden"], "hidden"), _count(values["heads"], "heads")
    head_dim = _count(values["head_dim"], "head_dim") if values["head_dim"] else hidden // heads
    if family.default_head_dim and not values["head_dim"]:
        head_dim = 2 * (hidden // heads)  # a family whose head size is its own: never the quotient
    return ModelConfig(
        architecture=kind,
        num_layers=_count(values["layers"], "layers"),
        hidden=hidden,
        num_heads=heads,
        num_kv_heads=_count(values["kv_heads"], "kv_heads"),
        head_dim=head_dim,
        ffn=_count(values["ffn"], "ffn"),
        vocab=_count(values["vocab"], "vocab"),
        tied=values["tied"] != "0",
        rope_theta=10000.0,
        max_position=_count(values["max_len"], "max_len"),
        rms_eps=1e-5,
        qkv_bias=family.qkv_bias,
        qk_norm=family.qk_norm,
        stop_ids=toy.stop_ids,
    )


def _markov_config(toy: ToyCheckpoint, values: Mapping[str, str]) -> ModelConfig:
    """A pool of one layer with four numbers a token, in which the model keeps the token's id."""
    return ModelConfig(
        architecture=MARKOV,
        num_layers=1,
        hidden=4,
        num_heads=1,
        num_kv_heads=1,
        head_dim=4,
        ffn=1,
        vocab=_count(values["vocab"], "vocab"),
        tied=True,
        rope_theta=10000.0,
        max_position=_count(values["max_len"], "max_len"),
        rms_eps=1e-5,
        stop_ids=toy.stop_ids,
    )


def _count(text: str, name: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ConfigError(f"{name} of a toy model must be a whole number of 1 or more, not {text!r}.")
    return int(text)
