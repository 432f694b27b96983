"""Why an outcome is missing, for every combination of what the target can see."""

import pytest

from saguaro.algorithm.misses import K_NOT_COVERED, NOT_READY, TOKEN_NOT_COVERED, miss_reason
from saguaro.request import MISS_REASONS


@pytest.mark.parametrize(
    ("accepted", "positions", "same_accepted", "same_outcome", "reason"),
    [
        (1, 0, False, False, NOT_READY),  # nothing chosen in this round
        (1, 1, False, False, NOT_READY),  # k = 0 only
        (1, 2, False, False, K_NOT_COVERED),
        (0, 2, False, False, K_NOT_COVERED),
        (1, 2, True, False, TOKEN_NOT_COVERED),
        (1, 2, True, True, NOT_READY),  # there, without a token
        (1, 1, True, True, NOT_READY),  # its key was published before the positions were
        (1, 1, True, False, NOT_READY),  # others of this k were, more may follow
    ],
)
def test_reasons(accepted: int, positions: int, same_accepted: bool, same_outcome: bool, reason: str) -> None:
    assert miss_reason(accepted, positions, same_accepted=same_accepted, same_outcome=same_outcome) == reason


def test_reasons_are_counted_under_these_names() -> None:
    assert {K_NOT_COVERED, TOKEN_NOT_COVERED, NOT_READY} < set(MISS_REASONS)
