"""The oracle of trees: exact over every path of its choices, and equal to the functions that the engine is made of."""

import itertools
import math

import pytest
import torch
from tests.algorithm.test_reference import law_of_paths, model

from saguaro.algorithm.noise import gumbel, row_key
from saguaro.algorithm.proposal_tree import ProposalTree, grow
from saguaro.algorithm.reference import KeyedDraws
from saguaro.algorithm.reference_trees import TreeOptions, _Run, decode
from saguaro.algorithm.verify_tree import verify_tree_shared_noise
from saguaro.errors import ConfigError

TARGET = model(4, 1)
DRAFT = model(4, 2, like=TARGET, share=0.6)


def run(**changes):
    return decode(TARGET, DRAFT, [3, 1], options=TreeOptions(max_tokens=12, **changes))


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
@pytest.mark.parametrize(("nodes", "levels"), [(1, 1), (3, 2), (6, 2), (9, 3)])
def test_shared_noise_equals_the_target_alone(temperature, nodes, levels):
    assert run(nodes=nodes, levels=levels, temperature=temperature) == run(temperature=temperature)


def test_rejection_at_temperature_0_equals_the_target_alone():
    alone = run(temperature=0.0)
    assert run(verification="rejection", nodes=6, levels=2, temperature=0.0) == alone
    assert run(verification="rejection", drawn=(2, 2), levels=2, temperature=0.0) == alone


def test_a_tree_ends_no_later_than_a_chain():
    """More guesses a level can only take the walk further."""
    options = {"verification": "shared_noise", "temperature": 1.0, "levels": 2}
    lengths = []
    for nodes in (0, 2, 20):
        runs = [
            _Run(TARGET, DRAFT, TreeOptions(nodes=nodes, seed=seed, **options), KeyedDraws(0, 0)) for seed in range(40)
        ]
        lengths.append(sum(len(one.verify([3], one.best_tree([3]), 0)) for one in runs))
    assert lengths[0] == 40
    assert lengths[0] < lengths[1] < lengths[2] == 120


def law_of_tokens(target, draft, options):
    """Over every path of choices."""
    return law_of_paths(lambda draws: decode(target, draft, [0], options=options, draws=draws))


@pytest.mark.parametrize(
    ("vocab", "changes"),
    [
        (2, {"nodes": 3, "levels": 2}),
        (3, {"nodes": 4, "levels": 2}),
        (2, {"drawn": (2, 1), "levels": 2}),
        (3, {"drawn": (2,)}),
        (2, {"drawn": (1, 1), "levels": 2}),
    ],
)
def test_rejection_is_lossless_over_every_path(vocab, changes):
    target, draft = model(vocab, 11, sharpness=1.0), model(vocab, 12, sharpness=1.0)
    found, paths = law_of_tokens(target, draft, TreeOptions(verification="rejection", max_tokens=2, **changes))
    assert paths > 5
    for tokens in itertools.product(range(vocab), repeat=2):
        exact = math.prod(float(torch.softmax(target([0, *tokens[:i]]), 0)[t]) for i, t in enumerate(tokens))
        assert found.get(tokens, 0.0) == pytest.approx(exact, abs=1e-12)


def test_unknown_settings_are_refused():
    with pytest.raises(ConfigError):
        TreeOptions(verification="faith")
    with pytest.raises(ConfigError, match="rejection"):
        TreeOptions(drawn=(2,))


@pytest.mark.parametrize("seed", range(6))
def test_the_engines_functions_grow_and_walk_the_same_tree(seed):
    options = TreeOptions(nodes=6, levels=3, seed=seed)
    oracle = _Run(TARGET, DRAFT, options, KeyedDraws(seed, 0))
    prefix = [2, seed % 4]

    def noisy(logits, path):
        noise_V = gumbel(row_key(seed, 0, len(prefix) + len(path)), 4).double()
        return logits([*prefix, *path]) + noise_V

    def candidates(path):
        odds_V = torch.softmax(noisy(DRAFT, path), 0)
        order = odds_V.argsort(descending=True).tolist()
        return order, odds_V[order].tolist()

    tree, _ = grow(candidates, nodes=6, levels=3)
    assert isinstance(tree, ProposalTree)
    known = oracle.best_tree(prefix)
    assert {tree.tokens_to(node) for node in range(1, len(tree) + 1)} == {
        (*path, token) for path, tokens in known.children.items() for token in tokens
    }
    own = [int(noisy(TARGET, tree.tokens_to(node)).argmax()) for node in range(len(tree) + 1)]
    node, bonus = verify_tree_shared_noise(own, tree)
    assert [*tree.tokens_to(node), bonus] == oracle.verify(prefix, known, 0)
