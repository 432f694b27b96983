"""The simulator against the engine: tokens/s of AR, SD and SSD predicted from a calibration and measured in turns.

    python benchmarks/simulator.py --target T --draft D [--num-prompts 8] [--repeats 2]

One command calibrates, measures and compares, in about twelve minutes. First the rounds of the prompts are recorded, as
`saguaro calibrate` does, and what a round takes beside its passes is read from the trace of that (`calibrate/host.py`).
Then one engine in the paper's placement runs AR, SD and SSD over lookaheads 1 ... 4 and three budgets, prompt by prompt
in turns; step times are measured again between any two prompts, since this machine's change from minute to minute. Each
prompt is predicted by the step times around it (`simulate_engine`) from its recorded text and what that suggests to
come next, and a second time from laws, which are what a profile holds. Nothing is fitted to the speeds. Writes
results/simulator.json with all parts of a round, measured and predicted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from lanes import RESULTS, keep, log, pair, parser, prompts, seeded

from saguaro import LLM, RequestMetrics
from saguaro.algorithm.hints import hint_places
from saguaro.algorithm.odds import candidates_listed
from saguaro.algorithm.rounds import EndedRound, from_plain
from saguaro.calibrate.host import HostWork, host_work
from saguaro.calibrate.recording import Recording, record, recording_options
from saguaro.records import read_record
from saguaro.simulate.clock import Setting, Simulated
from saguaro.simulate.costs import Costs, measured
from saguaro.simulate.curves import evidence_of, evidence_without_proposal, walked
from saguaro.simulate.engine_run import simulate_engine
from saguaro.simulate.pairs import LawfulPair, Pair, RecordedPair

LOOKAHEADS, BUDGETS = (1, 2, 3, 4), (4, 6, 10)
VERIFY, STEP = (1, 2, 3, 4, 5), (1, 2, 3, 4, 5, 6, 8, 10)
LONGEST = 6
"""K of the recording."""
ROUNDS = 400
"""Simulated for each prompt, the same text over and over."""
Times = dict[str, dict[int, float]]
Places = list[list[tuple[int, int]]]
"""Of each prompt, what its text suggests (`hint_places`)."""


def settings() -> dict[str, Setting]:
    """What is compared, by name."""
    found = {"AR": Setting("ar")}
    found |= {f"SD, K {k}": Setting("sd", lookahead=k) for k in LOOKAHEADS}
    for k in LOOKAHEADS:
        found |= {f"SSD, K {k}, B {b}": Setting("ssd", lookahead=k, budget=b, fan_out="ranked") for b in BUDGETS}
    return found


def changes(setting: Setting) -> dict[str, Any]:
    """The same for the engine."""
    if setting.mode == "ar":
        return {"mode": "ar"}
    if setting.mode == "sd":
        return {"mode": "sd", "lookahead": setting.lookahead}
    own = {"lookahead": setting.lookahead, "budget": setting.budget}
    return {"mode": "ssd", **own, "fan_out": setting.fan_out, "fallback": "neural"}


def middle(before: Times, after: Times) -> Times:
    """Times between two measurements."""
    return {
        name: {rows: (seconds + after[name][rows]) / 2 for rows, seconds in each.items()}
        for name, each in before.items()
    }


def recorded(options: Any, texts: Sequence[str]) -> tuple[Recording, HostWork]:
    """The rounds of all prompts, one at a time, and what they took beside passes."""
    engine = {
        "target": options.target, "draft": options.draft, "dtype": options.dtype, "target_device": "cpu:0",
        "draft_device": "cpu:1", "max_model_len": 1024, "trace": True,
    }  # fmt: skip
    with LLM(**recording_options(engine, lookahead=LONGEST, candidates=max(BUDGETS) + 2, rows=1)) as llm:
        # Every setting but the first finds a draft whose short head has followed the text before, and so does the
        # recording. The tokens of a last round are not recorded, so there are some more.
        for _ in range(2):
            llm.trace()
            found = record(llm, texts, temperature=0.0, max_tokens=options.max_tokens + LONGEST + 1)
        host = host_work(llm.trace())
    return found, host


def measure(options: Any, texts: Sequence[str], expected: Recording) -> tuple[list[Times], dict[str, list[Any]]]:
    """Step times around each prompt and repeat, and the metrics of every setting for each of them.

    Raises:
        SystemExit: when a setting gives other tokens than the recording.
    """
    times: list[Times] = []
    found: dict[str, list[RequestMetrics]] = {name: [] for name in settings()}
    lanes = list(settings().items())
    with LLM(
        options.target, options.draft, mode="ssd", dtype=options.dtype, target_device="cpu:0", draft_device="cpu:1",
        lookahead=max(LOOKAHEADS), budget=max(BUDGETS), max_batch=1, max_model_len=1024,
    ) as llm:  # fmt: skip
        before = llm._open.measure_times(VERIFY, STEP, seconds=options.seconds)
        for turn in range(options.repeats * len(texts)):
            number = turn % len(texts)
            for name, setting in (*lanes[turn % len(lanes) :], *lanes[: turn % len(lanes)]):
                llm.configure(**changes(setting))
                [done] = llm.generate([texts[number]], seeded(0.0, options.max_tokens)(number))
                if list(done.token_ids) != expected.texts[number][1][: options.max_tokens]:
                    raise SystemExit(f"{name} gave other tokens than the recording of prompt {number}.")
                found[name].append(done.metrics)
            after = llm._open.measure_times(VERIFY, STEP, seconds=options.seconds)
            times.append(middle(before, after))
            before = after
            log.print(f"{turn + 1} of {options.repeats * len(texts)}")
    return times, found


def predict(
    setting: Setting,
    rounds: Sequence[EndedRound],
    times: Sequence[Times],
    host: HostWork,
    places: Places,
    *,
    longest: int,
) -> list[Simulated]:
    """A run for each prompt and repeat, from the first tokens of its own text."""
    listed = candidates_listed(setting.budget + 1)
    runs = []
    for turn, each in enumerate(times):
        number = turn % len(places)
        own = [one for one in rounds if one.request == number]
        known = RecordedPair(own, listed=listed, ends=True, longest=longest, known=rounds, hints=places[number])
        runs.append(simulate_engine(setting, costs(each, host), known, rounds=ROUNDS))
    return runs


def costs(times: Times, host: HostWork) -> Costs:
    """Of the two devices, and of the host work beside them."""
    return measured(times, link=host.link, handling=host.handling, between=host.between)


def parts(metrics: Sequence[RequestMetrics]) -> dict[str, float | None]:
    """Of a round, as measured."""

    def sums(*names: str) -> float:
        return float(sum(getattr(each, name) for each in metrics for name in names))

    rounds, tokens, looked = sums("rounds"), sums("rounds", "accepted"), sums("hits", "misses")
    return {
        "tokens_per_second": tokens / sums("decode_seconds"),
        "tokens_a_round": tokens / rounds,
        "hit_rate": sums("hits") / looked if looked else None,
        "depth": sums("hit_depth_sum") / sums("hits") if sums("hits") else None,
        "round_ms": 1e3 * sums("decode_seconds") / rounds,
        "verify_ms": 1e3 * sums("verify_seconds") / rounds,
        "wait_ms": 1e3 * sums("wait_depth_seconds", "wait_pending_seconds") / rounds,
    }


def simulated_parts(runs: Sequence[Simulated]) -> dict[str, float | None]:
    """The same of runs that have equal shares of the tokens, as the prompts have."""
    tokens = [run.tokens for run in runs]

    def mean(name: str) -> float:
        """Of a token, over prompts."""
        return sum(getattr(run, name) / count for run, count in zip(runs, tokens, strict=True)) / len(runs)

    rounds, hits, looked = mean("rounds"), mean("hits"), mean("looked_up")
    depths = [run.depth * run.hits / count for run, count in zip(runs, tokens, strict=True)]
    return {
        "tokens_per_second": 1 / mean("seconds"),
        "tokens_a_round": 1 / rounds,
        "hit_rate": hits / looked if looked else None,
        "depth": sum(depths) / len(runs) / hits if hits else None,
        "round_ms": 1e3 * mean("seconds") / rounds,
        "verify_ms": 1e3 * mean("verify_seconds") / rounds,
        "wait_ms": 1e3 * mean("waited_seconds") / rounds,
    }


def by_laws(
    setting: Setting, rounds: Sequence[EndedRound], times: Sequence[Times], host: HostWork, places: Places
) -> float:
    """Tokens/s from laws of all rounds, and step times of the middle of the run."""
    laws: Pair = LawfulPair(
        {"draft": evidence_of(walked(rounds, setting.lookahead)), "none": evidence_without_proposal(rounds)},
        listed=candidates_listed(setting.budget + 1), hints=[place for each in places for place in each],
    )  # fmt: skip
    whole = {
        name: {rows: median(each[name][rows] for each in times) for rows in values} for name, values in times[0].items()
    }
    return simulate_engine(setting, costs(whole, host), laws, rounds=4000).tokens_per_second


def table(points: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A row a setting: the measured number, then the predicted one."""

    def both(one: Mapping[str, Any], name: str, digits: int) -> list[str]:
        values = one["measured"][name], one["predicted"][name]
        return ["–" if value is None else f"{value:.{digits}f}" for value in values]

    return [
        [
            one["setting"], *both(one, "tokens_per_second", 1), f"{100 * one['error']:+.1f} %",
            f"{100 * one['error_by_laws']:+.1f} %", *both(one, "round_ms", 1), *both(one, "tokens_a_round", 2),
            *both(one, "hit_rate", 2),
        ]
        for one in points
    ]  # fmt: skip


