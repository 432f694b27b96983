"""A trained draft as a directory: config.json, model.safetensors, tokenizer files, training.json and a model card.

A draft with a vocabulary of its own has EAGLE-3's layout: `draft_vocab_size` in config.json, `lm_head.weight` with that
many rows, and `d2t` (int64): target id = row + d2t[row]. Must not know: how it was trained.
Tests: tests/training/test_export.py.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from saguaro.models.borrowed import borrowed_names, digest
from saguaro.models.checkpoint import BORROWED, Checkpoint
from saguaro.models.config_json import config_json
from saguaro.models.weights.int8_rows import from_rows, to_rows
from saguaro.training.draft_vocabulary import d2t
from saguaro.training.folder import RECORD
from saguaro.training.head_student import HeadStudent
from saguaro.training.settings import BORROWING
from saguaro.training.student import Student

WEIGHTS = "model.safetensors"


def stored_dtype(name: str) -> torch.dtype:
    """`float32` or `bfloat16`."""
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def own_tensors(student: Student | HeadStudent) -> dict[str, torch.Tensor]:
    """What a student that borrows its embedding keeps: layers and the last norm; all of a head."""
    if isinstance(student, HeadStudent):
        return student.state_dict()
    borrowed = borrowed_names(student.config)
    return {name: value for name, value in student.state_dict().items() if name not in borrowed}


def round_to(student: Student | HeadStudent, stored: str) -> None:
    """Make the weights what they will be after storing, so that what is measured is what is written."""
    with torch.no_grad():
        if stored == BORROWING:
            own = own_tensors(student)
            rows = to_rows(own.items())
            for name, value in own.items():
                value.copy_(from_rows(name, rows))
            return
        for parameter in student.parameters():
            parameter.copy_(parameter.to(stored_dtype(stored)).float())


def write(
    out: Path,
    student: Student | HeadStudent,
    target: Checkpoint,
    record: Mapping[str, Any],
    *,
    draft_ids_N: torch.Tensor | None,
    config: Mapping[str, Any] | None = None,
) -> None:
    """Write the directory beside its place, then put it there. `config`: of what is no model of its own."""
    dtype = str(record["training"]["stored"])
    borrows = dtype == BORROWING
    if borrows:
        tensors = to_rows(own_tensors(student).items())
    else:
        values = student.state_dict().items()
        tensors = {name: value.detach().to(stored_dtype(dtype)).cpu().contiguous() for name, value in values}
    if draft_ids_N is not None:
        tensors["d2t"] = d2t(draft_ids_N)
    if config is None:
        config = config_json(student.config, draft_vocab=None if draft_ids_N is None else len(draft_ids_N), dtype=dtype)
    if borrows:
        config = {**config, BORROWED: {"target": Path(target.source).name, "digest": digest(target)}}
    staging = out.with_name(out.name + ".writing")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    save_file(tensors, staging / WEIGHTS, metadata={"format": "pt"})
    if not borrows:
        target.save_tokenizer(staging)
    (staging / "config.json").write_text(json.dumps(dict(config), indent=2) + "\n", encoding="utf-8")
    (staging / RECORD).write_text(json.dumps(dict(record), indent=1) + "\n", encoding="utf-8")
    (staging / "README.md").write_text(card(record), encoding="utf-8")
    (staging / WEIGHTS).chmod((staging / RECORD).stat().st_mode)  # the library makes files for their owner alone
    shutil.rmtree(out, ignore_errors=True)
    staging.replace(out)


def card(record: Mapping[str, Any]) -> str:
    """The model card."""
    model, data, training = record["model"], record["data"], record["training"]
    last = record["curve"][-1]
    size = "the whole vocabulary" if model["draft_vocab"] is None else f"{model['draft_vocab']:,} tokens"
    at = ", ".join(f"{temperature:g}" for temperature in data["temperatures"])
    texts = ", ".join(f"{name} ({count} prompts)" for name, count in data["prompts"].items())
    own = f" and {data['own_texts']:,} pieces of a text file" if data["own_texts"] else ""
    lines = [
        f"# A draft for {record['target']}",
        "",
        "Made by `saguaro train-draft`, for speculative decoding with that target. Its text alone is of no use.",
        "",
        "```",
        f"{record['command']}",
        "```",
        "",
        "| what | value |",
        "|---|---|",
        f"| started from | {_start(model)} |",
        f"| parameters | {model['parameters']:,}, of which {model['trained_parameters']:,} were trained |",
        f"| head | {size} |",
        f"| prompts | {texts}{own}; {data['held_out_prompts']} prompts were held out |",
        f"| texts | {data['texts']:,} with {data['positions']:,} positions, written by the target as {data['dtype']} "
        f"at temperatures {at} |",
        f"| loss | KL to the target's law at each position ({data['top_k']} tokens and the rest) |",
        f"| steps | {training['steps']:,}, {training['epochs']:.2f} epochs, {training['tokens']:,} positions |",
        f"| time | {record['seconds'].get('data', 0):.0f} s for texts and laws, "
        f"{record['seconds'].get('train', 0):.0f} s of training |",
        "",
        "## Acceptance on prompts that were held out",
        "",
        f"By position in a proposal, given that all before it were taken; {last['temperature_0']['places']:,} places "
        f"of greedy texts, {last['temperature_1']['places']:,} of texts at temperature 1 (where up to "
        f"{last['temperature_1']['slack']:.3f} may be missing from what laws leave out).",
        "",
        *_table(record["curve"]),
        "",
        "The whole curve, machine and versions are in training.json.",
        "",
    ]
    return "\n".join(lines)


def _start(model: Mapping[str, Any]) -> str:
    if model.get("taps"):
        taps = ", ".join(map(str, model["taps"]))
        return f"an EAGLE-3 head on the inputs of layers {taps} of {model['source']}, with its norm and head"
    return f"{model['source']}, layers {', '.join(map(str, model['layers']))}"


def _table(curve: list[dict[str, Any]]) -> list[str]:
    count = len(curve[0]["temperature_0"]["by_position"])
    rows = [f"| | step | {' | '.join(str(i + 1) for i in range(count))} |", "|---" * (count + 2) + "|"]
    for label, point in (("before", curve[0]), ("after", curve[-1])):
        for name, where in (("temperature 0", "temperature_0"), ("temperature 1", "temperature_1")):
            values = ["–" if value is None else f"{value:.3f}" for value in point[where]["by_position"]]
            rows.append(f"| {label}, {name} | {point['step']} | {' | '.join(values)} |")
    return rows
