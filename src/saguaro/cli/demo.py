"""`saguaro demo`: the same prompts by AR, SD and SSD one after another, a table, and a comparison of the outputs.

The placement is the paper's: AR and SD on the target's core, SSD adds a core for the draft. Same launch, mailbox and
workers as everywhere (`LLM`). Must not know: how decoding works. Tests: tests/cli/test_demo.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from saguaro.bench.equality import first_difference
from saguaro.bench.figures import waits
from saguaro.bench.settings import BenchSettings, Lane, lanes
from saguaro.cli.checks import check_engine
from saguaro.cli.fetch import is_here
from saguaro.cli.model_sets import QWEN_LARGE, QWEN_SMALL, directory
from saguaro.cli.options import ENGINE_FLAGS, engine_options, llm_arguments
from saguaro.cli.parser import Parser, at_least_one, number, whole
from saguaro.config import EngineConfig
from saguaro.errors import ConfigError
from saguaro.request import RequestMetrics, SamplingParams

PROMPTS = (
    "Write a Python function that merges two sorted lists into one sorted list, with a docstring and an example.",
    "Write a Python class for a bank account with deposit, withdraw and a history of transactions.",
    "Explain step by step how binary search works, then give the code.",
)
TOY_PROMPTS = ("Once upon a time", "def add(a, b):", "The desert at night")
TOY_TARGET = "toy:llama?seed=0&layers=4&hidden=128&ffn=256"
TOY_DRAFT = "toy:llama?seed=0&layers=4&hidden=128&ffn=256&noise=0.03"
# Toy models take less time than a message: in lockstep the target waits until all branches are full.
TOY_ENGINE = {"target": TOY_TARGET, "draft": TOY_DRAFT, "lookahead": 4, "budget": 12, "pacing": "lockstep"}
TOY_NOTE = (
    "Toy models show that the machinery works; they are far too small for speculation to pay, and run in lockstep."
)
PIPE_WIDTH = 140  # columns of the table where there is no terminal
TITLES = {
    "ar": "AR: the target alone",
    "sd": "SD: draft, then verify",
    "ssd": "SSD: draft while verifying",
}


def add_arguments(parser: Parser) -> None:
    """Flags of the sub-command."""
    parser.add_argument("--toy", action="store_true", help="tiny random models: seconds, no download, no sense")
    parser.add_argument(
        "--prompts", type=at_least_one, default=len(PROMPTS), help=f"how many prompts (default {len(PROMPTS)})"
    )
    parser.add_argument("--max-tokens", type=at_least_one, help="tokens of each output (default 96; 48 with --toy)")
    parser.add_argument("--temperature", type=number, default=0.0, help="0 is greedy (default)")
    parser.add_argument("--seed", type=whole, default=0, help="key of the noise (default 0)")
    parser.add_argument("--plain", action="store_true", help="no columns and colours")
    for name in ("target", "draft", "target_device", "draft_device", "dtype", "lookahead", "budget", "fan_out"):
        kind, text = ENGINE_FLAGS[name]
        parser.add_argument("--" + name.replace("_", "-"), type=kind, default=argparse.SUPPRESS, metavar="X", help=text)


@dataclass
class Outcome:
    """What one mode did on all prompts."""

    lane: Lane
    token_ids: list[list[int]] = field(default_factory=list)
    metrics: list[RequestMetrics] = field(default_factory=list)
    wait_ms: dict[str, float] = field(default_factory=dict)

    @property
    def tokens_per_second(self) -> float:
        """Tokens after the first of each output, over decoding time."""
        seconds = sum(m.decode_seconds for m in self.metrics)
        return sum(len(ids) - 1 for ids in self.token_ids) / seconds if seconds else 0.0


def run(options: argparse.Namespace) -> int:
    """Decode, show, compare; exit status 1 when the outputs differ."""
    engine = {**_models(options), **{k: v for k, v in engine_options(options).items() if k not in ("target", "draft")}}
    max_tokens = options.max_tokens or (48 if options.toy else 96)
    texts = _texts(options)
    params = SamplingParams(temperature=options.temperature, seed=options.seed, max_tokens=max_tokens)
    every = lanes(BenchSettings(engine=engine, prompts=texts))
    configs = [EngineConfig.from_options(**lane.options) for lane in every]
    checked = [check_engine(config) for config in configs][-1]
    tokenizer = checked.tokenizer
    chat = not options.toy and not str(engine["target"]).startswith("toy:")
    prompts = [tokenizer.encode_chat([{"role": "user", "content": t}]) if chat else tokenizer.encode(t) for t in texts]

    from saguaro import LLM
    from saguaro.cli.demo_view import Column, Pieces, open_view

    columns = [Column(TITLES[lane.mode]) for lane in every]
    outcomes = []
    with open_view(columns, plain=options.plain).shown() as view:
        for lane, config, column in zip(every, configs, columns, strict=True):
            outcome = Outcome(lane)
            view.status(column, "loads ...")
            with LLM(**llm_arguments(config)) as llm:
                view.status(column, f"runs on {lane.devices}")
                before = llm.statistics()
                for text, prompt in zip(texts, prompts, strict=True):
                    view.pieces(column, [(f"\n» {text}\n", "prefill")])
                    pieces = Pieces(tokenizer)
                    _decode(llm, prompt, params, outcome, lambda delta: view.pieces(column, list(pieces.split(delta))))  # noqa: B023
                    view.pieces(column, [("\n", "prefill")])
                outcome.wait_ms = waits(before, llm.statistics())
            view.status(column, f"{outcome.tokens_per_second:.1f} tokens/s on {lane.devices}")
            outcomes.append(outcome)
    return _finish(outcomes, note=TOY_NOTE if options.toy else "")


def _decode(
    llm: Any, prompt: Sequence[int], params: SamplingParams, outcome: Outcome, show: Callable[[Any], None]
) -> None:
    """One prompt of one mode, shown as it comes."""
    ids: list[int] = []
    for delta in llm.stream(prompt, params):
        ids += delta.token_ids
        show(delta)
        if delta.metrics is not None:
            outcome.metrics.append(delta.metrics)
    outcome.token_ids.append(ids)


def _models(options: argparse.Namespace) -> dict[str, Any]:
    """Target and draft: as given, toys, or the Qwen pair, fetched when it is not here."""
    target, draft = getattr(options, "target", None), getattr(options, "draft", None)
    if (target is None) != (draft is None):
        raise ConfigError("give --target and --draft together, or neither.")
    if target is not None:
        if options.toy:
            raise ConfigError("--toy brings its own models; leave out --target and --draft.")
        return {"target": target, "draft": draft}
    if options.toy:
        return dict(TOY_ENGINE)
    folder = directory()
    if not all(is_here(model, folder) for model in (QWEN_LARGE, QWEN_SMALL)):
        from saguaro.cli.pull import pull

        pull((QWEN_SMALL, QWEN_LARGE), folder)
    return {"target": str(folder / QWEN_LARGE.name), "draft": str(folder / QWEN_SMALL.name)}


def _texts(options: argparse.Namespace) -> list[str]:
    every = TOY_PROMPTS if options.toy else PROMPTS
    if options.prompts > len(every):
        raise ConfigError(f"the demo has {len(every)} prompts, not {options.prompts}.")
    return list(every[: options.prompts])


def _finish(outcomes: Sequence[Outcome], *, note: str) -> int:
    """The table and the comparison."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    table = Table(
        caption="waits: milliseconds a round that the target waited for a deeper branch, for a missed row, to hand over"
    )
    for head in HEADS:
        table.add_column(head, justify="left" if head in ("", "devices") else "right")
    for outcome in outcomes:
        table.add_row(*_cells(outcome, outcomes[0]))
    console.print(table)
    if note:
        console.print(note)
    same, sentence = compare(outcomes)
    console.print(sentence, style="bold green" if same else "bold red")
    return 0 if same else 1


