"""Plug point: what a model's text says beyond text, by model family. A member is named by its key or a dotted path.

`TOOLS` find calls of functions, `REASONING` splits thoughts from the answer. One test runs over every row:
tests/conformance/test_parsers.py.
"""

from saguaro.registry import Table

TOOLS = Table(
    "tool parser",
    {
        "hermes": "saguaro.server.parsers.hermes:Hermes",
        "llama": "saguaro.server.parsers.llama:Llama",
    },
)
REASONING = Table("reasoning parser", {"qwen3": "saguaro.server.parsers.qwen3:Qwen3"})
