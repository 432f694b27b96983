"""Prompts for measurements and demonstrations: read from files, in file order.

A prompt file is JSON Lines with a string field `prompt`; other fields are ignored. Must not know: engines, models,
the command line. Tests: tests/bench/test_workloads.py.
"""

from __future__ import annotations

import json
from pathlib import Path

from saguaro.errors import ConfigError


def read_prompts(path: str | Path, count: int | None = None) -> list[str]:
    """The first `count` prompts of a JSON Lines file (all when None), in file order.

    Raises:
        ConfigError: when the file is missing, a line is not an object with a non-empty string `prompt`, or the file
            has fewer than `count` prompts.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise ConfigError(f"prompt file {path} does not exist.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"prompt file {path} cannot be read as UTF-8 text: {error}.") from error
    prompts: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if count is not None and len(prompts) == count:
            break
        prompts.append(_prompt_of(line, where=f"{path}, line {number}"))
    if count is not None and len(prompts) < count:
        raise ConfigError(f"prompt file {path} has {len(prompts)} prompts, fewer than the {count} asked for.")
    if not prompts:
        raise ConfigError(f"prompt file {path} has no prompts.")
    return prompts


def dataset_name(path: str | Path) -> str:
    """The name of a prompt set: the folder of a file called `prompts.jsonl`, else the file's own stem."""
    path = Path(path).resolve()
    return path.parent.name if path.name == "prompts.jsonl" else path.stem


def _prompt_of(line: str, *, where: str) -> str:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{where}: not a JSON object ({error.msg}).") from None
    prompt = record.get("prompt") if isinstance(record, dict) else None
    if not isinstance(prompt, str) or not prompt:
        raise ConfigError(f"{where}: needs a non-empty string field 'prompt'.")
    return prompt
