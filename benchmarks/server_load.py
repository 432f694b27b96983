"""What the server adds to its engine: 64 clients with disconnects, slow readers and bad bodies; processor time of the
server's own process a token; the delay from the end of a round in the target to its text at the client; and a stream
beside clients that read slowly, or nothing at all.

    python benchmarks/server_load.py [--seconds 180] [--clients 64] [--rate 500]

Toy models, so that the engine leaves the machine to the server. The target has the first core. The server's own process
has the last one, which it shares with the clients and, in SSD, with the draft: what somebody with two cores would do.
Clients of the paced part note when something came and read it afterwards; what they take comes on top of the delays.
The record goes to benchmarks/results/server-load.json. Takes about seven minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
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
LOAD = {**KINDS, "stuck": 0.03}
KINDS_BESIDE = {
    "stream": "8 quick readers",
    "slow": "8 slow readers of the same",
    "large": "8 quick readers of large answers",
    "stuck": "8 clients that never read the same",
}
READ_SECONDS = 3
SERVE = ("--max-batch", "16", "--log-level", "warning", "--read-seconds", str(READ_SECONDS), "--target-device", "cpu:0")
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


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds below which half of them, and 99 in a hundred, lie."""
    ordered = sorted(seconds)
    return {
        name: 1e3 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]
        for name, share in (("p50", 0.5), ("p99", 0.99))
    }


