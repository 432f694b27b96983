from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.cache import SpeculationCache, Tag
from saguaro.algorithm.terms import Outcome, Proposal

TAG = Tag(generation=1, request=7, round_number=3, committed=40)


def test_look_up_by_outcome():
    cache = SpeculationCache()
    cache.write(Outcome(1, 5), Proposal((8, 9)))
    assert cache.look_up(Outcome(1, 5)).tokens == (8, 9)
    assert cache.look_up((1, 5)).tokens == (8, 9)
    assert cache.look_up(Outcome(1, 6)) is None
    assert (cache.hits, cache.misses) == (2, 1)


def test_a_covered_outcome_without_tokens_is_no_hit():
    cache = SpeculationCache(TAG)
    cache.cover([Outcome(0, 1), Outcome(2, 4)], tag=TAG)
    assert cache.covers((2, 4))
    assert cache.depth((2, 4)) == 0
    assert cache.look_up((2, 4)) is None
    assert not cache.covers((2, 5))
    assert cache.outcomes() == [(0, 1), (2, 4)]


def test_entries_get_deeper_and_never_shallower():
    cache = SpeculationCache(TAG)
    for tokens in ((), (4,), (4, 5), (4, 5)):
        assert cache.write((0, 1), Proposal(tokens), tag=TAG)
    assert not cache.write((0, 1), Proposal((4,)), tag=TAG)
    assert cache.depth((0, 1)) == 2
    assert cache.ignored == 1
    assert len(cache) == 1


@given(st.sampled_from(Tag._fields), st.integers(1, 5))
def test_any_other_tag_is_ignored_and_counted(field, offset):
    cache = SpeculationCache(TAG)
    other = TAG._replace(**{field: getattr(TAG, field) + offset})
    assert not cache.write((0, 1), Proposal((4,)), tag=other)
    assert (len(cache), cache.ignored) == (0, 1)
    assert cache.write((0, 1), Proposal((4,)), tag=TAG)


def test_a_new_round_forgets_the_old_one():
    cache = SpeculationCache(TAG)
    cache.write((0, 1), Proposal((4,)), tag=TAG)
    cache.expect(TAG._replace(round_number=4))
    assert cache.look_up((0, 1)) is None
    assert not cache.write((0, 1), Proposal((4,)), tag=TAG)
