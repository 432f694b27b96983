"""EAGLE-3 heads as they are published: recognised by their tensors, read as their own config says, loaded strictly.

The authors' layout (`midlayer.*`), SpecForge's (the same, or `layers.N.*`) and that of speculators (a nested
`transformer_layer_config`) become one: the names of a decoder, with layer 0 twice as wide at its input. What config
files get wrong is not taken from them: layers are counted, and the width of the taps is that of `fc`. The head's own
config decides about rotary positions (base 10,000 where it is silent), never the target's, and its
`max_position_embeddings` is a length of training, not a limit. Heads of our own may be stored as int8
(`weights/int8_rows.py`); they name their target. Must not know: packing, engines.
Tests: tests/models/test_eagle3_config.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saguaro.errors import ConfigError, WeightsError
from saguaro.models.borrowed import check_lender, lender_of
from saguaro.models.checkpoint import BORROWED, Checkpoint, check_tensors, file_digest, own_ids
from saguaro.models.config import ModelConfig
from saguaro.models.eagle3_shape import Eagle3Shape
from saguaro.models.tokenizer import TextCodec
from saguaro.models.vocabulary import Signature
from saguaro.models.weights.int8_rows import Int8Rows
from saguaro.models.weights.names import (
    DRAFT_TO_TARGET,
    EMBEDDING,
    FINAL_NORM,
    FUSE,
    INPUT_NORM,
    hidden_norm,
    layer_name,
    tap_norm,
)
from saguaro.models.weights.pickled import NAME, PickledWeights
from saguaro.models.weights.safetensors import SafetensorsWeights, tensor_names
from saguaro.models.weights.source import WeightSource

if TYPE_CHECKING:
    import torch

USUAL_TAPS = 3
LONGEST = 1 << 20
"""Positions of a head: it has none beyond which it could not go on."""
_LAYER = re.compile(r"^model\.layers\.(\d+)\.")
_HINTS = ("draft_vocab_size", "eagle_config", "transformer_layer_config", "target_hidden_size")


def canonical(name: str) -> str:
    """The name of a head's tensor in the layout of a decoder; an unknown one keeps its own name."""
    name = name.removeprefix("model.")
    if name.startswith("midlayer."):
        return layer_name(0, name.removeprefix("midlayer."))
    if name.startswith("layers."):
        return f"model.{name}"
    return {"embed_tokens.weight": EMBEDDING, "norm.weight": FINAL_NORM}.get(name, name)


def is_head(directory: Path, config: Mapping[str, Any]) -> bool:
    """Whether a directory holds an EAGLE-3 head: no other model norms a hidden state beside its input.

    Raises:
        ConfigError: a head of the first two EAGLE papers.
    """
    names = tensor_names(directory)
    if not names and any(hint in config for hint in _HINTS) and (directory / NAME).exists():
        names = set(PickledWeights(directory).shapes())
    found = {canonical(name) for name in names}
    if FUSE in found and hidden_norm() not in found:
        raise ConfigError(f"{directory} holds a head of EAGLE or EAGLE-2; of such heads EAGLE-3's are supported.")
    return hidden_norm() in found


