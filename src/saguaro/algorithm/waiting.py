"""How deep an entry is worth waiting for: DESIGN D3, "waiting is a choice, never a stall".

The long run is a renewal process: a round that proposes d tokens gives E(d) tokens and takes wait(d) + verify(d + 1
rows) seconds. With `rate` tokens a second in the long run, a second is worth `rate` tokens, so the best depth
maximises E(d) - rate * (wait(d) + verify(d + 1)). Floats in, an int out.
Must not know: clocks, caches. Tests: tests/algorithm/test_waiting.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from saguaro.theory import acceptance


def expected_tokens(acceptance_per_position: Sequence[float]) -> list[float]:
    """E(0) ... E(K) from the conditional acceptance rates of the positions."""
    return acceptance.expected_by_depth(acceptance_per_position)


def choose_depth(
    wait_seconds_by_depth: Sequence[float],
    verify_seconds_by_rows: Sequence[float],
    expected_by_depth: Sequence[float],
    rate: float,
) -> int:
    """The depth to take, ties to the smaller one.

    Also decides whether to ask for a neural proposal after a miss: with the times of drafting one as waits, the
    answer 0 means "go on without".

    Args:
        wait_seconds_by_depth: entry d is the time from now until depth d is there; 0 for what is there, inf for what
            never will be. Its length sets the depths considered.
        verify_seconds_by_rows: entry d is the time of a verification of d + 1 rows; may be longer.
        expected_by_depth: entry d is E(d); may be longer.
        rate: tokens a second in the long run.
    """
    best, best_value = 0, float("-inf")
    for depth, wait in enumerate(wait_seconds_by_depth):
        value = expected_by_depth[depth] - rate * (wait + verify_seconds_by_rows[depth])
        if value > best_value:
            best, best_value = depth, value
    return best


def long_run_rate(
    wait_seconds_by_depth: Sequence[float],
    verify_seconds_by_rows: Sequence[float],
    expected_by_depth: Sequence[float],
) -> float:
    """The largest over d of E(d) / (wait(d) + verify(d + 1)): the rate if every round were like this one.

    At this rate `choose_depth` picks a depth that attains it; an engine without a measured rate may start from it.
    """
    return max(
        expected_by_depth[depth] / (wait + verify_seconds_by_rows[depth])
        for depth, wait in enumerate(wait_seconds_by_depth)
    )


def expected_waits(available: int, most: int, *, first: float, step: float) -> list[float]:
    """Entry d: seconds until depth d is there, d = 0 ... `most`.

    Args:
        available: tokens that are there now.
        most: the largest depth.
        first: seconds until there is one more, by the pass in flight or by one that is still to begin.
        step: seconds of each further pass.
    """
    return [0.0 if depth <= available else first + (depth - available - 1) * step for depth in range(most + 1)]
