"""How much of a tree pays: by room, by the time of a row, by the time of a pass of the draft."""

from saguaro.algorithm.proposal_tree import ProposalTree, chain
from saguaro.algorithm.siblings import Sibling
from saguaro.engine.metrics import Estimates
from saguaro.engine.tree_choice import TreeChoice, another_level_pays, pruned

TREE = ProposalTree((5, 9, 7, 2, 8), (0, 0, 2, 1, 3))
REACH = (0.6, 0.3, 0.2, 0.1, 0.05)


def test_the_first_nodes_are_kept_and_the_trunk_comes_first() -> None:
    tree = pruned(TREE, REACH, most=4, levels=3)
    assert tree == ProposalTree((5, 2, 9, 7), (0, 1, 0, 3))
    assert pruned(TREE, REACH, most=9, levels=2) == tree
    assert pruned(TREE, REACH, most=9, levels=1) == ProposalTree((5, 9), (0, 0))
    assert len(pruned(TREE, REACH, most=0, levels=3)) == 0


def test_nodes_that_do_not_pay_are_left_out() -> None:
    free = {"verify_seconds": lambda nodes: 1.0, "rate": 1.0}
    assert len(pruned(TREE, REACH, most=5, levels=3, **free)) == 5
    dear = {"verify_seconds": lambda nodes: 1.0 + 0.25 * nodes, "rate": 1.0}
    assert pruned(TREE, REACH, most=5, levels=3, **dear) == ProposalTree((5, 9), (0, 0))
    assert len(pruned(TREE, REACH, most=5, levels=3, verify_seconds=lambda nodes: 1.0 + nodes, rate=1.0)) == 0


COSTS = {"acceptance": [0.8] * 4, "step_seconds": 0.2, "row_seconds": 0.1, "rate": 1.0}


def test_a_level_is_waited_for_while_its_parents_are_likely() -> None:
    assert another_level_pays(chain((1,)), (0.5,), **COSTS)  # .4 tokens for .3 seconds
    assert not another_level_pays(chain((1, 2)), (0.9, 0.3), **COSTS)
    siblings = ProposalTree((1, 2, 3), (0, 1, 1))
    assert another_level_pays(siblings, (0.9, 0.3, 0.2), **COSTS)  # together they are
    assert not another_level_pays(chain((1,)), (0.5,), **{**COSTS, "step_seconds": 0.4})
    assert not another_level_pays(chain((1, 2, 3, 4)), (1.0,) * 4, **COSTS)  # no more is wanted


def test_the_choice_by_running_estimates() -> None:
    estimates = Estimates(16)
    estimates.measured({1: 0.1, 4: 0.1, 8: 0.5}, beside=False)  # three nodes are free, each further one is dear
    estimates.round_took(10, 1.0)  # ten tokens a second
    choice = TreeChoice(estimates)
    assert len(choice.cut(TREE, REACH, most=5, levels=3, prune=True)) == 3
    assert len(choice.cut(TREE, REACH, most=5, levels=3, prune=False)) == 5
    assert not choice.suffices(chain((1,)), (0.9,), wanted=3, step_seconds=0.01)
    assert choice.suffices(chain((1,)), (0.9,), wanted=3, step_seconds=0.1)
    assert choice.suffices(chain((1,)), (0.9,), wanted=1, step_seconds=0.01)
    assert choice.suffices(TREE, REACH, wanted=5, step_seconds=0.0)  # the next row alone costs a token


SIBLINGS = (Sibling(0, 7, 0.3), Sibling(1, 8, 0.2), Sibling(1, 9, 0.02), Sibling(2, 4, 0.9))


def test_siblings_are_taken_while_they_pay() -> None:
    estimates = Estimates(16)
    estimates.measured({1: 0.1, 3: 0.1, 4: 0.11, 5: 0.12, 6: 0.13}, beside=False)
    estimates.round_took(10, 1.0)  # ten tokens a second: a row costs a tenth of a token
    choice = TreeChoice(estimates)
    assert choice.beside((5, 6), SIBLINGS, most=6, prune=True) == ProposalTree((5, 6, 7, 8), (0, 1, 0, 1))
    assert choice.beside((5, 6), SIBLINGS, most=6, prune=False) == ProposalTree((5, 6, 7, 8, 9), (0, 1, 0, 1, 1))
    assert choice.beside((5, 6), SIBLINGS, most=1, prune=True) == ProposalTree((5, 6, 7), (0, 1, 0))
    assert choice.beside((5, 6), SIBLINGS, most=0, prune=False) is None
    assert choice.beside((5,), SIBLINGS[1:], most=6, prune=False) is None  # what stands behind it is no sibling
    dear = Estimates(16)
    dear.measured({1: 0.1, 3: 0.1, 4: 0.2}, beside=False)
    dear.round_took(10, 1.0)
    assert TreeChoice(dear).beside((5, 6), SIBLINGS, most=6, prune=True) is None


def test_a_sibling_whose_outcomes_are_missed_is_worth_less() -> None:
    estimates = Estimates(16)
    estimates.measured({1: 0.1, 3: 0.1, 4: 0.11, 5: 0.12, 6: 0.13}, beside=False)
    estimates.round_took(10, 1.0)
    for _ in range(200):  # a hit is worth a token and more
        estimates.looked_up(True)
        for hit, value in ((True, 3.0), (False, 2.0)):
            estimates.answers.looked_up("hit", hit)
            estimates.answers._values[hit].add(value)
    assert estimates.answers.worth() > 0.9
    choice = TreeChoice(estimates)
    both = choice.beside((5, 6), SIBLINGS, most=6, prune=True)
    assert both is not None
    assert len(both) == 4
    for _ in range(200):
        choice.ended_beside(False)
    assert choice.beside((5, 6), SIBLINGS, most=6, prune=True) is None


def test_rows_share_a_pass_of_the_draft_and_the_rows_of_a_verification() -> None:
    estimates = Estimates(16)
    estimates.measured({1: 0.1, 8: 0.1, 16: 0.9}, beside=False)
    estimates.round_took(10, 1.0)
    choice = TreeChoice(estimates)
    assert len(choice.cut(TREE, REACH, most=5, levels=3, prune=True)) == 5
    choice.rows, choice.others = 2, 6
    estimates.round_took(20, 1.0, rows=2)
    assert len(choice.cut(TREE, REACH, most=5, levels=3, prune=True)) == 1
