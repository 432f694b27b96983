"""All sensible placements, each at its best setting, compared at equal numbers of devices.

Three comparisons matter: AR and SD on the target's devices alone (the paper's, which is not one of equal hardware);
everything on as many devices as SSD has; and other ways to divide those devices. A target is split over a number of
devices that divides its heads. Must not know: how a prediction is shown. Tests: tests/planner/test_search.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from saguaro.errors import ConfigError
from saguaro.planner.predict import Candidate, Prediction, predict
from saguaro.planner.question import Question

MOST_LOOKAHEAD = 12
BUDGETS = (2, 4, 6, 8, 12, 16, 24, 32, 48)
FALLBACKS = ("none", "neural")


@dataclass(frozen=True)
class Compared:
    """The best of each mode and placement.

    Args:
        asked: AR, SD and SSD as the question places them.
        equal: the best of each mode on as many devices as the asked SSD has.
        others: the best setting of every other placement of SSD on as many devices.
        left_out: placements that do not fit, and why.
    """

    asked: list[Prediction]
    equal: list[Prediction]
    others: list[Prediction]
    left_out: list[str]

    def of(self, mode: str, *, equal: bool = False) -> Prediction | None:
        """A mode's prediction; None where it does not fit or has no draft."""
        found = [each for each in (self.equal if equal else self.asked) if each.candidate.mode == mode]
        return found[0] if found else None

    @property
    def every(self) -> list[Prediction]:
        """Without repetitions, in the order shown."""
        seen: dict[Candidate, Prediction] = {}
        for each in (*self.asked, *self.equal, *self.others):
            seen.setdefault(each.candidate, each)
        return list(seen.values())


def compare(question: Question) -> Compared:
    """Look at everything.

    Raises:
        ConfigError: when the target does not fit on the devices that the question gives it.
    """
    target, draft = question.target_devices, question.draft_devices
    total = target + draft
    left_out: list[str] = []
    if question.target.heads % target:
        raise ConfigError(f"the {question.target.heads} heads of {question.target.name} do not divide by {target}.")
    if not question.fits(question.target, question.target_dtype, target):
        need = question.need(question.target, question.target_dtype) / 1e9
        have = target * question.hardware.memory / 1e9
        raise ConfigError(
            f"{question.target.name} needs {need:.0f} GB for weights, keys and values, and {target} x "
            f"{question.hardware.name} have {have:.0f} GB; give it more devices or a smaller dtype."
        )
    asked = [best(question, "ar", target, 0, target)]
    if question.draft is not None:
        asked += _if_it_fits(question, "sd", target, 0, target, left_out)
        if draft:
            asked += _if_it_fits(question, "ssd", target, draft, total, left_out)
    equal, others = [], []
    if question.times is None:  # measured times hold for the placement where they were measured
        sizes = list(_sizes(question, total))
        for mode in ("ar", "sd") if question.draft is not None else ("ar",):
            found = [each for size in sizes for each in _if_it_fits(question, mode, size, 0, total, left_out)]
            equal += [max(found, key=lambda each: each.tokens_per_second)] if found else []
        if draft and question.draft is not None:
            for size in sizes:
                if size < total and (size, total - size) != (target, draft):
                    others += _if_it_fits(question, "ssd", size, total - size, total, left_out)
            every = [*others, *(each for each in asked if each.candidate.mode == "ssd")]
            equal += [max(every, key=lambda each: each.tokens_per_second)] if every else []
    return Compared(asked, equal, others, list(dict.fromkeys(left_out)))


def best(question: Question, mode: str, target: int, draft: int, devices: int) -> Prediction:
    """The setting of a mode and placement that gives a request the most tokens a second; ties to the smaller ones."""
    found = (predict(question, candidate) for candidate in _candidates(question, mode, target, draft, devices))
    return max(found, key=lambda each: each.tokens_per_second)


def _candidates(question: Question, mode: str, target: int, draft: int, devices: int) -> Iterator[Candidate]:
    if mode == "ar":
        yield Candidate("ar", target, 0, devices)
        return
    lookaheads = [question.lookahead] if question.lookahead else range(1, MOST_LOOKAHEAD + 1)
    for lookahead in lookaheads:
        if mode == "sd":
            yield Candidate("sd", target, 0, devices, lookahead)
            continue
        for budget in [question.budget] if question.budget else BUDGETS:
            for fallback in FALLBACKS:
                yield Candidate("ssd", target, draft, devices, lookahead, budget, fallback)


def _sizes(question: Question, total: int) -> Iterator[int]:
    """Over how many devices the target can be split, of so many."""
    for size in range(1, total + 1):
        if question.target.heads % size == 0 and question.fits(question.target, question.target_dtype, size):
            yield size


def _if_it_fits(
    question: Question, mode: str, target: int, draft: int, devices: int, left_out: list[str]
) -> list[Prediction]:
    """The best setting, or nothing and a reason."""
    if mode != "ar" and question.draft is not None:
        alone = draft > 0
        beside = 0.0 if alone else question.need(question.target, question.target_dtype) / target
        if not question.fits(question.draft, question.draft_dtype, 1, beside=beside):
            where = "on a device of its own" if alone else "beside the target"
            left_out.append(
                f"{mode} on {target}{f'+{draft}' if draft else ''}: {question.draft.name} does not fit {where}"
            )
            return []
    return [best(question, mode, target, draft, devices)]
