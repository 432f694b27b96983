"""Whether an EAGLE-3 head fits its target, which layers it listens to, and how it is loaded.

Must not know: channels, rows. Tests: tests/models/test_eagle3_config.py, tests/lossless/test_eagle3.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from saguaro.config import EngineConfig
from saguaro.drafting.drafters import DRAFTERS
from saguaro.errors import ConfigError
from saguaro.models.checkpoint import Checkpoint, open_checkpoint
from saguaro.models.config import ModelConfig
from saguaro.models.eagle3_shape import tap_layers

if TYPE_CHECKING:
    from saguaro.models.eagle3 import Eagle3Head
    from saguaro.models.layers.base import LayerOps

OPTION = "taps"
NO_TREE = "an EAGLE-3 head proposes chains; leave tree out."


def check_head(head: Checkpoint, target: Checkpoint) -> None:
    """Raise ConfigError unless the head was made for a target of these sizes."""
    config, shape = head.config, head.config.eagle3
    assert shape is not None
    for what, own, theirs in (
        ("hidden size", shape.target_hidden, target.config.hidden),
        ("vocabulary", config.vocab, target.config.vocab),
    ):
        if own != theirs:
            raise ConfigError(
                f"the EAGLE-3 head {head.source!r} was made for a target with a {what} of {own}; {target.source} has "
                f"{theirs}."
            )
    if getattr(target, "markov", None) is not None:
        raise ConfigError(f"{target.source!r} is a table model without layers that an EAGLE-3 head could listen to.")


def taps_of(config: EngineConfig, draft: ModelConfig, target: ModelConfig) -> dict[str, Any]:
    """The fields of a plan about taps: none for other drafts.

    Raises:
        ConfigError: layers that cannot be told, or that the target does not have; proposals that are to be trees.
    """
    options = dict(config.drafter_options)
    if draft.eagle3 is None:
        if OPTION in options and config.drafter in DRAFTERS:
            raise ConfigError(f"drafter option {OPTION!r} is for EAGLE-3 heads, and {config.draft!r} is none.")
        return {}
    if config.tree:
        raise ConfigError(NO_TREE)
    unknown = [name for name in options if name != OPTION]
    if unknown and config.drafter in DRAFTERS:
        raise ConfigError(f"an EAGLE-3 head has the drafter option {OPTION!r} only, not {unknown[0]!r}.")
    asked = _layers(options[OPTION]) if OPTION in options else None
    return {"taps": tap_layers(draft.eagle3, target.num_layers, asked), "tap_width": draft.eagle3.tap_width}


def _layers(value: Any) -> list[Any]:
    """A list, one number, or numbers by comma as the command line has them."""
    if isinstance(value, str):
        value = [int(part) if part.strip().isdigit() else None for part in value.split(",")]
    found = list(value) if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(layer, int) for layer in found):
        raise ConfigError(f"drafter option {OPTION!r} is a list of layers of the target, as 2,16,29.")
    return found


def load_head(source: str, target: str, ops: LayerOps, *, max_positions: int, hub_cache: str | None) -> Eagle3Head:
    """A head, packed for its dtype."""
    from saguaro.models.eagle3 import build_head  # torch: whoever only resolves a plan does without

    hub = Path(hub_cache) if hub_cache else None
    head, of = (open_checkpoint(each, hub_cache=hub) for each in (source, target))
    return build_head(head, of, ops, max_positions=max_positions)
