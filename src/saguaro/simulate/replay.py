"""Recorded rounds under any fan-out policy and budget: the exact hit rate in lockstep, without a model.

Under shared noise (and at temperature 0), with a fixed lookahead and the neural fallback, a branch and a fallback draw
the same tokens, so proposals and outcomes of a request do not depend on policy or budget. What is left is whether an
outcome was prepared for, which the same functions decide here that decide in the draft.
Must not know: engines. Tests: tests/simulate/test_replay.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from saguaro.algorithm.fan_out import open_fan_out
from saguaro.algorithm.fan_out.base import guesses_needed
from saguaro.algorithm.odds import UNCALIBRATED, Calibration, candidates_listed
from saguaro.algorithm.rounds import EndedRound
from saguaro.config import FanOut, fan_out_lists
from saguaro.theory.evidence import RunningEvidence


def replay(
    rounds: Sequence[EndedRound],
    policy: FanOut,
    budget: int,
    *,
    lookahead: int,
    evidence: RunningEvidence | None = None,
    learning: bool = True,
    calibration: Calibration = UNCALIBRATED,
) -> list[bool]:
    """Whether each round's outcome would have been a hit.

    Args:
        rounds: as recorded, in the order in which they ended; those of a request from its first on.
        policy: as `fan_out` of a configuration.
        budget: B.
        lookahead: K of the engine.
        evidence: what the draft expects at first; it is changed while `learning`. None is what an engine without a
            profile expects.
        learning: follow the rounds, as the engine does.
        calibration: how scores become odds.

    Returns:
        One value a round. A round after which no proposal could follow is no hit, as in the engine.
    """
    chooser = open_fan_out(policy) if isinstance(policy, str) else open_fan_out(*fan_out_lists(policy))
    known = evidence or RunningEvidence()
    listed = candidates_listed(guesses_needed(chooser, lookahead, budget, known))
    came_from_hit: dict[int, bool] = {}
    hits = []
    for each in rounds:
        after_hit = came_from_hit.get(each.request, True)
        counts = chooser.counts(len(each.sent), budget, known.of(after_hit=after_hit), after_hit=after_hit)
        guesses = each.guesses(listed, calibration)
        chosen = chooser.choose(guesses, each.sent, budget, counts)
        hit = each.wanted > 0 and any(outcome == (each.accepted, each.bonus) for _, outcome in chosen)
        if learning:
            seen = guesses[each.accepted].tokens if each.accepted < len(guesses) else None
            known.update(after_hit=after_hit, sent=each.sent, accepted=each.accepted, bonus=each.bonus, guesses=seen)
        came_from_hit[each.request] = hit
        hits.append(hit)
    return hits
