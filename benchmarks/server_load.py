"""What the server adds to its engine: 64 clients with disconnects, slow readers and bad bodies; processor time of the
server's own process a token; the delay from the end of a round in the target to its text at the client; and a stream
beside clients that read slowly.

    python benchmarks/server_load.py [--seconds 180] [--clients 64] [--mode ssd] [--rate 500]

Toy models, so that the engine leaves the machine to the server. Clients run in this process, on the same cores. The
record goes to benchmarks/results/server-load.json.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from saguaro import LLM, SamplingParams
from saguaro.bench.machine import machine, versions
from saguaro.records import write_record
from saguaro.testing.http_load import KINDS, Case, Client, Found, run_load
from saguaro.testing.server_process import AR, SSD, TARGET, ServerProcess, serving, wait_for

RESULT = Path(__file__).resolve().parent / "results" / "server-load.json"
PROMPTS = ("def f(x):", "The sun", "12345", "a", "abcabcabcabc")
STREAMS = {"stream": 1.0}
log = Console(stderr=True)


def make_cases(count: int, tokens: Sequence[int], **more: Any) -> list[Case]:
    """Requests and what the target alone answers."""
    sizes: dict[str, Any] = {"dtype": "float32", "max_model_len": 4096, "channel": "loopback"}
    fields = [
        {"prompt": PROMPTS[seed % len(PROMPTS)], "temperature": 0.9, "seed": seed,
         "max_tokens": tokens[seed % len(tokens)], "ignore_eos": True}
        for seed in range(count)
    ]  # fmt: skip
    params = [SamplingParams(**{k: v for k, v in each.items() if k != "prompt"}) for each in fields]
    with LLM(TARGET, mode="ar", **sizes) as llm:
        answers = llm.generate([str(each["prompt"]) for each in fields], params)
    return [Case({**each, **more}, answer.text) for each, answer in zip(fields, answers, strict=True)]


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share lies."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def load(server: ServerProcess, cases: Sequence[Case], options: argparse.Namespace) -> dict[str, Any]:
    """Every kind of client, as fast as they can."""
    asyncio.run(run_load("127.0.0.1", server.port, cases, clients=16, seconds=5, seed=9))
    wait_for(server.idle)
    before, tokens, cpu, begin = server.held(), server.metric("generation_tokens_total"), server.cpu_seconds(), now()
    found = asyncio.run(
        run_load("127.0.0.1", server.port, cases, clients=options.clients, seconds=options.seconds, seed=1)
    )
    wait_for(server.idle)
    seconds, tokens = now() - begin, server.metric("generation_tokens_total") - tokens
    wait_for(lambda: server.held().files <= before.files)
    after = server.held()
    return {
        "clients": options.clients,
        "seconds": seconds,
        "answers": dict(found.ended),
        "wrong": len(found.wrong),
        "first_wrong": found.wrong[:3],
        "tokens_per_second": tokens / seconds,
        "cpu_ms_a_token": 1e3 * (server.cpu_seconds() - cpu) / tokens,
        "files": [before.files, after.files],
        "threads": [before.threads, after.threads],
        "memory_growth": after.memory - before.memory,
    }


def paced(server: ServerProcess, cases: Sequence[Case], options: argparse.Namespace) -> dict[str, Any]:
    """Streams alone, at a given number of tokens a second in all; a fifth of them tell their rounds, so their delay."""
    told = [Case({**each.body, "saguaro": {"rounds": True}}, each.text) for each in cases[::4]]
    mixed = [*cases, *told]
    tokens, cpu, begin = server.metric("generation_tokens_total"), server.cpu_seconds(), now()
    found = asyncio.run(
        run_load(
            "127.0.0.1", server.port, mixed, clients=options.clients, seconds=options.paced_seconds, kinds=STREAMS,
            rate=options.rate, seed=2,
        )
    )  # fmt: skip
    wait_for(server.idle)
    seconds, tokens = now() - begin, server.metric("generation_tokens_total") - tokens
    return {
        "tokens_per_second": tokens / seconds,
        "wrong": len(found.wrong),
        "first_wrong": found.wrong[:3],
        "cpu_ms_a_token": 1e3 * (server.cpu_seconds() - cpu) / tokens,
        "delays": len(found.delays),
        "delay_ms": {name: 1e3 * quantile(found.delays, share) for name, share in (("p50", 0.5), ("p99", 0.99))},
    }


def beside(server: ServerProcess, cases: Sequence[Case], options: argparse.Namespace) -> dict[str, Any]:
    """Gaps between the pieces of one stream, beside clients that read as fast as they can, and slowly, in turns."""
    long = max(cases, key=lambda case: case.body["max_tokens"])
    gaps: dict[str, list[float]] = {"stream": [], "slow": []}
    wrong: list[str] = []

    async def scene(kind: str, seed: int) -> None:
        others = run_load(
            "127.0.0.1", server.port, cases, clients=8, seconds=options.beside_seconds, kinds={kind: 1.0},
            rate=options.rate / 2, seed=seed,
        )  # fmt: skip
        task = asyncio.create_task(others)
        while not task.done():
            seen, found = await arrivals(server.port, long)
            gaps[kind] += [later - earlier for earlier, later in itertools.pairwise(seen)]
            wrong.extend(found.wrong)
        wrong.extend((await task).wrong)

    for seed in range(3):
        for kind in gaps:
            asyncio.run(scene(kind, seed))
            wait_for(server.idle)
    return {
        "wrong": len(wrong),
        "first_wrong": wrong[:3],
        "gap_ms": {
            kind: {name: 1e3 * quantile(each, share) for name, share in (("p50", 0.5), ("p99", 0.99))}
            for kind, each in gaps.items()
        },
    }


async def arrivals(port: int, case: Case) -> tuple[list[float], Found]:
    """When the pieces of one stream came."""
    client = Client("127.0.0.1", port, Found(), random.Random(0), times=[])
    await client.one("stream", case)
    assert client.times is not None
    return client.times, client.found


def now() -> float:
    """Seconds."""
    return time.monotonic()


def rows(figures: dict[str, Any]) -> list[list[str]]:
    """The table of a record."""
    loaded, paced_, beside_ = figures["load"], figures["paced"], figures["beside"]
    answers = sum(loaded["answers"].values())
    gaps = beside_["gap_ms"]
    return [
        [f"{loaded['clients']} clients of every kind for {loaded['seconds']:.0f} s: answers, of them wrong",
         f"{answers}, {loaded['wrong']}"],
        ["the same: tokens/s", f"{loaded['tokens_per_second']:.0f}"],
        ["the same: open files and sockets, threads, before and after",
         f"{loaded['files'][0]} and {loaded['files'][1]}, {loaded['threads'][0]} and {loaded['threads'][1]}"],
        ["the same: memory grew by", f"{loaded['memory_growth'] / (1 << 20):.0f} MiB"],
        ["the same: processor time of the server's process a token", f"{loaded['cpu_ms_a_token']:.2f} ms"],
        [f"streams at {paced_['tokens_per_second']:.0f} tokens/s: processor time of the server's process a token",
         f"{paced_['cpu_ms_a_token']:.2f} ms"],
        ["the same: from the end of a round to its text at the client, p50 and p99",
         f"{paced_['delay_ms']['p50']:.1f} and {paced_['delay_ms']['p99']:.1f} ms"],
        ["gaps of a stream beside 8 quick readers, p50 and p99",
         f"{gaps['stream']['p50']:.1f} and {gaps['stream']['p99']:.1f} ms"],
        ["gaps of a stream beside 8 slow readers, p50 and p99",
         f"{gaps['slow']['p50']:.1f} and {gaps['slow']['p99']:.1f} ms"],
    ]  # fmt: skip


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--paced-seconds", type=float, default=60.0)
    parser.add_argument("--beside-seconds", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rate", type=float, default=500.0, help="tokens a second of all paced streams together")
    parser.add_argument("--mode", choices=("ar", "ssd"), default="ssd")
    parser.add_argument("--json", type=Path, default=RESULT)
    options = parser.parse_args()
    busy = os.getloadavg()[0]
    cases = make_cases(64, (8, 24, 64, 200))
    figures: dict[str, Any] = {}
    arguments = (*(SSD if options.mode == "ssd" else AR), "--max-batch", "16", "--log-level", "warning")
    with serving(*arguments) as server:
        for name, part in (("load", load), ("paced", paced), ("beside", beside)):
            figures[name] = part(server, cases, options)
            log.print(f"{name}: {figures[name]}")
        assert server.stop() == 0
    config = {name: value for name, value in vars(options).items() if name != "json"} | {"kinds": KINDS}
    note = f"toy models of two layers, {options.mode.upper()}, 16 rows; clients on the same cores, "
    note += f"beside other work (load {busy:.1f})"
    found = {"machine": machine(), "versions": versions(), "config": {**config, "serve": list(arguments)}}
    write_record({**found, "figures": figures, "table": {"columns": ["", "measured"], "rows": rows(figures)},
                  "note": f"{note}; {machine()['cpu']}, {machine()['cores']} cores"}, options.json)  # fmt: skip
    assert not any(part["wrong"] for part in figures.values())


if __name__ == "__main__":
    main()
