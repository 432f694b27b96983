import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.outcomes import predict
from saguaro.algorithm.ranking import top_ids
from saguaro.algorithm.saguaro_sampling import scale
from saguaro.algorithm.verify import acceptance, residual
from saguaro.errors import ConfigError
from saguaro.theory.acceptance import acceptance_rate


def law(*weights):
    q = torch.tensor(weights, dtype=torch.float64)
    return q / q.sum()


def hit_rate(p, q, fan_out, *, ranked_by, sent_is_excluded):
    """P(bonus token is among the guesses | the one proposed token was rejected), summed over the tokens sent."""
    hit = rejected = 0.0
    ranking = top_ids(ranked_by[None], len(p))
    for token in range(len(p)):
        mass = float(q[token] * (1 - acceptance(p[token], q[token])))
        sent = [token if sent_is_excluded else None]
        guesses = [bonus for _, bonus in predict([*ranking, []], sent, (fan_out, 0))]
        hit += mass * float(residual(p, q)[guesses].sum())
        rejected += mass
    return hit / rejected if rejected else 1.0


weights = st.lists(st.floats(0.01, 1), min_size=3, max_size=6)


@given(weights, st.randoms(use_true_random=False), st.integers(1, 3), st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_theorem_15_for_the_scheme_that_keeps_the_sent_token(first, random, fan_out, constants):
    """The hit rate never falls as C falls."""
    p, q = law(*first), law(*[random.uniform(0.01, 1) for _ in first])
    high, low = sorted(constants, reverse=True)
    before = hit_rate(p, scale(q[None], fan_out, high)[0], fan_out, ranked_by=q, sent_is_excluded=False)
    after = hit_rate(p, scale(q[None], fan_out, low)[0], fan_out, ranked_by=q, sent_is_excluded=False)
    assert after >= before - 1e-9


def test_theorem_19_for_the_scheme_that_excludes_it():
    """C = 47/147 leaves acceptance at .98 and lifts the hit rate from .5 to 1."""
    p, q = law(0.48, 0.48, 0.02, 0.02), law(0.49, 0.49, 0.01, 0.01)
    scaled = scale(q[None], 2, 47 / 147)[0]
    assert torch.allclose(scaled, law(0.47, 0.47, 0.03, 0.03), atol=1e-12, rtol=0)
    for draft, hits in ((q, 0.5), (scaled, 1.0)):
        assert acceptance_rate(p.tolist(), draft.tolist()) == pytest.approx(0.98)
        assert hit_rate(p, draft, 2, ranked_by=q, sent_is_excluded=True) == pytest.approx(hits)


@pytest.mark.parametrize(("c", "hits"), [(1, 0.50), (0.9, 0.46), (0.8, 0.35), (0.7, 0.0), (0.6, 0.91), (0.5, 1.0)])
def test_hits_need_not_grow_once_the_sent_token_is_excluded(c, hits):
    p, q = law(0.5, 0.3, 0.2), law(0.6, 0.25, 0.15)
    found = hit_rate(p, scale(q[None], 1, c)[0], 1, ranked_by=q, sent_is_excluded=True)
    assert found == pytest.approx(hits, abs=0.005)


@given(weights, st.integers(0, 8), st.floats(0, 1))
def test_exactly_the_f_likeliest_are_scaled(values, fan_out, c):
    q = law(*values)
    scaled = scale(q[None], fan_out, c)[0]
    top = sorted(range(len(q)), key=lambda t: (-float(q[t]), t))[:fan_out]
    factor = torch.ones_like(q)
    factor[top] = c
    expected = q * factor if 0 < len(top) < len(q) else q
    assert torch.allclose(scaled, expected / expected.sum(), atol=1e-12, rtol=0)
    assert float(scaled.sum()) == pytest.approx(1)


def test_each_row_has_its_own_fan_out():
    q = law(0.5, 0.3, 0.2).expand(3, -1)
    scaled = scale(q, [0, 1, 2], 0.0)
    assert scaled[0].tolist() == pytest.approx([0.5, 0.3, 0.2])
    assert scaled[1].tolist() == pytest.approx([0, 0.6, 0.4])
    assert scaled[2].tolist() == pytest.approx([0, 0, 1])


def test_ties_go_to_the_lower_id():
    assert scale(law(1, 1, 1)[None], 1, 0.0)[0].tolist() == pytest.approx([0, 0.5, 0.5])


def test_a_greedy_law_is_left_alone():
    greedy = torch.tensor([[0.0, 1.0, 0.0]])
    assert torch.equal(scale(greedy, 2, 0.0), greedy)
    assert torch.equal(scale(greedy, 1, 0.3), greedy)


def test_scaling_changes_nothing_in_place_and_checks_c():
    q = law(0.5, 0.3, 0.2)[None]
    before = q.clone()
    scale(q, 1, 0.2)
    assert torch.equal(q, before)
    assert scale(q, 1, 1.0) is q
    with pytest.raises(ConfigError, match=r"0 \.\.\. 1"):
        scale(q, 1, 1.5)
