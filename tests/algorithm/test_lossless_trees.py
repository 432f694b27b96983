"""Losslessness of proposal trees by enumeration: every tree that can be drawn, every outcome, in float64.

p and q are functions of the whole prefix, drawn independently. A tree is drawn node by node; how many children a node
gets is decided from all that was drawn before. The law of the tokens of a round, carried on by the target to a fixed
length, must be that of the target alone.
"""

import itertools
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saguaro.algorithm.proposal_tree import ProposalTree, grow
from saguaro.algorithm.verify_tree import tree_outcome_law, verify_tree_shared_noise, without

P, Q = 0, 1


@dataclass
class World:
    """Two models over V tokens, and a rule for the shape of trees."""

    vocab: int
    levels: int
    seed: int
    most: int = 4  # nodes of a tree
    widest: int = 2  # children of a node
    holes: float = 0.2
    sharpness: float = 2.0
    known: dict = field(default_factory=dict)

    def law(self, which, path):
        key = (which, path)
        if key not in self.known:
            made = torch.Generator().manual_seed(hash((self.seed, which, path)) % 2**63)
            row = (self.sharpness * torch.randn(self.vocab, generator=made, dtype=torch.float64)).exp()
            row[torch.rand(self.vocab, generator=made) < self.holes] = 0
            row[int(torch.randint(self.vocab, (1,), generator=made))] += 0.1
            self.known[key] = row / row.sum()
        return self.known[key]

    def wanted(self, tokens, parents, node):
        """Children of a node, by everything that was drawn before them."""
        made = torch.Generator().manual_seed(hash((self.seed, tuple(tokens), tuple(parents), node)) % 2**63)
        return int(torch.randint(self.widest + 1, (1,), generator=made)) if node else self.widest

    def kept(self, drawn):
        """What of the children of a node is proposed."""
        return drawn

    def drawn_trees(self):
        """Every tree, the laws of its children, and its probability."""
        yield from self._grown([], [], {}, 1.0, 0)

    def _grown(self, tokens, parents, laws, mass, node):
        tree = ProposalTree(tuple(tokens), tuple(parents))
        if node > len(tokens):
            yield tree, laws, mass
            return
        depth = tree.depths[node - 1] if node else 0
        q_V = self.law(Q, tree.tokens_to(node))
        count = min(self.wanted(tokens, parents, node), self.most - len(tokens), int(q_V.count_nonzero()))
        if depth == self.levels:
            count = 0
        for drawn in itertools.permutations(range(self.vocab), count):
            share, rest_V = 1.0, q_V
            for token in drawn:
                share *= float(rest_V[token])
                rest_V = without(rest_V, token)
            if share > 0:
                kept = self.kept(drawn)
                yield from self._grown(
                    [*tokens, *kept], [*parents, *[node] * len(kept)], {**laws, node: q_V}, mass * share, node + 1
                )

    def certain_trees(self):
        """The one tree that the draft's odds make, in which nothing is drawn."""

        def candidates(path):
            q_V = self.law(Q, path)
            order = q_V.argsort(descending=True, stable=True).tolist()
            return order, q_V[order].tolist()

        tree, _ = grow(candidates, nodes=self.most, levels=self.levels)
        yield tree, None, 1.0

    def p_of(self, tree):
        return torch.stack([self.law(P, tree.tokens_to(node)) for node in range(len(tree) + 1)])

    def sprouting_chains(self, peeks=False):
        """Every chain that can be drawn, with siblings that are chosen by all of its tokens: what SSD verifies.

        With `peeks` the chain is as long as its tokens say, which is not lossless.
        """
        for tokens in itertools.product(range(self.vocab), repeat=self.levels):
            mass, laws = 1.0, {}
            for place, token in enumerate(tokens):
                laws[place] = self.law(Q, tokens[:place])
                mass *= float(laws[place][token])
            if mass > 0:
                kept = tokens[: self.levels - 1] if peeks and tokens[-1] == 0 else tokens
                yield self.sprouted(kept), {place: laws[place] for place in range(len(kept))}, mass

    def sprouted(self, tokens):
        """The chain with some siblings, by a rule that looks at the whole chain."""
        made = torch.Generator().manual_seed(hash((self.seed, tokens)) % 2**63)
        parents, beside = list(range(len(tokens))), []
        for place, token in enumerate(tokens):
            order = torch.randperm(self.vocab, generator=made).tolist()
            count = int(torch.randint(self.widest + 1, (1,), generator=made))
            beside += [(place, other) for other in order if other != token][:count]
        return ProposalTree((*tokens, *(token for _, token in beside)), (*parents, *(place for place, _ in beside)))

    def largest_error(self, trees, **how):
        """Over all texts of `levels` + 1 tokens, |mass found - mass of the target alone|."""
        found = [torch.zeros((self.vocab,) * n, dtype=torch.float64) for n in range(self.levels + 2)]
        total = 0.0
        for tree, laws, mass in trees:
            total += mass
            outcomes = tree_outcome_law(self.p_of(tree), tree, laws, **how)
            for node in range(len(tree) + 1):
                path = tree.tokens_to(node)
                found[len(path) + 1][path] += mass * outcomes[node]
        assert total == pytest.approx(1.0, abs=1e-12)
        carried, alone = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)
        for length in range(1, self.levels + 2):
            every = itertools.product(range(self.vocab), repeat=length - 1)
            p = torch.stack([self.law(P, path) for path in every]).reshape((self.vocab,) * length)
            carried = carried[..., None] * p + found[length]
            alone = alone[..., None] * p
        return float((carried - alone).abs().max())


