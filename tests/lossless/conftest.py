"""Toy pairs for exactness: p and q are functions of the whole prefix (random decoders), drawn independently."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from saguaro import LLM, SamplingParams

TARGET = "toy:llama?seed=1&vocab=48&layers=2"
DRAFT = "toy:llama?seed=1&vocab=48&layers=2&noise=0.15"
PROMPTS = [[1, 2, 3], [4, 5, 6, 7, 8, 9, 10], [11], [12, 13, 14, 15], [16, 17]]
SIZES: dict[str, Any] = {"max_model_len": 128, "page_size": 8, "prefill_chunk": 4, "max_batch": 5}


@contextmanager
def opened(
    mode: str,
    dtype: str,
    channel: str,
    *,
    drafter: str | None = None,
    target: str = TARGET,
    draft_: str = DRAFT,
    **options: Any,
) -> Iterator[LLM]:
    """An engine over a toy pair; `drafter` names a script played with the target's own weights."""
    draft = None if mode == "ar" else draft_
    if drafter is not None:
        draft = target
        options["drafter"] = "saguaro.testing.drafters:ScriptedDrafter"
        options["drafter_options"] = {"script": drafter, "shortlist": None}
    llm = LLM(target, draft, mode=mode, dtype=dtype, channel=channel, **{**SIZES, **options})
    try:
        yield llm
    finally:
        llm.close()


def params(temperature: float, *, max_tokens: int = 14, seed: int = 5) -> SamplingParams:
    return SamplingParams(temperature=temperature, max_tokens=max_tokens, seed=seed, ignore_eos=True)
