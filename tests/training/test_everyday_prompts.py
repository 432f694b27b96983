"""Prompts for a draft to learn from: different ones, always the same, none of a benchmark."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def prompts():
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import everyday_prompts

        return everyday_prompts.prompts
    finally:
        sys.path.pop(0)


def test_prompts_are_a_function_of_the_seed(prompts):
    assert prompts(200, 0) == prompts(400, 0)[:200]
    assert prompts(200, 0) != prompts(200, 1)
    found = prompts(2000, 0)
    assert len(set(found)) == 2000
    assert not [text for text in found if "{" in text.split("\n")[0] or not text.strip()]
    assert 8 < sum(len(text.split()) for text in found) / len(found) < 30


def test_no_prompt_of_a_benchmark_is_among_them(prompts):
    made = set(prompts(6000, 0))
    for path in (ROOT / "benchmarks" / "prompts").glob("*/prompts.jsonl"):
        assert made.isdisjoint(json.loads(line)["prompt"] for line in path.read_text("utf-8").splitlines())
