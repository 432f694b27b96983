"""Which outcomes to prepare for, Section 4.1: the best guesses of the bonus token after each number of accepted tokens.

The ranking is the draft's own: by noisy scores under `shared_noise` (the draft knows the noise that the target will
use), by logits under `rejection`. Plain Python lists: a round prepares a few dozen outcomes at most.
Must not know: models, policies (they give the counts), messages. Tests: tests/algorithm/test_outcomes.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from saguaro.algorithm.terms import Outcome


def candidates_needed(counts: Sequence[int]) -> int:
    """How long the ranked lists must be: the largest fan-out, and one more where the sent token may be among them."""
    return max([count + 1 for count in counts[:-1] if count] + list(counts[-1:]), default=0)


def predict(candidates: Sequence[Sequence[int]], sent: Sequence[int | None], counts: Sequence[int]) -> list[Outcome]:
    """The outcomes to prepare, ordered by k and then by rank.

    After a rejection at position k the bonus token cannot be the token sent there: under `shared_noise` the target
    drew another one, under `rejection` the residual law gives it no mass. After d accepted tokens nothing is excluded.

    Args:
        candidates: for each position k = 0 ... d, ids ranked best first. Entry k comes from the draft's scores
            given the first k sent tokens.
        sent: the d tokens under verification; None in place of a token excludes nothing there.
        counts: F_0 ... F_d.

    Returns:
        At most sum(counts) distinct outcomes; fewer where a list is shorter than its count.
    """
    outcomes = []
    for accepted, count in enumerate(counts):
        if not count:
            continue
        excluded = sent[accepted] if accepted < len(sent) else None
        taken = 0
        for token in candidates[accepted]:
            if token == excluded:
                continue
            outcomes.append(Outcome(accepted, token))
            taken += 1
            if taken == count:
                break
    return outcomes
