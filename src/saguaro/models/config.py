"""What a model is: one frozen value, read once from config.json or from GGUF metadata.

Both spellings of every key are accepted (`rope_scaling` and `rope_parameters`, `type` and `rope_type`); what the
decoder cannot compute is refused here, by name, before any weight is touched. Sources: the published config files and
the GGUF key list. Must not know: torch, tensors, devices. Tests: tests/models/test_config.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from saguaro.errors import ConfigError, WeightsError
from saguaro.models.eagle3_shape import Eagle3Shape
from saguaro.models.families import FAMILIES
from saguaro.models.families.base import Family
from saguaro.registry import nearest

ROPE_TYPES = ("default", "linear", "llama3", "yarn", "divisors")

# Texts of tokens that end a turn or a document in the families read here; a GGUF names one of them as `eos` only.
END_TEXTS = frozenset(
    {"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|im_end|>", "<|endoftext|>", "<|end|>", "<|eot|>", "</s>"}
)


@dataclass(frozen=True)
class RopeScaling:
    """How rotation frequencies are stretched; `kind` is one of `ROPE_TYPES` and decides which fields count.

    `divisors` (kind "divisors", from a GGUF's `rope_freqs` tensor) holds head_dim / 2 numbers by which the plain
    frequencies are divided.
    """

    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 8192
    attention_factor: float | None = None
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    divisors: tuple[float, ...] = ()


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and constants of one decoder.

    `vocab` counts rows of logits, padding included; a tokenizer may have fewer tokens. `tied` says that the head is the
    embedding and is not read from the file. `stop_ids` is a set: every id after which the model has finished.
    `draft_vocab` counts the rows of a draft's head that has some of the vocabulary only, by a map in the file (`d2t`).
    `eagle3` is set where the model is an EAGLE-3 head and no model of its own.

    Raises:
        ConfigError: when sizes contradict one another.
    """

    architecture: str
    num_layers: int
    hidden: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied: bool
    rope_theta: float
    max_position: int
    rms_eps: float
    rope: RopeScaling = field(default_factory=RopeScaling)
    qkv_bias: bool = False
    qk_norm: bool = False
    stop_ids: frozenset[int] = frozenset()
    bos_id: int | None = None
    draft_vocab: int | None = None
    eagle3: Eagle3Shape | None = None

    def __post_init__(self) -> None:
        for name in ("num_layers", "hidden", "num_heads", "num_kv_heads", "head_dim", "ffn", "vocab", "max_position"):
            if getattr(self, name) < 1:
                raise ConfigError(f"the model's {name} must be 1 or more, not {getattr(self, name)}.")
        if self.num_heads % self.num_kv_heads:
            raise ConfigError(f"{self.num_heads} heads cannot share {self.num_kv_heads} key-value heads evenly.")
        if self.head_dim % 2:
            raise ConfigError(f"head_dim {self.head_dim} is odd; rotary positions need an even one.")
        if self.rope.divisors and len(self.rope.divisors) != self.head_dim // 2:
            raise WeightsError(f"rope_freqs has {len(self.rope.divisors)} values; head_dim {self.head_dim} needs half.")
        if self.draft_vocab is not None and not 1 <= self.draft_vocab <= self.vocab:
            raise ConfigError(
                f"draft_vocab_size {self.draft_vocab} is not within the vocabulary of {self.vocab} tokens."
            )
        if self.draft_vocab is not None and self.tied:
            raise ConfigError("a head with a vocabulary of its own (draft_vocab_size) cannot be tied to the embedding.")

    @property
    def head_rows(self) -> int:
        """Rows of the head: the vocabulary, or a draft's own."""
        return self.vocab if self.draft_vocab is None else self.draft_vocab

    @property
    def qkv_rows(self) -> int:
        """Outputs of the fused q, k, v projection, in that order."""
        return (self.num_heads + 2 * self.num_kv_heads) * self.head_dim

    def kv_bytes_per_token(self, bytes_per_value: int) -> int:
        """Bytes of keys and values that one token keeps in the pool, over all layers; an EAGLE-3 head also keeps the
        token's state.
        """
        state = 0 if self.eagle3 is None else self.hidden
        return (2 * self.num_layers * self.num_kv_heads * self.head_dim + state) * bytes_per_value

    @classmethod
    def from_json(cls, config: Mapping[str, Any], *, generation: Mapping[str, Any] | None = None) -> ModelConfig:
        """Read the content of config.json, and of generation_config.json for further stop ids.

        Raises:
            ConfigError: unknown architecture or rope type, or a feature that the decoder does not compute.
            WeightsError: a required key is missing, or the weights are quantised in a way that is not read here.
        """
        family = _family_of(config)
        _refuse_unsupported(config, family)
        hidden, heads = _need(config, "hidden_size"), _need(config, "num_attention_heads")
        quotient = family.default_head_dim or hidden // heads
        rope_theta, rope = _rope_of(config)
        stops = {*_ids(config.get("eos_token_id")), *_ids((generation or {}).get("eos_token_id"))}
        return cls(
            architecture=family.name,
            num_layers=_need(config, "num_hidden_layers"),
            hidden=hidden,
            num_heads=heads,
            num_kv_heads=config.get("num_key_value_heads") or heads,
            head_dim=config.get("head_dim") or quotient,
            ffn=_need(config, "intermediate_size"),
            vocab=_need(config, "vocab_size"),
            tied=bool(config.get("tie_word_embeddings", False)),
            rope_theta=rope_theta,
            rope=rope,
            max_position=config.get("max_position_embeddings", 2048),
            rms_eps=float(config.get("rms_norm_eps", 1e-6)),
            qkv_bias=family.qkv_bias,
            qk_norm=family.qk_norm,
            stop_ids=frozenset(stops),
            bos_id=next(iter(_ids(config.get("bos_token_id"))), None),
            draft_vocab=None if config.get("draft_vocab_size") is None else _need(config, "draft_vocab_size"),
        )

    @classmethod
    def from_gguf(
        cls, metadata: Mapping[str, Any], *, vocab: int, tied: bool, divisors: tuple[float, ...] = ()
    ) -> ModelConfig:
        """Read GGUF metadata.

        Args:
            metadata: scalar keys and values of the file.
            vocab: rows of the head (or of the embedding when tied); the metadata often does not say.
            tied: the file has no `output.weight`.
            divisors: the file's `rope_freqs` tensor, the only trace that llama3 scaling leaves in a GGUF.

        Raises:
            ConfigError, WeightsError: as `from_json`.
        """
        name = str(metadata.get("general.architecture"))
        if name not in FAMILIES:
            raise ConfigError(_unknown_architecture(name, list(FAMILIES)))
        family: Family = FAMILIES.get(name)

        def key(suffix: str, default: Any = None) -> Any:
            value = metadata.get(f"{name}.{suffix}", default)
            if value is None:
                raise WeightsError(f"the GGUF file lacks the key {name}.{suffix}; it is not a complete model.")
            return value

        hidden, heads = key("embedding_length"), key("attention.head_count")
        head_dim = key("attention.key_length", None if family.default_head_dim else hidden // heads)
        if key("attention.value_length", head_dim) != head_dim:
            raise ConfigError("keys and values of different head size are not supported.")
        if key("rope.dimension_count", head_dim) != head_dim:
            raise ConfigError("rotating only part of a head is not supported.")
        if key("attention.sliding_window", 0):
            raise ConfigError("the model uses a sliding attention window, which is not supported.")
        stops = _ids([metadata.get(f"tokenizer.ggml.{which}_token_id") for which in ("eos", "eot", "eom")])
        return cls(
            architecture=family.name,
            num_layers=key("block_count"),
            hidden=hidden,
            num_heads=heads,
            num_kv_heads=key("attention.head_count_kv", heads),
            head_dim=head_dim,
            ffn=key("feed_forward_length"),
            vocab=vocab,
            tied=tied,
            rope_theta=float(key("rope.freq_base", 10000.0)),
            rope=_gguf_rope(metadata, name, divisors),
            max_position=key("context_length"),
            rms_eps=float(key("attention.layer_norm_rms_epsilon")),
            qkv_bias=family.qkv_bias,
            qk_norm=family.qk_norm,
            stop_ids=frozenset(stops),
            bos_id=metadata.get("tokenizer.ggml.bos_token_id"),
        )


def _family_of(config: Mapping[str, Any]) -> Family:
    """The family by `architectures`, or by `model_type` when that is absent; never by a path or a name."""
    families: list[Family] = [FAMILIES.get(name) for name in FAMILIES]
    architectures = config.get("architectures") or []
    for family in families:
        if any(name in family.hf_architectures for name in architectures):
            return family
        if not architectures and config.get("model_type") == family.name:
            return family
    found = architectures[0] if architectures else config.get("model_type")
    if found is None:
        raise ConfigError("config.json names no architecture; this does not look like a language model.")
    raise ConfigError(_unknown_architecture(str(found), [name for f in families for name in f.hf_architectures]))


def _unknown_architecture(name: str, known: list[str]) -> str:
    return f"the architecture {name!r} is not supported{nearest(name, known)} Supported: {', '.join(known)}."


def _refuse_unsupported(config: Mapping[str, Any], family: Family) -> None:
    """Refuse what would load and then compute something else."""
    layers = config.get("num_hidden_layers", 0)
    windowed = config.get("use_sliding_window") and config.get("max_window_layers", 0) < layers
    if windowed or any(kind != "full_attention" for kind in config.get("layer_types") or ()):
        raise ConfigError("the model uses a sliding attention window, which is not supported.")
    if config.get("hidden_act", "silu") != "silu":
        raise ConfigError(f"the activation {config['hidden_act']!r} is not supported; this decoder uses silu.")
    if config.get("mlp_bias") or (config.get("attention_bias") and not family.qkv_bias):
        raise ConfigError(f"biases in the attention or MLP of a {family.name} model are not supported.")
    if config.get("quantization_config"):
        method = config["quantization_config"].get("quant_method", "an unknown method")
        raise WeightsError(f"the weights are quantised with {method}; use the unquantised files or a GGUF.")


def _rope_of(config: Mapping[str, Any]) -> tuple[float, RopeScaling]:
    """Base frequency and scaling from either spelling: `rope_parameters`, or `rope_theta` with `rope_scaling`."""
    old = config.get("rope_scaling") or {}
    values: dict[str, Any] = {**old, **(config.get("rope_parameters") or {})}
    if "full_attention" in values:
        values = dict(values["full_attention"])
    theta = float(values.get("rope_theta") or config.get("rope_theta") or 10000.0)
    kind = values.get("rope_type") or values.get("type") or "default"
    if kind not in ROPE_TYPES[:-1]:
        known = ", ".join(ROPE_TYPES[:-1])
        raise ConfigError(f"the rope type {kind!r} is not supported{nearest(str(kind), ROPE_TYPES)} Known: {known}.")
    if values.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0)) != 1.0:
        raise ConfigError("rotating only part of a head is not supported.")
    if kind == "default":
        return theta, RopeScaling()
    if kind == "yarn" and (values.get("mscale") or values.get("mscale_all_dim")):
        raise ConfigError("yarn with mscale is not supported.")
    required = {"linear": (), "llama3": ("low_freq_factor", "high_freq_factor"), "yarn": ()}[kind]
    for name in ("factor", *required):
        if name not in values:
            raise ConfigError(f"rope type {kind!r} needs {name!r}, which the model's config lacks.")
    original = values.get("original_max_position_embeddings") or config.get("max_position_embeddings", 8192)
    return theta, RopeScaling(
        kind=kind,
        factor=float(values["factor"]),
        low_freq_factor=float(values.get("low_freq_factor", 1.0)),
        high_freq_factor=float(values.get("high_freq_factor", 4.0)),
        original_max_position=int(original),
        attention_factor=values.get("attention_factor"),
        beta_fast=float(values.get("beta_fast") or 32.0),
        beta_slow=float(values.get("beta_slow") or 1.0),
        truncate=bool(values.get("truncate", True)),
    )


