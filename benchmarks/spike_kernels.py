"""Milliseconds of each CPU kernel on one core, alone and while another core streams memory.

    taskset -c 0 python benchmarks/spike_kernels.py [--kinds int8,int4] [--quick] [--no-busy]

Weights are rotated over --rotate bytes so that no cache holds them. A figure is the median of --repeats calls; `least`
is their minimum. `bound` is weight bytes by the read bandwidth measured in the same run (the best of several windows).
The record goes to benchmarks/results/spike_kernels.json.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import torch

from saguaro import native
from saguaro.algorithm.noise import row_key
from saguaro.bench.machine import machine, read_bandwidth, versions
from saguaro.records import write_record

SHAPES = {
    "1.5B qkv": (1536, 2048), "1.5B o": (1536, 1536), "1.5B gate_up": (1536, 17920), "1.5B down": (8960, 1536),
    "1.5B head": (1536, 151936), "0.5B qkv": (896, 1152), "0.5B o": (896, 896), "0.5B gate_up": (896, 9728),
    "0.5B down": (4864, 896), "0.5B shortlist head": (896, 32768),
}  # fmt: skip
ROWS = (1, 2, 4, 6, 8, 12, 16)
VOCAB = 151_936
STREAM = """
import os, sys, numpy
os.sched_setaffinity(0, [int(sys.argv[1])])
block = numpy.ones(1 << 25, dtype=numpy.int64)
sys.stdout.write("ready\\n"); sys.stdout.flush()
while True:
    numpy.bitwise_or.reduce(block)