HEADS = (
    "", "devices", "tokens/s", "speed-up", "tokens a round", "hit rate", "depth", "waits: depth", "miss", "hand-over",
    "first token ms",
)  # fmt: skip


def _cells(outcome: Outcome, first: Outcome) -> list[str]:
    m = outcome.metrics
    rounds, hits = sum(x.rounds for x in m), sum(x.hits for x in m)
    looked = hits + sum(x.misses for x in m)
    speed, base = outcome.tokens_per_second, first.tokens_per_second
    waits_ = [
        outcome.wait_ms.get(name) if outcome.lane.mode != "ar" else None for name in ("depth", "pending", "handover")
    ]
    return [
        outcome.lane.mode.upper(),
        outcome.lane.devices,
        f"{speed:.1f}",
        f"{speed / base:.2f} ×" if base else "–",
        f"{1 + sum(x.accepted for x in m) / rounds:.2f}" if rounds else "–",
        f"{hits / looked:.2f}" if looked else "–",
        f"{sum(x.hit_depth_sum for x in m) / hits:.2f}" if hits else "–",
        *("–" if value is None else f"{value:.2f}" for value in waits_),
        f"{1000 * sum(x.time_to_first_token for x in m) / len(m):.0f}" if m else "–",
    ]


def compare(outcomes: Sequence[Outcome]) -> tuple[bool, str]:
    """Whether all modes gave the same token ids, and a sentence that says so."""
    first = outcomes[0]
    for other in outcomes[1:]:
        where = first_difference(first.token_ids, other.token_ids)
        if where is not None:
            return False, (
                f"The outputs differ: {other.lane.mode.upper()} from {first.lane.mode.upper()} at prompt "
                f"{where['prompt'] + 1}, token {where['position'] + 1}."
            )
    tokens = sum(map(len, first.token_ids))
    number_ = {2: "two", 3: "three"}.get(len(outcomes), str(len(outcomes)))
    return True, f"The {number_} texts are identical: {tokens} tokens compared, id by id."
