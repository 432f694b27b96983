"""How much of a tree pays: by room, by the time of a row, by the time of a pass of the draft."""

from saguaro.algorithm.proposal_tree import ProposalTree, chain
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


def test_rows_share_a_pass_of_the_draft_and_the_rows_of_a_verification() -> None:
    estimates = Estimates(16)
    estimates.measured({1: 0.1, 8: 0.1, 16: 0.9}, beside=False)
    estimates.round_took(10, 1.0)
    choice = TreeChoice(estimates)
    assert len(choice.cut(TREE, REACH, most=5, levels=3, prune=True)) == 5
    choice.rows, choice.others = 2, 6
    estimates.round_took(20, 1.0, rows=2)
    assert len(choice.cut(TREE, REACH, most=5, levels=3, prune=True)) == 1
