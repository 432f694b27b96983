import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.sampling import BROKEN_ROW
from saguaro.algorithm.terms import DenseLaw, Outcome, PointMassLaw, Proposal, UniformLaw
from saguaro.algorithm.verify import (
    acceptance,
    draft_row,
    is_accepted,
    outcome_law,
    rejection_uniforms,
    residual,
    verify_rejection,
    verify_shared_noise,
)
from saguaro.errors import ProtocolError


def random_laws(seed, shape, holes=0.3):
    made = torch.Generator().manual_seed(seed)
    weights = torch.rand(shape, generator=made, dtype=torch.float64)
    weights *= torch.rand(shape, generator=made) > holes
    weights[..., 0] += 0.05
    return weights / weights.sum(dim=-1, keepdim=True)


def test_shared_noise_by_hand():
    assert verify_shared_noise([4, 5, 6], [4, 5]) == Outcome(2, 6)
    assert verify_shared_noise([4, 5, 6], [4, 9]) == Outcome(1, 5)
    assert verify_shared_noise([4, 5, 6], [9, 5]) == Outcome(0, 4)
    assert verify_shared_noise([4], []) == Outcome(0, 4)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.data())
def test_shared_noise_gives_the_targets_own_tokens(target, data):
    draft = data.draw(st.lists(st.integers(0, 2), max_size=len(target) - 1))
    accepted, bonus = verify_shared_noise(target, draft)
    assert [*draft[:accepted], bonus] == target[: accepted + 1]


def test_zero_probability_is_rejected_even_at_u_zero():
    """A token that the target would never say: u = 0 must not let it through."""
    p_JV = torch.tensor([[0.0, 1.0], [0.5, 0.5]])
    for law in (DenseLaw(torch.tensor([[1.0, 0.0]])), PointMassLaw(), UniformLaw(2)):
        outcome = verify_rejection(p_JV, Proposal((0,), law), accept_uniforms=[0.0], residual_uniforms=[0.3, 0.3])
        assert outcome == (0, 1)
    assert not is_accepted(0.0, 0.5, uniform=0.0)
    assert not is_accepted(0.0, 0.0, uniform=0.0)


def test_a_certain_token_is_accepted_at_the_largest_uniform():
    assert is_accepted(0.3, 0.3, uniform=1 - 2**-53)
    assert is_accepted(1e-300, 1e-300, uniform=1 - 2**-53)


def cells(boundaries):
    """Midpoints and widths of the pieces that boundaries cut (0, 1) into."""
    edges = sorted({0.0, 1.0, *(float(b) for b in boundaries if 0 < b < 1)})
    return [((a + b) / 2, b - a) for a, b in itertools.pairwise(edges) if b > a]


@given(st.integers(0, 2**32), st.integers(2, 4), st.integers(0, 2), st.sampled_from(["dense", "point", "uniform"]))
def test_rejection_over_all_its_numbers_is_the_outcome_law(seed, vocab, depth, kind):
    """Every piece of the unit cube of uniforms, weighted by its volume, against `outcome_law`."""
    p_JV = random_laws(seed, (depth + 1, vocab))
    made = torch.Generator().manual_seed(seed + 1)
    tokens = tuple(torch.randint(vocab, (depth,), generator=made).tolist())
    law = {
        "dense": DenseLaw(random_laws(seed + 2, (depth, vocab))),
        "point": PointMassLaw(),
        "uniform": UniformLaw(vocab),
    }
    proposal = Proposal(tokens, law[kind])
    q_KV = torch.stack([draft_row(proposal, i, like_V=p_JV[i]) for i in range(depth)]) if depth else p_JV[:0]
    found = torch.zeros_like(p_JV)
    accept_cells = [cells([p_JV[i, t] / q_KV[i, t]] if q_KV[i, t] > 0 else []) for i, t in enumerate(tokens)]
    rest = [*(residual(p_JV[i], q_KV[i]) for i in range(depth)), p_JV[depth]]
    for accepts in itertools.product(*accept_cells):
        for k in range(depth + 1):
            for middle, width in cells(rest[k].cumsum(0)):
                outcome = verify_rejection(
                    p_JV,
                    proposal,
                    accept_uniforms=[u for u, _ in accepts],
                    residual_uniforms=[middle if i == k else 0.5 for i in range(depth + 1)],
                )
                if outcome.accepted == k:
                    found[outcome] += width * torch.tensor([w for _, w in accepts], dtype=torch.float64).prod()
    expected = outcome_law(p_JV, torch.tensor(tokens, dtype=torch.int64), q_KV)
    assert float(expected.sum()) == pytest.approx(1, abs=1e-12)
    assert torch.allclose(found, expected, atol=1e-12, rtol=0)


