"""Plug point: model families. A family is a short record of what differs from the one decoder that all of them share.

`base.py` holds the record's type. A new family is one file here and one row in the table.
"""

from saguaro.registry import Table

FAMILIES = Table(
    "model family",
    {
        "llama": "saguaro.models.families.llama:FAMILY",
        "qwen2": "saguaro.models.families.qwen2:FAMILY",
        "qwen3": "saguaro.models.families.qwen3:FAMILY",
    },
)
