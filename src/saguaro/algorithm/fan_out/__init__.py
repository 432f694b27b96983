"""How the budget is spread over positions: a plug point.

A policy turns (lookahead, budget) into the counts F_0 ... F_K. Its conformance test runs over every row of the table:
tests/conformance/test_fan_out.py. Must not know: engines, devices.
"""

from __future__ import annotations

from collections.abc import Sequence

from saguaro.algorithm.fan_out.base import FanOutPolicy
from saguaro.registry import Table

FAN_OUT = Table(
    "fan-out policy",
    {
        "none": "saguaro.algorithm.fan_out.none:NoBranches",
        "listed": "saguaro.algorithm.fan_out.listed:Listed",
        "uniform": "saguaro.algorithm.fan_out.uniform:Uniform",
        "geometric": "saguaro.algorithm.fan_out.geometric:Geometric",
        "ranked": "saguaro.algorithm.fan_out.ranked:Ranked",
    },
)


def open_fan_out(spec: str | Sequence[int]) -> FanOutPolicy:
    """The policy for a configured value: a name (or dotted path), or the list [F_0, ..., F_K].

    Raises:
        ConfigError: for an unknown name, or for `listed` without its list.
    """
    policy: FanOutPolicy = FAN_OUT.get(spec)() if isinstance(spec, str) else FAN_OUT.get("listed")(tuple(spec))
    return policy
