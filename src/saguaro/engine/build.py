"""Builds a worker from a plan, inside the process that will run it. Must not know: channels to the parent, loops.

Tests: tests/llm/test_llm.py, tests/lossless/.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from saguaro.algorithm.suffix_index import Corpus
from saguaro.config import fan_out_lists
from saguaro.drafting.drafters import DRAFTERS
from saguaro.drafting.drafters.base import Drafter
from saguaro.drafting.shortlist import SIZE, first_ids
from saguaro.engine.draft import DraftWorker
from saguaro.engine.eagle3 import OPTION, load_head
from saguaro.engine.from_profile import calibration, running_evidence
from saguaro.engine.resolve import DEFAULT_BUDGET, DEFAULT_LOOKAHEAD, Placement, Plan
from saguaro.engine.scheduler import Limits
from saguaro.engine.settings import Settings
from saguaro.engine.taps import AGAIN, TapSender
from saguaro.engine.target import Event, TargetWorker
from saguaro.engine.through_text import NAME as TEXT_DRAFTER
from saguaro.engine.through_text import load_with_bridge
from saguaro.engine.trace import Ring
from saguaro.errors import ConfigError
from saguaro.execution.kv_pool import KVPool
from saguaro.execution.runner import Runner
from saguaro.models.build import build_model, make_ops
from saguaro.models.causal_lm import CausalLM
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.decoder import Decoder
from saguaro.models.grammar import Grammars
from saguaro.models.layers.base import LayerOps
from saguaro.native import Team
from saguaro.paging import PagePool
from saguaro.transport.base import DraftPort

AUTO = "auto"
"""The shortlist of a draft where the user does not say."""


def load(place: Placement, plan: Plan, **head: Any) -> CausalLM:
    """The model of a placement, packed for its dtype. `head`: what `build_model` is told of a short head."""
    hub = Path(plan.hub_cache) if plan.hub_cache else None
    cache = Path(plan.cache_dir) if plan.cache_dir else None
    checkpoint = open_checkpoint(place.source, hub_cache=hub, target=plan.target.source)
    return build_model(checkpoint, ops_of(place), max_positions=place.max_positions + 64, cache_dir=cache, **head)


def ops_of(place: Placement) -> LayerOps:
    """The arithmetic of a placement."""
    team = Team(place.device.cores) if place.device.threads > 1 else None
    return make_ops("native", place.dtype, team=team)


AUTO_TREE = 15
"""Nodes that a tree may have where the engine decides how many pay."""


def tree_settings(tree: int | str) -> dict[str, Any]:
    """The fields of `Settings` that the option `tree` stands for."""
    return {"tree": AUTO_TREE if isinstance(tree, str) else tree, "prune": tree == "auto"}


def settings_of(plan: Plan) -> Settings:
    """What the proposer starts with; `auto` values not measured yet take their defaults."""
    config = plan.config
    lookahead = DEFAULT_LOOKAHEAD if plan.lookahead is None else plan.lookahead
    budget = DEFAULT_BUDGET if plan.budget is None else plan.budget
    return Settings(
        lookahead=lookahead,
        budget=budget,
        fan_out=plan.fan_out,
        branches=plan.mode == "ssd",
        fallback=plan.fallback,
        lockstep=config.pacing == "lockstep",
        rejection=config.verification == "rejection",
        saguaro_c=plan.saguaro_c,
        adapt_depth=config.lookahead == "auto" or plan.mode == "ssd",
        gears=plan.gears,
        auto_lookahead=config.lookahead == "auto" and plan.mode != "ar" and not fan_out_lists(config.fan_out),
        auto_budget=config.budget == "auto" and plan.mode == "ssd" and not fan_out_lists(config.fan_out),
        **tree_settings(config.tree),
    )


def grammars_of(plan: Plan) -> Grammars:
    """Grammars over the target's vocabulary, whichever side asks."""
    hub = Path(plan.hub_cache) if plan.hub_cache else None
    return Grammars.of(open_checkpoint(plan.target.source, hub_cache=hub), plan.vocab)


def ring_of(plan: Plan, role: str) -> Ring | None:
    """Where a worker of this process keeps its events, if they were asked for."""
    return Ring(role, os.getpid()) if plan.config.trace else None


