"""Reading prompt files."""

import pytest

from saguaro.errors import ConfigError
from saguaro.workloads import dataset_name, read_prompts


def write(path, *lines):
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_first_ones_in_order(tmp_path):
    path = write(
        tmp_path / "a.jsonl", '{"prompt": "one"}', "", '{"id": 1, "prompt": "two\\n\u2028"}', '{"prompt": "three"}'
    )
    assert read_prompts(path) == ["one", "two\n\u2028", "three"]
    assert read_prompts(path, 2) == ["one", "two\n\u2028"]


def test_lines_beyond_the_count_are_not_looked_at(tmp_path):
    assert read_prompts(write(tmp_path / "a.jsonl", '{"prompt": "one"}', "broken"), 1) == ["one"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["{"], "line 1: not a JSON object"),
        (['{"prompt": "a"}', '["prompt"]'], "line 2: needs a non-empty string field 'prompt'"),
        (['{"prompt": 3}'], "line 1: needs"),
        (['{"prompt": ""}'], "line 1: needs"),
        (["", ""], "has no prompts"),
    ],
)
def test_bad_lines_are_named(tmp_path, lines, message):
    with pytest.raises(ConfigError, match=message):
        read_prompts(write(tmp_path / "a.jsonl", *lines))


def test_missing_file_and_too_few(tmp_path):
    with pytest.raises(ConfigError, match="does not exist"):
        read_prompts(tmp_path / "absent.jsonl")
    with pytest.raises(ConfigError, match="has 1 prompts, fewer than the 2"):
        read_prompts(write(tmp_path / "a.jsonl", '{"prompt": "one"}'), 2)
    (tmp_path / "b.jsonl").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="UTF-8"):
        read_prompts(tmp_path / "b.jsonl")


def test_dataset_name(tmp_path):
    assert dataset_name(tmp_path / "humaneval" / "prompts.jsonl") == "humaneval"
    assert dataset_name(tmp_path / "mine.jsonl") == "mine"


def test_shipped_sets(root):
    sizes = {
        path.parent.name: len(read_prompts(path)) for path in (root / "benchmarks/prompts").glob("*/prompts.jsonl")
    }
    assert sizes == {"humaneval": 164, "gsm8k_test": 256, "mt_bench": 80, "long": 1}