def load(server: ServerProcess, cases: Sequence[Case], options: argparse.Namespace) -> dict[str, Any]:
    """Every kind of client, as fast as they can."""
    asyncio.run(run_load("127.0.0.1", server.port, cases, clients=16, seconds=5, seed=9))
    wait_for(server.idle)
    before, tokens, cpu, begin = server.held(), server.metric("generation_tokens_total"), server.cpu_seconds(), now()
    found = asyncio.run(
        run_load("127.0.0.1", server.port, cases, clients=options.clients, seconds=options.seconds, kinds=LOAD, seed=1)
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
    """Streams alone, at a given number of tokens a second in all: as anybody asks for them, for what they cost the
    server; then a fifth of them tell their rounds (`saguaro.rounds`, an option for this purpose), so their delay.
    """
    told = [Case({**each.body, "saguaro": {"rounds": True}}, each.text) for each in cases[::5]]  # of every length
    plain, _ = _streams(server, cases, options)
    timed, delays = _streams(server, [*cases, *told], options)
    return {
        **plain,
        "wrong": plain["wrong"] + timed["wrong"],
        "first_wrong": [*plain["first_wrong"], *timed["first_wrong"]],
        "cpu_ms_a_token_with_rounds": timed["cpu_ms_a_token"],
        "delays": len(delays),
        "delay_ms": quantiles(delays),
    }


def _streams(
    server: ServerProcess, cases: Sequence[Case], options: argparse.Namespace
) -> tuple[dict[str, Any], list[float]]:
    """Half of the time of the paced part; the delays that were told, in seconds."""
    asyncio.run(run_load("127.0.0.1", server.port, cases, clients=8, seconds=2, kinds=STREAMS, rate=options.rate))
    wait_for(server.idle)
    tokens, cpu, own, begin = server.metric("generation_tokens_total"), server.cpu_seconds(), time.process_time(), now()
    found = asyncio.run(
        run_load(
            "127.0.0.1", server.port, cases, clients=options.clients, seconds=options.paced_seconds / 2, kinds=STREAMS,
            rate=options.rate, seed=2, keep=True,
        )
    )  # fmt: skip
    own = time.process_time() - own
    wait_for(server.idle)
    seconds, tokens = now() - begin, server.metric("generation_tokens_total") - tokens
    cpu = server.cpu_seconds() - cpu
    found.read_kept()
    figures = {
        "tokens_per_second": tokens / seconds,
        "tokens_a_request": tokens / found.ended["stream"],
        "wrong": len(found.wrong),
        "first_wrong": found.wrong[:3],
        "cpu_ms_a_token": 1e3 * cpu / tokens,
        "client_cpu_ms_a_token": 1e3 * own / tokens,
    }
    return figures, found.delays


def beside(server: ServerProcess, cases: Sequence[Case], options: argparse.Namespace) -> dict[str, Any]:
    """Gaps between the pieces of one stream, beside clients that read as fast as they can, slowly, and not at all, in
    turns. Who never reads asks for a large answer, so that there is something to wait for.
    """
    long = max(cases, key=lambda case: case.body["max_tokens"])
    gaps: dict[str, list[float]] = {kind: [] for kind in KINDS_BESIDE}
    wrong: list[str] = []
    left: list[float] = []

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
        found = await task
        wrong.extend(found.wrong)
        left.extend(found.left)

    for seed in range(3):
        for kind in gaps:
            asyncio.run(scene(kind, seed))
            wait_for(server.idle)
    return {
        "wrong": len(wrong),
        "first_wrong": wrong[:3],
        "gap_ms": {kind: quantiles(each) for kind, each in gaps.items()},
        "left": len(left),
        "left_after_seconds": [min(left), max(left)],
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
    loaded, beside_ = figures["load"], figures["beside"]
    answers = sum(loaded["answers"].values())
    found = [
        [f"{loaded['clients']} clients of every kind for {loaded['seconds']:.0f} s, SSD: answers, of them wrong",
         f"{answers}, {loaded['wrong']}"],
        ["the same: tokens/s", f"{loaded['tokens_per_second']:.0f}"],
        ["the same: open files and sockets, threads, before and after",
         f"{loaded['files'][0]} and {loaded['files'][1]}, {loaded['threads'][0]} and {loaded['threads'][1]}"],
        ["the same: memory grew by", f"{loaded['memory_growth'] / (1 << 20):.0f} MiB"],
        ["the same: processor time of the server's process a token", f"{loaded['cpu_ms_a_token']:.2f} ms"],
    ]  # fmt: skip
    for mode in ("ar", "ssd"):
        each = figures[f"paced_{mode}"]
        found += [
            [f"streams at {each['tokens_per_second']:.0f} tokens/s, {mode.upper()}: processor time of the server's "
             "process a token", f"{each['cpu_ms_a_token']:.3f} ms"],
            ["the same, where a fifth of the streams tells its rounds", f"{each['cpu_ms_a_token_with_rounds']:.3f} ms"],
            ["these: from the end of a round to its text at the client, p50 and p99",
             f"{each['delay_ms']['p50']:.1f} and {each['delay_ms']['p99']:.1f} ms"],
        ]  # fmt: skip
    for kind, name in KINDS_BESIDE.items():
        gaps = beside_["gap_ms"][kind]
        found.append(
            [f"gaps of a stream beside {name}, SSD, p50 and p99", f"{gaps['p50']:.1f} and {gaps['p99']:.1f} ms"]
        )
    first, last = beside_["left_after_seconds"]
    found.append([f"clients that never read, and after how long they were left (--read-seconds {READ_SECONDS})",
                  f"{beside_['left']}, {first:.1f}-{last:.1f} s"])  # fmt: skip
    return found


def measure(options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """The figures, and how the servers were started."""
    cores = sorted(os.sched_getaffinity(0))
    cases = make_cases(64, (8, 24, 64, 200))
    gc.collect()
    gc.freeze()  # pauses of the clients would be taken for the server's
    figures: dict[str, Any] = {}
    draft = ("--draft-device", f"cpu:{len(cores) - 1}")
    started = {"ar": [*AR, *SERVE], "ssd": [*SSD, *SERVE, *draft]}
    for mode, parts in (("ar", (paced,)), ("ssd", (paced, beside, load))):
        with serving(*started[mode]) as server:
            server.pin(cores[-1])
            os.sched_setaffinity(0, {cores[-1]})
            for part in parts:
                name = f"paced_{mode}" if part is paced else part.__name__
                figures[name] = part(server, cases, options)
                log.print(f"{name}: {figures[name]}")
            assert server.stop() == 0
        os.sched_setaffinity(0, cores)
    return figures, started


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--paced-seconds", type=float, default=60.0)
    parser.add_argument("--beside-seconds", type=float, default=7.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rate", type=float, default=500.0, help="tokens a second of all paced streams together")
    parser.add_argument("--json", type=Path, default=RESULT)
    options = parser.parse_args()
    busy = os.getloadavg()[0]
    figures, started = measure(options)
    config = {name: value for name, value in vars(options).items() if name != "json"} | {"kinds": LOAD}
    note = "toy models of two layers, 16 rows; target on the first core, server, clients and draft on the last, "
    note += f"beside other work (load {busy:.1f})" if busy > 0.7 else f"machine otherwise free (load {busy:.1f})"
    found = {"machine": machine(), "versions": versions(), "config": {**config, "serve": started}}
    write_record({**found, "figures": figures, "table": {"columns": ["", "measured"], "rows": rows(figures)},
                  "note": f"{note}; {machine()['cpu']}, {machine()['cores']} cores"}, options.json)  # fmt: skip
    assert not any(part["wrong"] for part in figures.values())


if __name__ == "__main__":
    main()