def build_target(plan: Plan, emit: Callable[[list[Event]], None]) -> TargetWorker:
    """The target's worker, model loaded."""
    place, config = plan.target, plan.config
    model = load(place, plan)
    pool = KVPool(model.config, place.num_pages * config.page_size, model.pool_dtype)
    worker = TargetWorker(
        Runner(model, pool, config.page_size),
        PagePool(place.num_pages, config.page_size),
        vocab=plan.vocab,
        limits=Limits(
            rows=config.max_batch,
            length=plan.max_model_len,
            step=config.max_step_tokens,
            chunk=config.prefill_chunk,
            waiting=config.max_waiting,
        ),
        prefix_cache=config.prefix_cache,
        beside=_beside(plan),
        settings=settings_of(plan),
        grammars=grammars_of(plan),
        emit=emit,
        trace=ring_of(plan, "target"),
        acceptance=plan.acceptance,
        corpus=Corpus(config.fallback_corpus) if config.fallback_corpus else None,
    )
    if plan.taps:
        assert isinstance(model, Decoder)
        worker.taps = TapSender(model, worker.proposer, plan.taps)
        worker.scheduler.again = AGAIN
    return worker


def _beside(plan: Plan) -> int | None:
    """Prompt tokens beside decoding rows; None lets the measured times decide. Over loopback the order of things must
    not depend on a clock.
    """
    config = plan.config
    if isinstance(config.mixed_chunk, int):
        return config.mixed_chunk
    return config.prefill_chunk if config.channel == "loopback" else None


def build_drafter(plan: Plan) -> Drafter:
    """The drafter of a plan, model loaded."""
    place, config = plan.draft, plan.config
    assert place is not None
    options: dict[str, Any] = dict(config.drafter_options)
    sizes = {
        "num_slots": place.num_pages * config.page_size,
        "page_size": config.page_size,
        "max_positions": place.max_positions,
    }
    if plan.taps:
        options.pop(OPTION, None)
        head = load_head(
            place.source,
            plan.target.source,
            ops_of(place),
            max_positions=place.max_positions + 64,
            hub_cache=plan.hub_cache,
        )
        return DRAFTERS.get("eagle3" if config.drafter == "lm" else config.drafter)(head, **sizes, **options)
    if plan.through_text:
        model, bridge = load_with_bridge(place, plan, ops_of(place))
        return DRAFTERS.get(TEXT_DRAFTER)(model, bridge=bridge, target_vocab=plan.vocab, **sizes)
    size = options.pop("shortlist", AUTO)
    model = load(place, plan, **_short_head(place, plan, size, options.pop("spare", None)))
    if config.drafter == "eagle3":
        raise ConfigError(f"{place.source!r} is no EAGLE-3 head; leave drafter='eagle3' out.")
    return DRAFTERS.get(config.drafter)(model, **sizes, **options)


def _short_head(place: Placement, plan: Plan, size: Any, spare: Any) -> dict[str, Any]:
    """What the head of a draft keeps: all (an empty answer), a shortlist of `size` tokens, or a vocabulary of its own.

    A draft whose table is padded further than the target's must not draw what the target does not have.
    """
    hub = Path(plan.hub_cache) if plan.hub_cache else None
    checkpoint = open_checkpoint(place.source, hub_cache=hub)
    target, draft = open_checkpoint(plan.target.source, hub_cache=hub).config, checkpoint.config
    vocab, own = min(plan.vocab, draft.vocab), checkpoint.draft_ids()
    if own is not None:
        if size not in (AUTO, None) or spare is not None:
            raise ConfigError(f"the draft has a vocabulary of {len(own)} tokens of its own; leave the shortlist out.")
        return {"head_ids": [token for token in own if token < vocab]}
    if size == AUTO:
        size = SIZE if place.dtype in ("int8", "int4") else None
    for name, value in (("shortlist", size), ("spare", spare)):
        if value is not None and not isinstance(value, int):
            raise ConfigError(f"drafter option {name!r} is a number of tokens, not {value!r}.")
    if size is None or size >= vocab:
        return {} if vocab == draft.vocab else {"head_ids": range(vocab)}
    ids, fixed = first_ids(size, vocab=vocab, spare=spare, always=target.stop_ids | draft.stop_ids)
    return {"head_ids": ids, "fixed": fixed}


def build_draft(plan: Plan, port: DraftPort) -> DraftWorker:
    """The draft's worker, model loaded."""
    config = plan.config
    return DraftWorker(
        build_drafter(plan),
        port,
        page_size=config.page_size,
        prefill_chunk=config.prefill_chunk,
        prefix_cache=config.prefix_cache,
        grammars=grammars_of(plan),
        trace=ring_of(plan, "draft"),
        evidence=running_evidence(plan.profile, plan.fallback),
        calibration=calibration(plan.profile),
        observe=config.observe,
    )
