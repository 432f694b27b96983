"""Refuses what cannot work before torch is imported and before any weights load: a sentence in well under two seconds.

`engine.resolve` knows what cannot work (devices, files, pairs of tokenizers, sizes) and needs no torch; here it is
asked early, and prompts are measured against the context. Must not know: how anything is run.
Tests: tests/cli/test_bad_input.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from saguaro.cli.options import folders
from saguaro.config import EngineConfig
from saguaro.errors import RequestRefused
from saguaro.request import SamplingParams

if TYPE_CHECKING:
    from saguaro.engine.resolve import Plan
    from saguaro.models.tokenizer import TextCodec


@dataclass(frozen=True)
class Checked:
    """A configuration that can run here, weights unread."""

    plan: Plan

    @property
    def context(self) -> int:
        """Prompt and output together, in tokens."""
        return self.plan.max_model_len

    @cached_property
    def tokenizer(self) -> TextCodec:
        """The target's tokenizer."""
        from saguaro.models.checkpoint import open_checkpoint

        return open_checkpoint(self.plan.target.source, hub_cache=folders().get("hub_cache")).tokenizer()


def check_engine(config: EngineConfig) -> Checked:
    """Look at everything that can be known before weights load.

    Raises:
        ConfigError: for a device that does not exist, a model that is none, a pair that does not fit, a wrong size.
        WeightsError: for a checkpoint that is damaged or of an unknown kind.
    """
    from saguaro.engine.resolve import resolve

    found = {name: str(path) for name, path in folders().items()}
    return Checked(resolve(config, cache_dir=found.get("cache_dir"), hub_cache=found.get("hub_cache")))


def check_prompts(checked: Checked, prompts: Sequence[str | list[int]]) -> None:
    """Refuse a prompt that leaves no room for one token of output.

    Raises:
        RequestRefused: naming the prompt, its length and the context.
    """
    for number, prompt in enumerate(prompts, start=1):
        # A token stands for at least one byte, so a short text needs no encoding here (2: begin and end marks).
        if isinstance(prompt, str) and len(prompt.encode()) + 2 < checked.context:
            continue
        length = len(prompt if isinstance(prompt, list) else checked.tokenizer.encode(prompt))
        if length >= checked.context:
            which = f"prompt {number}" if len(prompts) > 1 else "the prompt"
            raise RequestRefused(
                f"{which} has {length} tokens and the context is {checked.context}, output included; shorten the "
                "prompt or raise --max-model-len if the model allows it."
            )


def check_grammar(checked: Checked, params: SamplingParams) -> None:
    """Refuse a grammar that cannot be compiled over the target's vocabulary.

    Raises:
        RequestRefused: with the library's reason.
    """
    if params.constrained:
        from saguaro.models.grammar import Grammars, grammar_text

        tokenizer = checked.tokenizer
        Grammars(lambda: tokenizer, checked.plan.vocab, tokenizer.stop_ids).compile(grammar_text(params))
