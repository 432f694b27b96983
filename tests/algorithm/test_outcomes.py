from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.outcomes import candidates_needed, predict


def test_the_sent_token_is_excluded_below_the_end_only():
    candidates = [[5, 3, 1], [7, 2, 9], [4, 8, 6]]
    found = predict(candidates, [5, 2], (2, 2, 2))
    assert found == [(0, 3), (0, 1), (1, 7), (1, 9), (2, 4), (2, 8)]


def test_the_sent_token_may_follow_all_accepted():
    assert predict([[5, 3], [3, 5]], [3], (1, 1)) == [(0, 5), (1, 3)]


def test_none_in_place_of_a_token_excludes_nothing():
    assert predict([[5, 3], [1]], [None], (2, 1)) == [(0, 5), (0, 3), (1, 1)]


def test_prefill_has_one_position():
    assert predict([[4, 2, 8]], [], (2,)) == [(0, 4), (0, 2)]


def test_short_lists_give_fewer_outcomes():
    assert predict([[5], [], [1]], [5, 2], (3, 1, 2)) == [(2, 1)]


@given(st.lists(st.permutations(range(6)), min_size=1, max_size=5), st.data())
def test_counts_and_order(candidates, data):
    positions = len(candidates)
    sent = data.draw(st.lists(st.integers(0, 5), min_size=positions - 1, max_size=positions - 1))
    counts = data.draw(st.lists(st.integers(0, 5), min_size=positions, max_size=positions))
    needed = candidates_needed(counts)
    found = predict([ranked[:needed] for ranked in candidates], sent, counts)
    assert len(set(found)) == len(found) == sum(counts)
    assert found == sorted(found, key=lambda o: (o.accepted, candidates[o.accepted].index(o.bonus)))
    for accepted, bonus in found:
        assert accepted == positions - 1 or bonus != sent[accepted]


def test_candidates_needed():
    assert candidates_needed((2, 1, 0)) == 3
    assert candidates_needed((0, 0, 4)) == 4
    assert candidates_needed((0,)) == 0
