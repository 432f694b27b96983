"""The order of runs, the record, the comparison of outputs; engines are scripted here, real in test_session.py and
cli/test_bench.py."""

import json
import time

import pytest

from saguaro.bench.equality import equal_everywhere
from saguaro.bench.load import Delivery
from saguaro.bench.run import model_name, new_record, pieces, run, total_requests, turns
from saguaro.bench.settings import BenchSettings, Setting, lanes
from saguaro.request import Completion, RequestMetrics


class Scripted:
    """Answers with ids made of prompt, seed and position; `wrong` modes change one token."""

    opened: list["Scripted"]

    def __init__(self, wrong=()):
        self.opened, self.warmed, self.calls, self.wrong = [], [], [], wrong

    def __call__(self, **options):
        llm = Scripted(self.wrong)
        llm.options, llm.warmed, llm.calls, llm.closed = options, self.warmed, self.calls, False
        self.opened.append(llm)
        return llm

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True

    def generate(self, prompts, params):
        self.warmed.append((self.options["mode"], prompts, params.max_tokens))

    def statistics(self):
        return {
            "plan": {
                "target": self.options["target"],
                "lookahead": 3,
                "verification": self.options.get("verification", "shared_noise"),
            },
            "odd": {1, 2},
        }


class Serving:
    """Serves a `Scripted` engine: the first half of the output in one delivery, the second in another."""

    def __init__(self, llm):
        self.llm, self.open = llm, []
        llm.calls.append([])

    def start(self, request):
        self.open.append([request, False])
        p = request.params
        call = (self.llm.options["mode"], request.number, request.prompt, p.seed, p.temperature, len(self.open))
        self.llm.calls[-1].append(call)

    def poll(self, seconds):
        now = time.monotonic()
        found = []
        for one in list(self.open):
            request, half = one
            tokens = request.params.max_tokens // 2
            one[1] = True
            if half:
                self.open.remove(one)
            found.append(Delivery(request.number, now, tokens, self.completion(request) if half else None))
        return found

    def completion(self, request):
        params = request.params
        ids = [len(request.prompt), params.seed, *range(params.max_tokens - 2)]
        if self.llm.options["mode"] in self.llm.wrong:
            ids[5] += 1
        metrics = RequestMetrics(rounds=len(ids) - 1, decode_seconds=1.0, time_to_first_token=0.1)
        return Completion("", ids, "length", [1], metrics, seed=params.seed)

    def abort(self):
        pass


def settings(**options):
    engine = {"target": "/somewhere/t.gguf", "draft": "org/d", "target_device": "cpu:0", "draft_device": "cpu:0"}
    return BenchSettings(**{"engine": engine, "prompts": ["a", "bb", "ccc"], "max_tokens": 20, **options})


def measured(engines, **options):
    return run(settings(**options), open_llm=engines, serve=Serving)


def test_modes_take_turns_prompt_by_prompt():
    made = settings(repeats=2)
    first, second = made.schedule()
    order = [(piece.start, lane.mode) for piece, lane in turns(made, first, lanes(made))]
    modes = ["ar", "sd", "ssd", "sd", "ssd", "ar", "ssd", "ar", "sd"]
    assert order == list(zip([0, 0, 0, 1, 1, 1, 2, 2, 2], modes, strict=True))
    assert next(iter(turns(made, second, lanes(made))))[1].mode == "sd"


def test_several_rows_take_turns_loop_by_loop():
    made = settings(batches=(1, 2, 4), num_requests=19)
    assert [[len(piece) for piece in pieces(made, setting)] for setting in made.schedule()] == [
        [1] * 19, [8, 11], [19],
    ]  # fmt: skip
    assert [number for piece in pieces(made, Setting(0, 0.0, 2)) for number in piece] == list(range(19))
    by_rate = settings(rates=(1.0,), num_requests=19)
    assert pieces(by_rate, next(by_rate.schedule())) == [range(19)]


