"""Whether a draft with another tokenizer can run beside its target, and how it is loaded.

Such a pair is exact in every mode: proposals are ids of the target, and what they are worth is the target's word. What
is refused here would not work, or not mean anything. Must not know: channels, rows.
Tests: tests/engine/test_through_text.py, tests/lossless/test_text_pairs.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from saguaro.config import EngineConfig
from saguaro.errors import ConfigError
from saguaro.models.checkpoint import Checkpoint, open_checkpoint
from saguaro.models.pairing import HEAD, OWN_IDS, TEXT, Pairing, lacking_bytes

if TYPE_CHECKING:
    from saguaro.engine.resolve import Placement, Plan
    from saguaro.models.causal_lm import CausalLM
    from saguaro.models.layers.base import LayerOps
    from saguaro.models.text_bridge import TextBridge

NAME = "text"
"""The drafter's name. It is never taken by itself: two tokenizers are more often a mistake than a wish."""
LONGER = 2
"""A draft may need so many tokens for one of the target's, in the mean of a text that fills the context."""


def reads_text(config: EngineConfig, relation: Pairing, draft: Checkpoint) -> bool:
    """Whether target and draft speak through text, as the user says.

    Raises:
        ConfigError: the tokenizers differ and nobody said so, or the draft could not, with what to do instead.
    """
    differ = relation.kind == TEXT
    if config.drafter != NAME:
        if differ:
            raise ConfigError(
                f"target and draft have different tokenizers: {relation.difference}; take a draft of this target's "
                f"family, or let this one draft through text (drafter {NAME!r})."
            )
        return False
    why = "target and draft have different tokenizers, and " if differ else ""
    if relation.kind in (HEAD, OWN_IDS) or draft.config.draft_vocab is not None:
        raise ConfigError(
            f"{why}a draft that knows its target's ids alone cannot speak through text; take the one that was made for "
            "this target, or a whole model."
        )
    if config.drafter_options:
        raise ConfigError(
            f"a draft that speaks through text has all of its head and no drafter option; leave "
            f"{config.drafter_options[0][0]!r} out."
        )
    lacking = lacking_bytes(draft.signature().read())
    if lacking:
        raise ConfigError(
            f"{why}the draft's has no token for {lacking[:1].decode()!r} alone, so that it cannot read every text; "
            "take a draft with a byte-level tokenizer."
        )
    return True


def load_with_bridge(place: Placement, plan: Plan, ops: LayerOps) -> tuple[CausalLM, TextBridge]:
    """The draft's model, and the way between its ids and the target's.

    Raises:
        ConfigError: the draft's tokenizer does not give back what it reads.
    """
    from saguaro.models.build import build_model  # torch: whoever only resolves a plan does without

    hub = Path(plan.hub_cache) if plan.hub_cache else None
    cache = Path(plan.cache_dir) if plan.cache_dir else None
    target = open_checkpoint(plan.target.source, hub_cache=hub)
    draft = open_checkpoint(place.source, hub_cache=hub, target=target)
    positions = min(draft.config.max_position, LONGER * place.max_positions + 64)
    model = build_model(draft, ops, max_positions=positions, cache_dir=cache)
    return model, open_bridge(target, draft, vocab=plan.vocab)


def open_bridge(target: Checkpoint, draft: Checkpoint, *, vocab: int) -> TextBridge:
    """The way between two checkpoints' ids; `vocab` ids of the target may be proposed."""
    from saguaro.models.text_bridge import TextBridge

    return TextBridge(target.tokenizer(), draft.tokenizer(), target_vocab=vocab, draft_vocab=draft.config.vocab)