sizes = st.sampled_from([(2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3), (4, 1), (4, 2)])
worlds = st.builds(
    lambda size, **options: World(*size, **options),
    size=sizes,
    seed=st.integers(0, 2**32),
    most=st.integers(0, 4),
    widest=st.integers(1, 3),
    holes=st.sampled_from([0.0, 0.2, 0.5]),
    sharpness=st.sampled_from([0.3, 1.0, 3.0]),
)


@given(worlds)
@settings(max_examples=30, deadline=None)
def test_drawn_trees_have_the_targets_law(world):
    assert world.largest_error(world.drawn_trees()) < 1e-12


@given(worlds, st.integers(0, 12))
@settings(max_examples=60, deadline=None)
def test_certain_trees_have_the_targets_law(world, most):
    world.most = most
    assert world.largest_error(world.certain_trees()) < 1e-12


@given(worlds)
@settings(max_examples=30, deadline=None)
def test_chains_with_siblings_have_the_targets_law(world):
    assert world.largest_error(world.sprouting_chains(), first_only=True) < 1e-12


def test_the_largest_chains_with_siblings():
    world = World(4, 3, seed=7, widest=3, holes=0.1)
    assert world.largest_error(world.sprouting_chains(), first_only=True) < 1e-12


def test_the_enumeration_sees_siblings_that_are_taken_for_drawn_ones_and_chains_cut_by_their_tokens():
    world = World(3, 2, seed=3, holes=0)
    assert world.largest_error(world.sprouting_chains(), first_only=True) < 1e-12
    assert world.largest_error(world.sprouting_chains()) > 1e-3
    assert world.largest_error(world.sprouting_chains(peeks=True), first_only=True) > 1e-3


@pytest.mark.parametrize(("most", "widest"), [(4, 2), (4, 3), (3, 1)])
def test_the_largest_size(most, widest):
    world = World(4, 3, seed=7, most=most, widest=widest, holes=0.1)
    assert world.largest_error(world.drawn_trees()) < 1e-12


def test_the_enumeration_sees_a_tree_that_looks_at_the_draw():
    """Leaving a child out because of what it is, is not lossless; the enumeration says so."""

    class Peeking(World):
        def kept(self, drawn):
            return drawn if drawn and drawn[-1] == 0 else drawn[:-1]

    assert World(3, 2, seed=3, holes=0).largest_error(World(3, 2, seed=3, holes=0).drawn_trees()) < 1e-12
    peeking = Peeking(3, 2, seed=3, holes=0)
    assert peeking.largest_error(peeking.drawn_trees()) > 1e-3


def test_the_enumeration_sees_a_law_that_was_not_drawn_from():
    class Mistaken(World):
        def drawn_trees(self):
            for tree, _, mass in super().drawn_trees():
                other = {node: self.law(P, tree.tokens_to(node)) for node in range(len(tree) + 1)}
                yield tree, other, mass

    mistaken = Mistaken(3, 2, seed=3, holes=0)
    assert mistaken.largest_error(mistaken.drawn_trees()) > 1e-3


@given(worlds, st.integers(0, 8), st.integers(0, 2**32))
@settings(max_examples=60)
def test_shared_noise_gives_the_targets_own_text_for_any_tree(world, most, noise):
    """One token drawn by the target at every position and prefix; the round's tokens are the text that it writes."""
    world.most = most
    made = torch.Generator().manual_seed(noise)
    numbers = -torch.empty(world.levels + 1, world.vocab, dtype=torch.float64).exponential_(generator=made).log()

    def own(path):
        return int((world.law(P, path).log() + numbers[len(path)]).argmax())

    text = []
    for _ in range(world.levels + 1):
        text.append(own(tuple(text)))
    [(tree, _, _)] = world.certain_trees()
    node, bonus = verify_tree_shared_noise([own(tree.tokens_to(node)) for node in range(len(tree) + 1)], tree)
    tokens = [*tree.tokens_to(node), bonus]
    assert tokens == text[: len(tokens)]
    assert not any(tree.tokens_to(child) == tuple(tokens) for child in range(1, len(tree) + 1))
