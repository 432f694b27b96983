"""The engine's draft pass by pass, by hand: what runs, what is given up, and how both devices slow one another."""

import pytest

from saguaro.algorithm.fan_out import open_fan_out
from saguaro.algorithm.odds import Guesses
from saguaro.algorithm.terms import Outcome
from saguaro.simulate.costs import Costs
from saguaro.simulate.passes import News, PassingDraft, Round

SURE = Guesses([0, 1, 2], [0.9, 0.06, 0.04])


def verified(depth: int, lookahead: int = 2) -> Round:
    """A round that verifies `depth` first choices; F is 1 everywhere."""
    return Round((0,) * depth, [SURE] * (depth + 1), [(0.9,) * lookahead] * (depth + 1), (1,) * (depth + 1))


def opened(costs: Costs, *, budget: int = 4, branching: bool = True) -> PassingDraft:
    draft = PassingDraft(costs, open_fan_out("ranked"), budget=budget, lookahead=2, rows=1, branching=branching)
    draft.begin(0, verified(0), 0.0)
    return draft


@pytest.mark.parametrize(("outcome", "there"), [(Outcome(0, 9), 5.5), (Outcome(2, 9), 6.0)])
def test_a_pass_of_which_no_row_matters_is_given_up(outcome, there):
    draft = opened(Costs(lambda rows: 0.5, lambda rows: 1.0))
    assert draft.verify(0.0, 1) == 0.5
    draft.tell(0, News(0.5, Outcome(0, 7), True, verified(2)))
    assert draft.serve(0.5, [0]) == pytest.approx(3.0)  # the prompt's pass ends at 1, then two tokens
    draft.took(0, 3.0)
    assert draft.verify(3.0, 3) == pytest.approx(3.5)  # the proposal's last token runs since 3
    draft.tell(0, News(3.5, outcome, True, verified(2)))
    assert draft.serve(3.5, [0]) == pytest.approx(there)


def test_a_share_of_a_verification_is_done_together():
    costs = Costs(lambda rows: 1.0, lambda rows: 0.1, lambda rows: 2.0, lambda rows: 0.15)
    draft = opened(costs, budget=1)
    # The tail, and two tokens of the branch: .45 s, in which .225 of the verification is done.
    assert draft.verify(0.0, 1) == pytest.approx(0.45 + 0.775)
    assert draft.cached(0, Outcome(0, 0)) == 2
    assert (draft.passes, draft.busy) == (3, pytest.approx(0.45))


def test_a_pass_that_slows_the_target_more_than_it_saves_is_not_run():
    costs = Costs(lambda rows: 1.0, lambda rows: 0.1, lambda rows: 2.0, lambda rows: 0.25)
    draft = opened(costs, budget=1)
    draft.verify(0.0, 1)
    assert draft.cached(0, Outcome(0, 0)) == 0
    assert draft.passes == 1


def test_dear_rows_are_run_likeliest_first():
    draft = opened(Costs(lambda rows: 0.55, lambda rows: 0.1 * rows), budget=3)
    draft.verify(0.0, 1)
    assert [draft.cached(0, Outcome(0, bonus)) for bonus in range(3)] == [2, 2, 0]
    cheap = opened(Costs(lambda rows: 0.35, lambda rows: 0.1), budget=3)
    cheap.verify(0.0, 1)
    assert [cheap.cached(0, Outcome(0, bonus)) for bonus in range(3)] == [2, 2, 2]


def test_a_hit_keeps_what_was_drawn():
    draft = opened(Costs(lambda rows: 0.35 if rows == 1 else 0.25, lambda rows: 0.1))
    assert draft.verify(0.0, 1) == pytest.approx(0.35)
    assert draft.cached(0, Outcome(0, 0)) == 2
    assert draft.waits(0.35, 2, 2, asking=1) == [0.0, 0.0, 0.0]
    draft.tell(0, News(0.35, Outcome(0, 0), False, verified(2)))
    draft.verify(0.35, 3)  # the last token runs first, since nothing is known of what follows it
    assert draft.cached(0, Outcome(2, 0)) == 1