def _gguf_rope(metadata: Mapping[str, Any], name: str, divisors: tuple[float, ...]) -> RopeScaling:
    kind = metadata.get(f"{name}.rope.scaling.type", "none")
    if divisors:
        if kind not in ("none", "llama3"):
            raise ConfigError(f"the GGUF file has both rope_freqs and rope scaling {kind!r}, which is not supported.")
        return RopeScaling(kind="divisors", divisors=divisors)
    if kind == "none":
        return RopeScaling()
    if kind not in ("linear", "yarn"):
        raise ConfigError(f"the rope type {kind!r} is not supported in a GGUF file; known: linear, yarn.")
    original = metadata.get(f"{name}.rope.scaling.original_context_length", metadata[f"{name}.context_length"])
    factor = float(metadata[f"{name}.rope.scaling.factor"])
    return RopeScaling(kind=kind, factor=factor, original_max_position=int(original))


def _need(config: Mapping[str, Any], name: str) -> int:
    value = config.get(name)
    if not isinstance(value, int):
        raise WeightsError(f"config.json lacks a whole number for {name!r}; it does not describe a complete model.")
    return value


def _ids(value: int | Iterable[int | None] | None) -> list[int]:
    """An id, a list of ids or nothing, as a list."""
    if value is None:
        return []
    return [value] if isinstance(value, int) else [item for item in value if item is not None]
