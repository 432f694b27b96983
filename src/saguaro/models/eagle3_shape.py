"""What makes a model an EAGLE-3 head, and which layers of its target it listens to. Numbers only.

A head is a draft of one or a few layers that does not read text alone: beside the embedding of each token it takes
*taps*, hidden states of some layers of the target at the token before (or, where the target has not got there yet, its
own). Layers are named by their inputs: tap n is what enters layer n, and n = number of layers is what leaves the last
one, before the final norm. Source: the EAGLE-3 paper, the published heads and their config files. Must not know:
tensors, files. Tests: tests/models/test_eagle3_config.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from saguaro.errors import ConfigError


@dataclass(frozen=True)
class Eagle3Shape:
    """What a head has beside a decoder's sizes (`ModelConfig`).

    Attributes:
        target_hidden: width of one tap.
        num_taps: taps of a token; their widths together are `tap_width`.
        fused: a matrix (`fc`) makes one hidden state of all taps; without it there is one tap of the head's own width.
        own_embedding: the head brings an embedding; otherwise it uses the target's.
        tap_norms: each tap is normed before that (`fc_norm`).
        input_norm: all taps together are (`input_norm`).
        norm_before_residual: the residual stream begins with the normed hidden state instead of the plain one.
        norm_output: the state that is fed back is the normed one.
        stated_taps: layers as the head's config numbers them; None where it says nothing.
    """

    target_hidden: int
    num_taps: int
    fused: bool
    own_embedding: bool
    tap_norms: bool = False
    input_norm: bool = False
    norm_before_residual: bool = False
    norm_output: bool = False
    stated_taps: tuple[int, ...] | None = None

    @property
    def tap_width(self) -> int:
        """Numbers that the target gives for each token."""
        return self.num_taps * self.target_hidden


def usual_taps(num_layers: int) -> tuple[int, int, int]:
    """The layers whose inputs the published heads listen to, for a target of `num_layers`."""
    return 2, num_layers // 2, num_layers - 3


def tap_layers(shape: Eagle3Shape, num_layers: int, asked: Sequence[int] | None = None) -> tuple[int, ...]:
    """The layers whose inputs a head listens to, in the order in which it takes them.

    Config files number them in two ways, by the inputs and by the outputs of layers. The usual layers are recognised in
    either; others have to be stated by the user.

    Args:
        shape: of the head.
        num_layers: of the target.
        asked: what the user says (inputs of layers); it overrides all else.

    Raises:
        ConfigError: layers that cannot be told, or that the target does not have.
    """
    usual, found = usual_taps(num_layers), shape.stated_taps
    if asked is not None:
        taps = tuple(asked)
    elif (found is None and shape.num_taps == len(usual)) or (
        found is not None and found in (usual, tuple(layer - 1 for layer in usual))
    ):
        taps = usual
    else:
        said = "does not say which" if found is None else f"names the layers {list(found)}, by inputs or by outputs"
        raise ConfigError(
            f"the EAGLE-3 head {said}; give drafter_options={{'taps': [...]}} with the {shape.num_taps} layers of the "
            f"target whose inputs it listens to (0 ... {num_layers})."
        )
    if len(taps) != shape.num_taps or any(not isinstance(n, int) or not 0 <= n <= num_layers for n in taps):
        raise ConfigError(
            f"the EAGLE-3 head listens to {shape.num_taps} layers of the target (0 ... {num_layers}), not {list(taps)}."
        )
    return taps
