"""Saguaro: LLM inference with speculative speculative decoding (arXiv 2603.03251).

    from saguaro import LLM, SamplingParams

Names are imported when they are first used: importing the package loads no torch, reads no environment variable and
touches no device. Reading order of the code: `theory`, `algorithm`, `protocol`, `engine`; see docs/how-it-works.md.
Must not know: anything but where the public names live. Tests: tests/house/test_public_names.py.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saguaro.async_llm import AsyncLLM
    from saguaro.config import EngineConfig
    from saguaro.errors import (
        CapacityError,
        ConfigError,
        ProtocolError,
        RequestRefused,
        SaguaroError,
        WeightsError,
        WorkerDied,
    )
    from saguaro.llm import LLM
    from saguaro.request import Completion, Delta, RequestMetrics, SamplingParams

__all__ = [
    "LLM",
    "AsyncLLM",
    "CapacityError",
    "Completion",
    "ConfigError",
    "Delta",
    "EngineConfig",
    "ProtocolError",
    "RequestMetrics",
    "RequestRefused",
    "SaguaroError",
    "SamplingParams",
    "WeightsError",
    "WorkerDied",
]

_HOME = {
    "AsyncLLM": "saguaro.async_llm",
    "LLM": "saguaro.llm",
    "EngineConfig": "saguaro.config",
    **dict.fromkeys(("Completion", "Delta", "RequestMetrics", "SamplingParams"), "saguaro.request"),
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("saguaro-llm")
    if name not in __all__:
        raise AttributeError(f"module 'saguaro' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME.get(name, "saguaro.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