def compare(
    options: Any,
    measured_parts: Mapping[str, Mapping[str, Any]],
    rounds: Sequence[EndedRound],
    times: Sequence[Times],
    host: HostWork,
    places: Places,
) -> list[dict[str, Any]]:
    """Measured and predicted parts of every setting. `measured_parts`: of all requests, and the speed of `each`."""
    points = []
    for name, setting in settings().items():
        known = measured_parts[name]
        runs = predict(setting, rounds, times, host, places, longest=options.max_tokens)
        predicted, speed = simulated_parts(runs), known["tokens_per_second"]
        points.append(
            {
                "setting": name,
                "measured": known,
                "predicted": {**predicted, "each": [run.tokens_per_second for run in runs]},
                "error": (predicted["tokens_per_second"] or 0.0) / speed - 1,
                "error_by_laws": by_laws(setting, rounds, times, host, places) / speed - 1,
            }
        )
    return points


def write(
    options: Any,
    points: list[dict[str, Any]],
    rounds: Sequence[EndedRound],
    times: list[Times],
    host: HostWork,
    places: Places,
) -> None:
    """The record; with its `rounds`, `times`, `host` and `hints` the predictions can be made again."""
    errors = [abs(one["error"]) for one in points]
    columns = [
        "setting", "tokens/s", "predicted", "error", "error by laws alone", "round, ms", "predicted ",
        "tokens a round", "predicted  ", "hit rate", "predicted   ",
    ]  # fmt: skip
    note = (
        f"{pair(options)}, cpu:0 and cpu:1; {options.num_prompts} prompts × {options.max_tokens} tokens × "
        f"{options.repeats}, step times measured between any two; host work {1e3 * host.handling:.2f} ms a round, "
        f"{1e3 * host.between:.2f} ms a pass of the draft, {1e3 * host.link:.2f} ms a message; median "
        f"error {100 * median(errors):.1f} %, largest {100 * max(errors):.1f} %"
    )
    plain = [json.dumps(each.plain()) for each in rounds]
    keep(
        "simulator",
        columns,
        table(points),
        note,
        points=points,
        times=times,
        rounds=plain,
        host=asdict(host),
        hints=places,
    )


