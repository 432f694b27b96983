"""Why an outcome was not in the speculation cache (Section 4.1: coverage of k, then of t* given k; and time).

The draft chooses its branches position by position, so a miss has one of three reasons: there is no branch after so
many accepted tokens, there are some but none for this token, or there is nothing to take yet. The last holds also while
the draft has not come so far as to choose for this k: whether it would have chosen the token cannot be known then.
Must not know: channels, clocks. Tests: tests/algorithm/test_misses.py.
"""

from __future__ import annotations

K_NOT_COVERED, TOKEN_NOT_COVERED, NOT_READY = "k_not_covered", "token_not_covered", "not_ready"


def miss_reason(accepted: int, positions: int, *, same_accepted: bool, same_outcome: bool) -> str:
    """The reason why an outcome (k, t*) without a token in the cache is a miss.

    Args:
        accepted: k.
        positions: branches have been chosen for k = 0 ... positions - 1.
        same_accepted: there is a branch for k accepted tokens, whatever its bonus token.
        same_outcome: there is a branch for (k, t*) itself.
    """
    if same_outcome or accepted >= positions:
        return NOT_READY
    return TOKEN_NOT_COVERED if same_accepted else K_NOT_COVERED