"""


def timed(call: Callable[[int], None], repeats: int) -> dict[str, float]:
    """Median and minimum, in milliseconds, of calls that get their number."""
    for number in range(3):
        call(number)
    times = []
    for number in range(repeats):
        start = time.perf_counter()
        call(number)
        times.append((time.perf_counter() - start) * 1e3)
    return {"ms": median(times), "least": min(times)}


def random_layer(kind: str, inputs: int, outputs: int) -> native.PackedLinear:
    """A layer of random bytes: packing real numbers would take longer than the measurement."""
    index = native.KINDS.index(kind)
    size = native.library().sgr_packed_bytes(index, outputs, inputs)
    tensors = {"weights": native.allocate(size)}
    if kind in ("int8", "int4"):
        tensors["weights"].random_(0, 256)
        padded = -(-outputs // 32) * 32
        tensors["scales"] = torch.full((padded,), 1e-3)
        if kind == "int4":
            tensors["mins"] = torch.full((padded,), -1.0)
    elif kind == "bfloat16":
        tensors["weights"].view(torch.bfloat16).normal_()
    else:
        tensors["weights"].view(torch.float32).normal_()
    return native.PackedLinear.restore(kind, outputs, inputs, tensors)


def linears(kind: str, shapes: list[str], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One entry a shape and number of rows."""
    for name in shapes:
        inputs, outputs = SHAPES[name]
        first = random_layer(kind, inputs, outputs)
        copies = max(1, min(400, options.rotate // first.nbytes))
        layers = [first, *(random_layer(kind, inputs, outputs) for _ in range(copies - 1))]
        for rows in ROWS:
            x, out, norm = torch.randn(rows, inputs), torch.empty(rows, outputs), torch.ones(inputs)

            def call(number: int, x: Any = x, out: Any = out, norm: Any = norm, layers: Any = layers) -> None:
                native.norm_linear(x, norm, 1e-6, layers[number % len(layers)], out)

            found = timed(call, options.repeats)
            yield {"kernel": "norm_linear", "kind": kind, "shape": name, "rows": rows, "bytes": first.nbytes, **found}


def sampling(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Noise and choice over the whole vocabulary, one row."""
    logits, key = torch.randn(64, VOCAB) * 3, torch.tensor([row_key(1, 0, 7)])
    noise_V, ids_1, warm_1 = torch.empty(VOCAB), torch.empty(1, dtype=torch.int32), torch.ones(1)
    cold_1 = torch.zeros(1)

    def argmax(temperature_1: torch.Tensor) -> Callable[[int], None]:
        return lambda n: native.argmax_noisy(logits[n % 64 : n % 64 + 1], key, temperature_1, ids_1)

    def top(count: int) -> Callable[[int], None]:
        ids, scores = torch.empty(1, count, dtype=torch.int32), torch.empty(1, count)
        return lambda n: native.top_noisy(logits[n % 64 : n % 64 + 1], key, warm_1, ids, scores)

    calls = {"gumbel": lambda _: native.gumbel((1, 2), noise_V), "argmax": argmax(cold_1)}
    calls |= {"noisy argmax": argmax(warm_1), "noisy top 8": top(8), "noisy top 64": top(64)}
    for name, call in calls.items():
        yield {"kernel": name, "kind": "float32", "shape": f"V {VOCAB}", "rows": 1, **timed(call, options.repeats)}


def attention(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One layer of attention at two contexts, pools rotated as the weights are."""
    for name, heads, groups, size in (("1.5B attention", 12, 2, 128), ("0.5B attention", 14, 2, 64)):
        for context in (128, 512):
            slots = 640
            angle = torch.randn(slots, size // 2)
            layers = [
                native.AttentionLayer(
                    num_heads=heads,
                    k_pool_SGD=pool(slots, groups, size),
                    v_pool_SGD=pool(slots, groups, size),
                    cos_PE=angle.cos(),
                    sin_PE=angle.sin(),
                )
                for _ in range(max(1, options.rotate // (slots * groups * size * 4)))
            ]
            for rows in (1, 4, 6, 8):
                positions = torch.arange(context, context + rows, dtype=torch.int32)
                view = native.PlanView(
                    positions_T=positions,
                    slots_T=positions.clone(),
                    row_T=torch.zeros(rows, dtype=torch.int32),
                    tables_RP=torch.arange(10, dtype=torch.int32)[None].contiguous(),
                    shared_T=positions + 1,
                    own_TS=None,
                    own_count_T=None,
                    page_size=64,
                )
                qkv, out = torch.randn(rows, (heads + 2 * groups) * size), torch.empty(rows, heads * size)

                def call(n: int, layers: Any = layers, view: Any = view, qkv: Any = qkv, out: Any = out) -> None:
                    native.rope_write_attend(qkv, layers[n % len(layers)], view, out)

                shape = f"{name} at {context}"
                found = timed(call, options.repeats)
                yield {"kernel": "rope_write_attend", "kind": "bfloat16", "shape": shape, "rows": rows, **found}


def pool(slots: int, groups: int, size: int) -> torch.Tensor:
    """Keys or values in memory as a real pool has it."""
    tensor = native.allocate(slots * groups * size * 2).view(torch.bfloat16).view(slots, groups, size)
    return tensor.normal_()


@contextmanager
def busy(core: int) -> Iterator[None]:
    """Another process streams memory on `core`."""
    process = subprocess.Popen([sys.executable, "-c", STREAM, str(core)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()


def table(runs: list[dict[str, Any]], bandwidth: float) -> dict[str, Any]:
    """A line for each kernel, kind, shape and state of the other core; a column for each number of rows."""
    lines: dict[tuple[str, ...], dict[int, dict[str, Any]]] = {}
    for run in runs:
        lines.setdefault((run["kernel"], run["kind"], run["shape"], run["other"]), {})[run["rows"]] = run
    rows = []
    for line, by_rows in lines.items():
        size = next(iter(by_rows.values())).get("bytes")
        bound = "–" if size is None else f"{size / bandwidth * 1e3:.3f}"
        rows.append([*line, bound, *(f"{by_rows[m]['ms']:.3f}" if m in by_rows else "–" for m in ROWS)])
    return {"columns": ["kernel", "weights", "shape", "other core", "bound", *(f"M={m}" for m in ROWS)], "rows": rows}


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default="int8,int4,bfloat16")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--repeats", type=int, default=51)
    parser.add_argument("--rotate", type=int, default=512 << 20, help="bytes of weights that calls go round")
    parser.add_argument("--other", type=int, default=max(os.sched_getaffinity(0)) + 1, help="core that streams")
    parser.add_argument("--no-busy", action="store_true", help="leave the measurement beside a streaming core out")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "spike_kernels.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs: list[dict[str, Any]] = []

    def measure(other: str) -> None:
        parts = [linears(kind, options.shapes.split(","), options) for kind in options.kinds.split(",")]
        for part in (*parts, sampling(options), attention(options)):
            for run in part:
                runs.append(run | {"other": other})
                sys.stdout.write(f"{run | {'other': other}}\n")

    bandwidth = max(read_bandwidth())
    measure("idle")
    if not options.no_busy:
        with busy(options.other):
            measure("streams")
    config = {"bandwidth": bandwidth, "repeats": options.repeats, "rotate": options.rotate, "vocab": VOCAB}
    record = {"machine": machine(), "versions": versions(), "config": config, "runs": runs}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    write_record(record | {"table": table(runs, bandwidth)}, options.json)
    for line in table(runs, bandwidth)["rows"]:
        sys.stdout.write("  ".join(str(cell).rjust(7) for cell in line) + "\n")


if __name__ == "__main__":
    main()
