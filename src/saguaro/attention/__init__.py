"""Attention back-ends over a paged key-value cache: the plan that says who sees what, and a table of members."""

from saguaro.attention.base import AttentionBackend, AttentionPlan, AttentionWeights
from saguaro.registry import Table

ATTENTION = Table(
    "attention back-end",
    {
        "reference": "saguaro.attention.reference:ReferenceAttention",
        "cpu": "saguaro.attention.cpu:CpuAttention",
    },
)

__all__ = ["ATTENTION", "AttentionBackend", "AttentionPlan", "AttentionWeights"]