def test_a_hit_of_which_less_is_taken_than_was_drawn():
    draft = opened(Costs(lambda rows: 0.35 if rows == 1 else 0.25, lambda rows: 0.1))
    draft.verify(0.0, 1)
    draft.tell(0, News(0.35, Outcome(0, 0), False, verified(1)))
    draft.verify(0.35, 2)  # all that is taken has run: two steps of the branches
    assert draft.cached(0, Outcome(1, 0)) == 2


def test_what_the_target_expects_of_a_wait():
    draft = opened(Costs(lambda rows: 0.25, lambda rows: 0.1))
    draft.verify(0.0, 1)
    # One token is there, the second has .05 to go; on a miss a pass begins after the news.
    assert draft.cached(0, Outcome(0, 0)) == 1
    assert draft.waits(0.25, 1, 3, asking=1) == pytest.approx([0.0, 0.0, 0.05, 0.15])
    assert draft.waits(0.25, 0, 2, asking=1) == pytest.approx([0.0, 0.1, 0.2])


def test_without_branches_the_draft_works_when_it_is_asked():
    draft = opened(Costs(lambda rows: 1.0, lambda rows: 0.1), branching=False)
    draft.verify(0.0, 1)
    assert draft.passes == 1
    draft.tell(0, News(1.0, Outcome(0, 5), True, verified(2)))
    assert draft.serve(1.0, [0]) == pytest.approx(1.2)
    draft.took(0, 1.2)
    draft.verify(1.2, 3)
    assert draft.passes == 3


def test_a_request_that_ends_takes_its_pass_along():
    draft = opened(Costs(lambda rows: 0.5, lambda rows: 1.0))
    draft.verify(0.0, 1)
    draft.begin(0, verified(0), 0.5)
    assert draft.verify(0.5, 1) == 1.0
    assert draft.passes == 1
    draft.tell(0, News(1.0, Outcome(0, 7), True, verified(1)))
    assert draft.serve(1.0, [0]) == pytest.approx(2.5)  # its own prompt's pass began at .5


def hinted(hint, *, dear: float = 0.0, branching: bool = False) -> PassingDraft:
    """K is 4; a row more costs `dear` of a pass."""
    costs = Costs(lambda rows: 1.0, lambda rows: 0.1 * (1 + dear * (rows - 1)))
    draft = PassingDraft(
        costs, open_fan_out("ranked"), budget=1, lookahead=4, rows=1, branching=branching, hint=lambda: hint
    )
    draft.begin(0, verified(0, 4), 0.0)
    return draft


@pytest.mark.parametrize(("hint", "passes"), [((0, 0), 4), ((2, 0), 4), ((2, 1), 2), ((2, 3), 1)])
def test_a_proposal_takes_as_few_passes_as_its_hints_allow(hint, passes):
    draft = hinted(hint)
    draft.verify(0.0, 1)
    draft.tell(0, News(1.0, Outcome(0, 5), True, verified(4, 4)))
    assert draft.serve(1.0, [0]) == pytest.approx(1.0 + 0.1 * passes)
    assert draft.passes == 1 + passes


def test_hints_that_cost_more_than_they_save_do_not_run():
    draft = hinted((2, 3), dear=1.0)
    draft.verify(0.0, 1)
    draft.tell(0, News(1.0, Outcome(0, 5), True, verified(4, 4)))
    assert draft.serve(1.0, [0]) == pytest.approx(1.4)
    assert draft.rows_run == 5


def test_branches_take_hints_too():
    draft = hinted((2, 1), branching=True)
    assert draft.verify(0.0, 1) == pytest.approx(1.0)
    assert draft.cached(0, Outcome(0, 0)) == 4
    assert draft.passes == 3, "the prompt's, and two of two tokens each"
    assert draft.waits(1.0, 0, 2, asking=1) == pytest.approx([0.0, 0.1, 0.2])
