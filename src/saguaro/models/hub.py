"""From a hub id (`organisation/name`, optionally `@revision`) to a directory on this machine.

First the standard layout of the Hugging Face cache is looked through (`models--org--name/refs/REV` names the snapshot),
so that a filled cache needs neither network nor package; then `huggingface_hub` downloads, if it is installed. The
place of the cache is an argument: the environment is read by the command line only.
Must not know: what the files hold. Tests: tests/models/test_hub.py.
"""

from __future__ import annotations

import re
from pathlib import Path

from saguaro.errors import ConfigError

HUB_ID = re.compile(r"^(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@(?P<revision>[\w./-]+))?$")
WANTED = ("*.json", "*.safetensors", "*.jinja", "additional_chat_templates/*")
UNWANTED = ("original/*", "consolidated*", "onnx/*")  # the same weights a second time, in other layouts


def is_hub_id(source: str) -> bool:
    """Whether `source` has the form of a hub id."""
    return HUB_ID.match(source) is not None and not source.endswith(".gguf")


def default_cache() -> Path:
    """Where the hub's cache lies unless told otherwise."""
    return Path.home() / ".cache" / "huggingface" / "hub"


def find_cached(source: str, *, cache: Path | None = None) -> Path | None:
    """The directory of a model that is already in the cache, or None.

    A snapshot counts only with its config.json: an interrupted download leaves directories behind.
    """
    match = HUB_ID.match(source)
    if match is None:
        return None
    revision = match["revision"] or "main"
    base = (cache or default_cache()) / f"models--{match['repo'].replace('/', '--')}"
    reference = base / "refs" / revision
    commit = reference.read_text("utf-8").strip() if reference.is_file() else revision
    snapshot = base / "snapshots" / commit
    return snapshot if (snapshot / "config.json").exists() else None


def fetch(source: str, *, cache: Path | None = None) -> Path:
    """The directory of a model, downloaded where it is not in the cache.

    Raises:
        ConfigError: no such model, or the hub cannot be reached, or the package that downloads is not installed.
    """
    found = find_cached(source, cache=cache)
    if found is not None:
        return found
    match = HUB_ID.match(source)
    if match is None:
        raise ConfigError(f"{source!r} is no hub id; write organisation/name.")
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise ConfigError(
            f"the model {source!r} is not on this machine; install huggingface_hub to download it, or give a path."
        ) from error
    try:
        path = snapshot_download(
            repo_id=match["repo"],
            revision=match["revision"],
            cache_dir=str(cache or default_cache()),
            allow_patterns=list(WANTED),
            ignore_patterns=list(UNWANTED),
        )
    except Exception as error:  # the package raises classes of its HTTP library, which differ between versions
        reason = str(error).strip().splitlines()
        detail = f" ({reason[0]})" if reason else ""
        raise ConfigError(
            f"the model {source!r} is not on this machine and cannot be fetched from the hub{detail}; give a path."
        ) from error
    return Path(path)
