"""`generate` with real tiny models: text, JSON, streams, several prompts, the three modes."""

import io
import json

import pytest


@pytest.fixture
def generate(here, toy):
    def run(*arguments):
        done = here(
            "generate", *toy, "--temperature", "0", "--seed", "7", "--ignore-eos", "--max-tokens", "12", *arguments
        )
        assert done.status == 0, done.err
        return done

    return run


def test_json_has_everything(generate):
    record = json.loads(generate("--prompt", "hello", "--json").out)
    assert len(record["token_ids"]) == 12
    assert (record["finish_reason"], record["seed"], record["index"]) == ("length", 7, 0)
    metrics = record["metrics"]
    assert 1 + metrics["rounds"] + metrics["accepted"] == 12
    assert metrics["hits"] + metrics["misses"] == metrics["rounds"]
    assert metrics["acceptance_length"] == 1 + metrics["accepted"] / metrics["rounds"]
    assert len(record["origins"]) == 12


@pytest.mark.parametrize("mode", ["ar", "sd", "ssd"])
def test_modes_agree(generate, mode):
    expected = json.loads(generate("--prompt", "hello", "--json", "--mode", "ssd").out)["token_ids"]
    assert json.loads(generate("--prompt", "hello", "--json", "--mode", mode).out)["token_ids"] == expected


def test_text_is_the_same_streamed_or_not(generate):
    assert generate("--prompt", "abc").out == generate("--prompt", "abc", "--stream").out


def test_stream_of_json_adds_up(generate):
    pieces = [json.loads(line) for line in generate("--prompt", "abc", "--stream", "--json").out.splitlines()]
    whole = json.loads(generate("--prompt", "abc", "--json").out)
    assert [token for piece in pieces for token in piece["token_ids"]] == whole["token_ids"]
    assert "".join(piece["text"] for piece in pieces) == whole["text"]
    assert [piece["finish_reason"] for piece in pieces] == [None] * (len(pieces) - 1) + ["length"]
    assert pieces[-1]["metrics"]["rounds"] == whole["metrics"]["rounds"]


def test_several_prompts_keep_their_order(generate, tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "two"}\n{"prompt": "three"}\n')
    together = generate("one", "--prompt-file", path, "--json").out.splitlines()
    alone = [generate("--prompt", text, "--json").out.strip() for text in ("one", "two", "three")]
    assert [json.loads(line)["token_ids"] for line in together] == [json.loads(line)["token_ids"] for line in alone]


def test_standard_input_and_files_are_prompts(generate, tmp_path, monkeypatch):
    path = tmp_path / "prompt.txt"
    path.write_text("hello")
    outputs = {generate("--json", "--prompt", "hello").out, generate("--json", "--prompt-file", path).out}
    for arguments in (["-"], ["--prompt", "-"], ["--prompt-file", "-"]):
        monkeypatch.setattr("sys.stdin", io.StringIO("hello"))
        outputs.add(generate("--json", *arguments).out)
    assert len({json.dumps(json.loads(output)["token_ids"]) for output in outputs}) == 1


def test_stats_go_to_standard_error(generate):
    done = generate("--prompt", "abc", "--stats")
    assert "tokens/s" in done.err
    assert "hit rate" in done.err
    assert "tokens/s" not in done.out


def test_seed_is_reported_when_the_system_chose_it(here, toy):
    flags = ("generate", *toy, "--max-tokens", "8", "--prompt", "a", "--json")
    first = json.loads(here(*flags).out)
    again = json.loads(here(*flags, "--seed", first["seed"]).out)
    assert again["token_ids"] == first["token_ids"]


def test_a_schema_comes_as_text_or_from_a_file(here, toy, tmp_path):
    schema = json.dumps({"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]})
    (tmp_path / "schema.json").write_text(schema)
    flags = ("generate", *toy, "--temperature", "0", "--max-tokens", "60", "--prompt", "a")
    outputs = {here(*flags, "--json-schema", source).out for source in (schema, tmp_path / "schema.json")}
    assert json.loads(outputs.pop())["colour"] in ("red", "blue")
    assert not outputs
    assert here(*flags, "--regex", "[0-9]{3}x").out.endswith("x\n")
    assert here(*flags, "--grammar", 'start: "one" | "two"').out in ("one\n", "two\n")
    assert here(*flags, "--json-object").out.startswith("{")


@pytest.mark.processes
def test_two_processes(command):
    """The default channel, once, end to end."""
    done = command(
        "generate", "--target", "toy:llama?seed=0", "--draft", "toy:llama?seed=0&noise=0.03", "--mode", "ssd",
        "--lookahead", "3", "--budget", "6", "--prompt", "hello", "--max-tokens", "12", "--temperature", "0", "--json",
    )  # fmt: skip
    assert done.status == 0, done.err
    assert len(json.loads(done.out)["token_ids"]) <= 12
