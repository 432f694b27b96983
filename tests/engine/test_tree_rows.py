"""The target's side of trees: where an accepted path is kept, what a round draws and compares."""

import torch

from saguaro.algorithm.options import Sampling
from saguaro.algorithm.proposal_tree import ProposalTree
from saguaro.engine.sequence import Proposed, Sequence, Submission
from saguaro.engine.tree_rows import put_in_order, rows_of
from saguaro.execution.kv_pool import KVPool
from saguaro.models.config import ModelConfig
from saguaro.paging import PagePool, PageTable

TREE = ProposalTree((5, 9, 7, 2, 8), (0, 0, 2, 1, 3))


def row(tree: ProposalTree | None, node: int = 0, **options: object) -> Sequence:
    table = PageTable(PagePool(4, 4))
    table.ensure(12)
    submission = Submission(1, (1, 2, 3), Sampling(**options), 20, frozenset())  # type: ignore[arg-type]
    proposed = Proposed(tree.tokens if tree else (), "neural", tree=tree, node=node)
    return Sequence(submission, table, 64, proposed=proposed)


def pool() -> KVPool:
    config = ModelConfig(
        architecture="llama", num_layers=2, hidden=4, num_heads=1, num_kv_heads=1, head_dim=2, ffn=4, vocab=8,
        tied=True, rope_theta=1e4, max_position=64, rms_eps=1e-6,
    )  # fmt: skip
    found = KVPool(config, 16, torch.float32)
    found.data += torch.arange(16.0)[:, None, None]
    return found


def test_an_accepted_path_is_copied_to_its_positions() -> None:
    kv, s = pool(), row(TREE, node=5)  # path 2, 3, 5 in the slots behind position 3, 4, 5, 6, 7
    put_in_order(kv, [s, row(None)])
    assert kv.data[0, 0, 3:8, 0, 0].tolist() == [4, 5, 7, 6, 7]
    assert torch.equal(kv.data[1, 1, :, 0, 1], kv.data[0, 0, :, 0, 0])


def test_the_trunk_stays_where_it_is() -> None:
    kv, tree = pool(), TREE.trunk_first()
    put_in_order(kv, [row(tree, node=2)])
    assert tree.trunk == 2
    assert kv.data[0, 0, :, 0, 0].tolist() == list(range(16))


def test_the_rows_of_a_path() -> None:
    rows = torch.arange(6.0)[:, None]
    assert rows_of(Proposed(tree=TREE, node=5), rows)[:, 0].tolist() == [0, 2, 3, 5]
    assert rows_of(Proposed((1, 2)), rows) is rows


def test_what_a_round_compared() -> None:
    leaf, inner = Proposed(TREE.tokens, tree=TREE, node=5), Proposed(TREE.tokens, tree=TREE, node=2)
    assert leaf.tried(3) == 3  # nothing was proposed after the leaf
    assert inner.tried(1) == 2
    assert leaf.levels == 3
    sprout = ProposalTree((5, 2, 9, 7), (0, 1, 0, 1))  # a trunk of two, and a sibling of each
    ended = [Proposed(sprout.tokens, tree=sprout, node=node) for node in range(5)]
    assert [p.on_trunk(sprout.depths[p.node - 1] if p.node else 0) for p in ended] == [
        (1, 0), (2, 1), (2, 2), (1, 0), (2, 1),
    ]  # fmt: skip
    assert [p.beside_trunk for p in ended] == [False, False, False, True, True]
    assert [p.rejected(p.node) for p in ended] == [(5, 2), (2,), (), (), ()]
    assert Proposed((4, 5, 6)).rejected(1) == (5, 6)
    assert Proposed((4, 5)).on_trunk(1) == (2, 1)
    chain = Proposed((4, 5))
    assert [chain.tried(accepted) for accepted in range(3)] == [1, 2, 2]


def test_draws_stand_at_the_depth_of_their_node() -> None:
    assert [d.position for d in row(TREE).draws()] == [3, 4, 4, 5, 5, 6]
    edited = row(TREE, repetition_penalty=1.2).draws()
    assert [list(d.output) for d in edited] == [[], [5], [9], [9, 7], [5, 2], [9, 7, 8]]
    assert [d.position for d in edited] == [3, 4, 4, 5, 5, 6]
