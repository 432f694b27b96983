"""Tokenizer files of a directory: copied from another one, or written from what was read out of a GGUF file.

Must not know: weights, requests. Tests: tests/models/test_tokenizer_files.py.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

COPIED = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")
TEMPLATES = "additional_chat_templates"


def copy_files(source: Path, directory: Path) -> None:
    """Everything of a directory that says how text becomes ids."""
    for name in COPIED:
        if (source / name).exists():
            shutil.copyfile(source / name, directory / name)
    if (source / TEMPLATES).is_dir():
        shutil.copytree(source / TEMPLATES, directory / TEMPLATES, dirs_exist_ok=True)


def write_files(
    directory: Path,
    tokenizer_json: str,
    *,
    adds_bos: bool,
    bos_text: str,
    eos_text: str,
    templates: Mapping[str, str],
) -> None:
    """`tokenizer.json`, `tokenizer_config.json`, and chat templates in files of their own where there are several."""
    settings: dict[str, Any] = {"add_bos_token": adds_bos}
    if bos_text:
        settings["bos_token"] = bos_text
    if eos_text:
        settings["eos_token"] = eos_text
    others = dict(templates)
    if "default" in others:
        settings["chat_template"] = others.pop("default")
    (directory / "tokenizer.json").write_text(tokenizer_json, encoding="utf-8")
    (directory / "tokenizer_config.json").write_text(
        json.dumps(settings, ensure_ascii=False, indent=2), encoding="utf-8"
    )
    for name, text in others.items():
        (directory / TEMPLATES).mkdir(exist_ok=True)
        (directory / TEMPLATES / f"{name}.jinja").write_text(text, encoding="utf-8")
