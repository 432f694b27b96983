"""The order of runs, the record, the comparison of outputs; engines are scripted here, real in cli/test_bench.py."""

import json

import pytest

from saguaro.bench.run import equal_everywhere, model_name, new_record, run, schedule, turns
from saguaro.bench.settings import BenchSettings, lanes
from saguaro.request import Completion, RequestMetrics


class Scripted:
    """Answers with ids made of prompt, seed and position; `wrong` modes change one token."""

    opened: list["Scripted"]

    def __init__(self, wrong=()):
        self.opened, self.calls, self.wrong = [], [], wrong

    def __call__(self, **options):
        llm = Scripted(self.wrong)
        llm.options, llm.calls, llm.closed = options, self.calls, False
        self.opened.append(llm)
        return llm

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True

    def generate(self, prompts, params):
        self.calls.append((self.options["mode"], len(prompts), params[0].temperature, params[0].max_tokens))
        return [self.completion(prompt, p) for prompt, p in zip(prompts, params, strict=True)]

    def completion(self, prompt, params):
        ids = [len(prompt), params.seed, *range(params.max_tokens - 2)]
        if self.options["mode"] in self.wrong and params.max_tokens > 16:
            ids[5] += 1
        metrics = RequestMetrics(rounds=len(ids) - 1, decode_seconds=1.0, time_to_first_token=0.1)
        return Completion("", ids, "length", [1], metrics, seed=params.seed)

    def statistics(self):
        return {
            "plan": {
                "target": self.options["target"],
                "lookahead": 3,
                "verification": self.options.get("verification", "shared_noise"),
            },
            "odd": {1, 2},
        }


def settings(**options):
    engine = {"target": "/somewhere/t.gguf", "draft": "org/d", "target_device": "cpu:0", "draft_device": "cpu:0"}
    return BenchSettings(**{"engine": engine, "prompts": ["a", "bb", "ccc"], "max_tokens": 20, **options})


def test_modes_take_turns_prompt_by_prompt():
    made = settings(repeats=2)
    first, second = schedule(made)
    order = [(begin, lane.mode) for begin, lane in turns(made, first, lanes(made))]
    modes = ["ar", "sd", "ssd", "sd", "ssd", "ar", "ssd", "ar", "sd"]
    assert order == list(zip([0, 0, 0, 1, 1, 1, 2, 2, 2], modes, strict=True))
    assert next(iter(turns(made, second, lanes(made))))[1].mode == "sd"


def test_everything_is_run_and_counted():
    engines, told = Scripted(), []
    record = run(
        settings(repeats=2, temperatures=(0.0, 1.0), batches=(1, 2)),
        open_llm=engines,
        on_run=lambda r, row: told.append(row),
    )
    assert len(record["runs"]) == len(told) == 2 * 2 * 2 * 3
    assert len(engines.opened) == 3  # one engine a mode, kept
    assert all(llm.closed for llm in engines.opened)
    keys = {(r["mode"], r["repeat"], r["temperature"], r["batch"]) for r in record["runs"]}
    assert len(keys) == 24
    sizes = [call[1] for call in engines.calls if call[0] == "ar" and call[3] == 20]
    assert sizes == [1, 1, 1, 2, 1] * 4
    assert record["complete"]
    assert json.loads(json.dumps(record)) == record


def test_warm_up_comes_first():
    engines = Scripted()
    run(settings(warmup_tokens=4), open_llm=engines)
    assert [call[3] for call in engines.calls[:4]] == [4, 4, 4, 20]


def test_equal_outputs():
    record = run(settings(repeats=2), open_llm=Scripted())
    assert len(record["token_equality"]) == 5
    assert equal_everywhere(record)
    assert len({r["token_ids_sha256"] for r in record["runs"]}) == 1


def test_a_mode_that_differs_is_found():
    record = run(settings(), open_llm=Scripted(wrong=("ssd",)))
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
    warm = run(settings(engine=engine, temperatures=(1.0,)), open_llm=Scripted(wrong=("ssd",)))
    assert [entry["equal"] for entry in warm["token_equality"]] == [True, False]
    assert equal_everywhere(warm)
    assert not equal_everywhere(run(settings(engine=engine), open_llm=Scripted(wrong=("ssd",))))


def test_engines_are_closed_when_a_run_fails():
    engines = Scripted()

    def fail(record, row):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(settings(), open_llm=engines, on_run=fail)
    assert all(llm.closed for llm in engines.opened)


def test_statistics_name_models_only():
    record = run(settings(), open_llm=Scripted(), facts={"read_bandwidth": [1.0]})
    assert record["engines"]["ssd"]["plan"]["target"] == "t.gguf"
    assert record["machine"]["read_bandwidth"] == [1.0]
    assert record["machine"]["cores"]


def test_record_has_no_folder_of_this_machine():
    record = new_record(settings())
    assert (record["config"]["target"], record["config"]["draft"]) == ("t.gguf", "org/d")
    assert model_name("toy:truncate=4:/somewhere/x.gguf") == "toy:truncate=4:x.gguf"
    assert model_name("toy:llama?seed=0") == "toy:llama?seed=0"
    assert model_name("./models/a/") == "a"
    assert model_name(None) is None
