"""How the budget is spread over outcomes: a plug point.

A policy turns (lookahead, budget) into the counts F_0 ... F_K, or chooses outcomes by the draft's guesses. Its
conformance test runs over every row of the table: tests/conformance/test_fan_out.py. Must not know: engines, devices.
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
        "optimal": "saguaro.algorithm.fan_out.optimal:Optimal",
        "ranked": "saguaro.algorithm.fan_out.ranked:Ranked",
        "all_accepted": "saguaro.algorithm.fan_out.all_accepted:AllAccepted",
        "single_branch": "saguaro.algorithm.fan_out.single_branch:SingleBranch",
        "token_tree": "saguaro.algorithm.fan_out.token_tree:TokenTree",
    },
)


def open_fan_out(spec: str | Sequence[int], after_miss: Sequence[int] = ()) -> FanOutPolicy:
    """The policy for a configured value: a name (or dotted path), or the list [F_0, ..., F_K].

    Args:
        spec: the value.
        after_miss: a second list, for rounds whose proposal answered a miss.

    Raises:
        ConfigError: for an unknown name, or for `listed` without its list.
    """
    if isinstance(spec, str):
        policy: FanOutPolicy = FAN_OUT.get(spec)()
    else:
        policy = FAN_OUT.get("listed")(tuple(spec), after_miss=tuple(after_miss))
    return policy
