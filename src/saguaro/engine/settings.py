"""What may change between two rounds, as the target keeps it and as the draft is told of it.

Must not know: channels, who decides. Tests: tests/engine/test_shifting.py, tests/lossless/.
"""

from __future__ import annotations

from dataclasses import dataclass

from saguaro.config import FanOut, fan_out_lists
from saguaro.protocol.messages import Configure


@dataclass(frozen=True, slots=True)
class Settings:
    """What may change between rounds. With a lookahead of 0 the draft is told of every outcome and does nothing.

    `fan_out` is as in `EngineConfig`. Without `branches` nothing is cached (SD). Among `gears` the engine chooses while
    it runs, and it plans what is `auto` anew (`engine/shifting.py`); the proposer looks at neither. Proposals are trees
    of at most `tree` nodes, or chains with 0: in SD grown while the target waits, where there are branches chains with
    siblings. With `prune` only as many nodes are verified as pay.
    """

    lookahead: int = 0
    budget: int = 0
    fan_out: FanOut = "none"
    branches: bool = False
    fallback: str = "neural"
    lockstep: bool = False
    rejection: bool = False
    saguaro_c: float = 1.0
    adapt_depth: bool = True
    gears: tuple[str, ...] = ()
    auto_lookahead: bool = False
    auto_budget: bool = False
    tree: int = 0
    prune: bool = False


def told(settings: Settings) -> Configure:
    """The message that tells the draft."""
    s, lists = settings, fan_out_lists(settings.fan_out)
    return Configure(
        lookahead=s.lookahead,
        rejection=s.rejection,
        branches=s.branches,
        saguaro_c=s.saguaro_c,
        budget=s.budget,
        everything=s.lockstep,
        listed=len(lists[0]) if lists else 0,
        fan_out=s.fan_out if isinstance(s.fan_out, str) else "listed",
        tokens=tuple(count for each in lists for count in each),
        tree=s.tree,
        prune=s.prune,
    )