def read_config(content: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> ModelConfig:
    """The configuration of a head.

    Args:
        content: of its config.json.
        shapes: of its tensors, by canonical name.

    Raises:
        ConfigError, WeightsError: as `ModelConfig.from_json`; settings that contradict one another or were never seen.
    """
    nested = content.get("transformer_layer_config")
    flat = {**(nested or {}), **{name: value for name, value in content.items() if name != "transformer_layer_config"}}
    flat |= {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": _count_layers(shapes),
        "tie_word_embeddings": False,
    }
    if DRAFT_TO_TARGET in shapes and flat.get("draft_vocab_size") is None:
        flat["draft_vocab_size"] = shapes[DRAFT_TO_TARGET][0]
    config = ModelConfig.from_json(flat)
    shape = _shape_of(flat, shapes, config.hidden, residual_is_normed=nested is not None)
    return replace(config, eagle3=shape, max_position=LONGEST)


def _count_layers(shapes: Iterable[str]) -> int:
    found = {int(match[1]) for match in map(_LAYER.match, shapes) if match}
    if found != set(range(len(found))):
        raise WeightsError(f"the layers of the EAGLE-3 head are numbered {sorted(found)}.")
    return len(found)


def _shape_of(
    flat: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], hidden: int, *, residual_is_normed: bool
) -> Eagle3Shape:
    """`residual_is_normed`: what silence about that means, which differs between formats."""
    inner = flat.get("eagle_config") or {}
    stated = flat.get("eagle_aux_hidden_state_layer_ids") or inner.get("eagle_aux_hidden_state_layer_ids")
    width = shapes[FUSE][1] if FUSE in shapes else flat.get("target_hidden_size") or hidden
    many = len(stated or range(USUAL_TAPS)) if FUSE in shapes else 1
    one = flat.get("target_hidden_size") or (width // many if width % many == 0 else width)
    if width % one:
        raise WeightsError(f"fc of the EAGLE-3 head takes {width} numbers, which is no multiple of {one}.")
    shape = Eagle3Shape(
        target_hidden=one,
        num_taps=width // one,
        fused=FUSE in shapes,
        own_embedding=EMBEDDING in shapes,
        tap_norms=bool(flat.get("fc_norm")) or tap_norm(0) in shapes,
        input_norm=bool(flat.get("norm_before_fc")) or INPUT_NORM in shapes,
        norm_before_residual=bool(flat.get("norm_before_residual", residual_is_normed)),
        norm_output=_feeds_normed_state(flat, tap_norm(0) in shapes, nested=residual_is_normed),
        stated_taps=None if stated is None else tuple(stated),
    )
    if shape.tap_norms and shape.input_norm:
        raise ConfigError("the EAGLE-3 head norms its taps twice (fc_norm and norm_before_fc), which is not supported.")
    if not shape.fused and one != hidden:
        raise ConfigError(f"the EAGLE-3 head takes one tap of {one} numbers as a state of {hidden}, without fc.")
    if not shape.own_embedding and one != hidden:
        raise ConfigError(
            f"the EAGLE-3 head has no embedding, and the target's ({one} wide) does not fit its hidden size {hidden}."
        )
    return shape


def _feeds_normed_state(flat: Mapping[str, Any], tap_norms: bool, *, nested: bool) -> bool:
    """The key has two meanings: whether the state that is fed back is normed (heads with `fc_norm`), and in other
    files whether there is a norm before the head at all.
    """
    said = flat.get("norm_output")
    if said is False and not tap_norms and not nested:
        raise ConfigError(
            "the EAGLE-3 head says norm_output: false without fc_norm, which would mean no norm before its head; that "
            "is not supported."
        )
    return bool(said) and tap_norms


class RenamedWeights:
    """Tensors of another source by canonical name (see `WeightSource`).

    Raises:
        WeightsError: two tensors of one meaning.
    """

    def __init__(self, inner: WeightSource) -> None:
        self._inner = inner
        self._shapes = inner.shapes()
        self._name_of = {canonical(name): name for name in self._shapes}
        if len(self._name_of) < len(self._shapes):
            raise WeightsError("the EAGLE-3 head holds a tensor under two names.")

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Every tensor with its shape."""
        return {name: self._shapes[own] for name, own in self._name_of.items()}

    def get(self, name: str) -> torch.Tensor:
        """The tensor."""
        return self._inner.get(self._name_of[name])


class Eagle3Checkpoint(Checkpoint):
    """A directory with an EAGLE-3 head. Its vocabulary is its target's.

    Args:
        directory: of the head.
        content: of its config.json.
        source: what the user wrote.
        lender: opens the target beside which it is to run, if one is known.

    Raises:
        ConfigError: it names another target.
    """

    def __init__(
        self,
        directory: Path,
        content: Mapping[str, Any],
        *,
        source: str,
        lender: Callable[[], Checkpoint | None] = lambda: None,
    ) -> None:
        self.source = source
        self._directory = directory
        self._is_int8 = BORROWED in content
        if self._is_int8 and (target := lender()) is not None:
            check_lender(lender_of(directory, content), target, source=source)
        self._config = read_config(content, RenamedWeights(self._raw).shapes())

    @cached_property
    def _raw(self) -> SafetensorsWeights | PickledWeights | Int8Rows:
        if self._is_int8:
            return Int8Rows(self._directory)
        if any(self._directory.glob("*.safetensors")):
            return SafetensorsWeights(self._directory)
        return PickledWeights(self._directory)

    @property
    def config(self) -> ModelConfig:
        """From config.json and the tensors; `config.eagle3` is set."""
        return self._config

    @property
    def is_int8(self) -> bool:
        """Heads of our own may be."""
        return self._is_int8

    @cached_property
    def fingerprint(self) -> str:
        """Of config.json and of samples of every weight file."""
        return file_digest([self._directory / "config.json", *self._raw.files])

    def weights(self) -> WeightSource:
        """Canonical names."""
        weights = RenamedWeights(self._raw)
        check_tensors(weights, self._config, where=str(self._directory))
        return weights

    def draft_ids(self) -> list[int] | None:
        """By the tensor `d2t`."""
        return own_ids(self.weights(), self._config, where=self.source)

    def tokenizer(self) -> TextCodec:
        """A head has none."""
        raise ConfigError(
            f"{self.source!r} is an EAGLE-3 head; it can only be a draft, and its target has the tokenizer."
        )

    def signature(self) -> Signature:
        """A head has none."""
        raise ConfigError(f"{self.source!r} is an EAGLE-3 head, whose token ids are its target's.")
