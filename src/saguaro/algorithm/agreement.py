"""Verification by shared noise (DESIGN D1): accept drafted tokens while they equal what the target drew itself.

Apart from `verify` because integers are all it needs: the simulator verifies with it and loads no tensors.
Must not know: laws, tensors. Tests: tests/algorithm/test_verify.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from saguaro.algorithm.terms import Outcome


def verify_shared_noise(target_tokens: Sequence[int], draft_tokens: Sequence[int]) -> Outcome:
    """Accept drafted tokens while they equal what the target drew itself.

    Args:
        target_tokens: J ids, the target's own draw at each position, each given the drafted tokens before it.
        draft_tokens: d <= J - 1 ids of the proposal.

    Returns:
        The outcome; its bonus token is the target's own token at the first difference.
    """
    accepted = 0
    for drawn, drafted in zip(target_tokens, draft_tokens, strict=False):
        if drawn != drafted:
            break
        accepted += 1
    return Outcome(accepted, target_tokens[accepted])