def test_everything_is_run_and_counted():
    engines, told, ended = Scripted(), [], []
    made = settings(repeats=2, temperatures=(0.0, 1.0), batches=(1, 2))
    record = run(
        made, open_llm=engines, serve=Serving, on_run=lambda r, row: told.append(row),
        on_end=lambda setting, lane: ended.append((setting.batch, lane.mode)),
    )  # fmt: skip
    assert len(record["runs"]) == len(told) == 2 * 2 * 2 * 3
    assert len(engines.opened) == 3  # one engine a mode, kept
    assert all(llm.closed for llm in engines.opened)
    keys = {(r["mode"], r["repeat"], r["temperature"], r["batch"]) for r in record["runs"]}
    assert len(keys) == 24
    assert [r["num_requests"] for r in record["runs"]] == ([3] * 3 + [8] * 3) * 4
    assert len(ended) == total_requests(made) == 2 * 2 * 3 * (3 + 8)
    assert set(ended) == {(batch, mode) for batch in (1, 2) for mode in ("ar", "sd", "ssd")}
    assert record["complete"]
    assert json.loads(json.dumps(record)) == record


def test_prompts_repeat_with_other_seeds():
    engines = Scripted()
    measured(engines, batches=(2,), modes=("ar",), seed=7)
    [call] = engines.calls
    assert [(prompt, seed) for _, _, prompt, seed, _, _ in call] == [
        ("a", 7), ("bb", 8), ("ccc", 9), ("a", 10), ("bb", 11), ("ccc", 12), ("a", 13), ("bb", 14),
    ]  # fmt: skip
    assert max(running for *_, running in call) == 2


def test_an_open_loop():
    record = measured(Scripted(), rates=(1e6, 2e6), num_requests=5)
    assert [(run["rate"], run["mode"]) for run in record["runs"]] == [
        (rate, mode) for rate in (1e6, 2e6) for mode in ("ar", "sd", "ssd")
    ]
    for run_ in record["runs"]:
        assert (run_["num_requests"], run_["batch"]) == (5, 8)
        assert run_["offered_rate"] > run_["achieved_rate"] > 0
        assert run_["kept_up"] is False  # nobody serves a million a second
    assert len({run_["offered_rate"] for run_ in record["runs"]}) == 2  # modes have the same arrivals
    assert equal_everywhere(record)
    assert record["config"]["rates"] == [1e6, 2e6]


def test_warm_up_comes_first():
    engines = Scripted()
    measured(engines, warmup_tokens=4)
    assert engines.warmed == [(mode, ["a"], 4) for mode in ("ar", "sd", "ssd")]


def test_equal_outputs():
    record = measured(Scripted(), repeats=2)
    assert len(record["token_equality"]) == 5
    assert equal_everywhere(record)
    assert len({r["token_ids_sha256"] for r in record["runs"]}) == 1


def test_a_mode_that_differs_is_found():
    record = measured(Scripted(wrong=("ssd",)))
    assert not equal_everywhere(record)
    (different,) = [entry for entry in record["token_equality"] if not entry["equal"]]
    assert different["first_difference"] == {"prompt": 0, "position": 5}
    assert different["of"].startswith("ssd")


def test_independent_draws_may_differ():
    engine = {
        "target": "t",
        "draft": "d",
        "verification": "rejection",
        "target_device": "cpu:0",
        "draft_device": "cpu:0",
    }
    warm = measured(Scripted(wrong=("ssd",)), engine=engine, temperatures=(1.0,))
    assert [entry["equal"] for entry in warm["token_equality"]] == [True, False]
    assert equal_everywhere(warm)
    assert not equal_everywhere(measured(Scripted(wrong=("ssd",)), engine=engine))


def test_engines_are_closed_when_a_run_fails():
    engines = Scripted()

    def fail(record, row):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(settings(), open_llm=engines, serve=Serving, on_run=fail)
    assert all(llm.closed for llm in engines.opened)


def test_statistics_name_models_only():
    record = run(settings(), open_llm=Scripted(), serve=Serving, facts={"read_bandwidth": [1.0]})
    assert record["engines"]["ssd"]["plan"]["target"] == "t.gguf"
    assert record["machine"]["read_bandwidth"] == [1.0]
    assert record["machine"]["cores"]


def test_record_has_no_folder_of_this_machine():
    record = new_record(settings())
    assert (record["config"]["target"], record["config"]["draft"]) == ("t.gguf", "org/d")
    logged = new_record(settings(engine={"target": "t", "draft": "d", "round_log": "/somewhere/rounds.jsonl"}))
    assert "round_log" not in logged["config"]
    assert model_name("toy:truncate=4:/somewhere/x.gguf") == "toy:truncate=4:x.gguf"
    assert model_name("toy:llama?seed=0") == "toy:llama?seed=0"
    assert model_name("./models/a/") == "a"
    assert model_name(None) is None