def main() -> None:
    known = parser(__doc__ or "", num_prompts=8, max_tokens=64)
    known.add_argument("--repeats", type=int, default=2)
    known.add_argument("--seconds", type=float, default=1.5, help="of each of the three measurements of step times")
    known.add_argument("--again", action="store_true", help="predict the record that is there anew; nothing is run")
    options = known.parse_args()
    if options.again:
        record_ = read_record(RESULTS / "simulator.json")
        rounds = [from_plain(json.loads(each)) for each in record_["rounds"]]
        times = [numbered(each) for each in record_["times"]]
        speeds = {one["setting"]: one["measured"] for one in record_["points"]}
        host, places = HostWork(**record_["host"]), record_["hints"]
        write(options, compare(options, speeds, rounds, times, host, places), rounds, times, host, places)
        return
    texts = prompts(options.prompts, options.num_prompts)
    recording, host = recorded(options, texts)
    times, found = measure(options, texts, recording)
    speeds = {
        name: {**parts(each), "each": [parts([one])["tokens_per_second"] for one in each]}
        for name, each in found.items()
    }
    places = [hint_places(*each) for each in recording.texts]
    points = compare(options, speeds, recording.rounds, times, host, places)
    write(options, points, recording.rounds, times, host, places)


def numbered(times: Mapping[str, Mapping[str, float]]) -> Times:
    """Times as a file has them."""
    return {name: {int(rows): seconds for rows, seconds in each.items()} for name, each in times.items()}


if __name__ == "__main__":
    main()
