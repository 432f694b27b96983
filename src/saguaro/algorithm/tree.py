"""Who sees whom while the branches of a round grow, Figure 8, without a mask made on the way: DESIGN D7.

A row has committed tokens at positions 0 ... L - 1 (the last of them the bonus token of the round before) and the
proposal under verification at L ... L + d - 1. The branch of outcome (k, t*) continues after the k-th proposed token:

    position    0 ......... L-1 | L ....... L+k-1 | L+k   L+k+1  L+k+2 ...
                committed       | proposal, first k | t*    x_1    x_2       <- the branch's own tokens

A token of the branch sees every committed token, the first k tokens of the proposal, and the branch's own tokens up
to itself; never the rest of the proposal, never another branch. Beyond the committed part that depends on (k, step)
only: one constant table for a lookahead, gathered by each branch's k.
Must not know: pages, attention back-ends. Tests: tests/algorithm/test_tree.py.
"""

from __future__ import annotations

from functools import lru_cache

import torch


def branch_position(committed: int, accepted: int, step: int) -> int:
    """Absolute position of the branch token that runs at `step`: t* at step 0, x_i at step i."""
    return committed + accepted + step


def shared_length(committed: int, accepted: int) -> int:
    """How many leading positions of the row a branch sees: the committed tokens and `accepted` of the proposal."""
    return committed + accepted


@lru_cache(maxsize=32)
def suffix_visibility(lookahead: int) -> torch.Tensor:
    """The constant table of D7: visible_JWS, bool of shape (K + 1, K + 1, 2K + 1).

    Entry (k, step, slot) says whether the token that a branch of outcome (k, .) runs at `step` sees the suffix slot.
    Slots 0 ... K - 1 hold the proposal, slots K ... 2K the branch's own tokens in order (t* first). Steps run from 0
    to K: a branch of K tokens runs t* and its first K - 1 tokens, and one step more when it is extended after a hit.
    The table is shared: do not write to it.
    """
    accepted_J11 = torch.arange(lookahead + 1)[:, None, None]
    step_W1 = torch.arange(lookahead + 1)[None, :, None]
    slot_S = torch.arange(2 * lookahead + 1)[None, None, :]
    in_proposal = (slot_S < lookahead) & (slot_S < accepted_J11)
    own = (slot_S >= lookahead) & (slot_S <= lookahead + step_W1)
    return in_proposal | own