@given(st.integers(0, 2**32), st.integers(2, 5))
def test_residual_is_what_acceptance_leaves(seed, vocab):
    """Accepted mass plus rejected mass times the residual law is the target's law, token by token."""
    p, q = random_laws(seed, (vocab,)), random_laws(seed + 1, (vocab,))
    accepted = q * acceptance(p, q)
    assert torch.allclose(accepted + (1 - accepted.sum()) * residual(p, q), p, atol=1e-12, rtol=0)
    assert torch.allclose(accepted, torch.minimum(p, q), atol=1e-15, rtol=0)


def test_residual_of_equal_laws_is_the_law():
    p = random_laws(3, (5,))
    assert torch.equal(residual(p, p), p)
    assert not torch.isnan(residual(p.float(), p.float())).any()


def test_a_token_beyond_the_targets_vocabulary_is_rejected():
    p_JV = torch.tensor([[0.5, 0.5], [0.5, 0.5]])
    proposal = Proposal((2,), DenseLaw(torch.tensor([[0.2, 0.2, 0.6]])))
    outcome = verify_rejection(p_JV, proposal, accept_uniforms=[0.0], residual_uniforms=[0.1, 0.1])
    assert outcome == (0, 0)


def test_a_shorter_draft_vocabulary_has_no_mass_beyond_it():
    p_V = torch.tensor([0.25, 0.25, 0.5])
    assert draft_row(Proposal((1,), DenseLaw(torch.tensor([[0.5, 0.5]]))), 0, like_V=p_V).tolist() == [0.5, 0.5, 0]
    assert draft_row(Proposal((1,), UniformLaw(2)), 0, like_V=p_V).tolist() == [0.5, 0.5, 0]
    assert draft_row(Proposal((1,), PointMassLaw()), 0, like_V=p_V).tolist() == [0, 1, 0]


def test_a_broken_target_row_is_flagged():
    p_JV = torch.full((2, 3), float("nan"))
    proposal = Proposal((0,), PointMassLaw())
    outcome = verify_rejection(p_JV, proposal, accept_uniforms=[0.5], residual_uniforms=[0.5, 0.5])
    assert outcome == (0, BROKEN_ROW)


def test_rejection_needs_the_law():
    with pytest.raises(ProtocolError, match="send the law along"):
        verify_rejection(torch.ones(2, 2) / 2, Proposal((0,)), accept_uniforms=[0.5], residual_uniforms=[0.5, 0.5])


def test_rejection_uniforms_are_all_different():
    seen = set()
    for round_number, branch in itertools.product(range(3), [None, (0, 3), (1, 3)]):
        accept, rest = rejection_uniforms(7, 0, position=20, round_number=round_number, branch=branch, depth=4)
        assert (len(accept), len(rest)) == (4, 5)
        seen |= {*accept, *rest}
    assert len(seen) == 9 * 9


@pytest.mark.parametrize("kind", ["own draw", "before"])
def test_whether_a_token_is_proposed_may_not_depend_on_its_own_draw(kind):
    """DESIGN D1: p = (.5, .5), q = (.9, .1). Dropping the token when its draw was 1 gives (.55, .45); a rule that looks
    at what precedes the token, whatever it decides, gives (.5, .5)."""
    p, q = torch.tensor([0.5, 0.5], dtype=torch.float64), torch.tensor([0.9, 0.1], dtype=torch.float64)
    one_row = {"p_JV": p.expand(2, -1), "q_KV": q[None]}
    first = torch.zeros(2, dtype=torch.float64)
    if kind == "own draw":
        for drawn in (0, 1):
            if drawn == 0:
                law = outcome_law(draft_tokens_K=torch.tensor([drawn]), **one_row)
                first[drawn] += q[drawn] * law[1].sum()
                first += q[drawn] * law[0]
            else:
                first += q[drawn] * p
        assert torch.allclose(first, torch.tensor([0.55, 0.45], dtype=torch.float64), atol=1e-12, rtol=0)
        return
    # Two positions; whether the second token is proposed depends on the first one: all four such rules.
    for goes_on in itertools.product([True, False], repeat=2):
        law_of_two = torch.zeros(2, 2, dtype=torch.float64)
        for s1, s2 in itertools.product(range(2), repeat=2):
            depth = 2 if goes_on[s1] else 1
            proposal = Proposal((s1, s2), DenseLaw(q.expand(2, -1))).cut(depth)
            outcomes = outcome_law(p.expand(depth + 1, -1), torch.tensor(proposal.tokens), proposal.law.q_KV)
            for k, bonus in itertools.product(range(depth + 1), range(2)):
                out = (*proposal.tokens[:k], bonus)
                mass = q[s1] * q[s2] * outcomes[k, bonus]
                if len(out) == 1:
                    law_of_two[out[0]] += mass * p
                else:
                    law_of_two[out[:2]] += mass
        assert torch.allclose(law_of_two, torch.full((2, 2), 0.25, dtype=torch.float64), atol=1e-12, rtol=0)
