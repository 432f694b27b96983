"""The exactness check of a benchmark."""

import hashlib

import pytest

from saguaro.bench.equality import Comparison, equal_everywhere, first_difference, token_ids_sha256


def a_run(mode="ar", temperature=0.0, verification="shared_noise", *, equal_hardware=False):
    return {
        "mode": mode, "temperature": temperature, "verification": verification, "equal_hardware": equal_hardware,
    }  # fmt: skip


def is_equal(comparison):
    return equal_everywhere({"token_equality": comparison.entries})


def test_the_first_run_is_the_reference():
    comparison = Comparison()
    comparison.add("ar", a_run(), [[1, 2], [3]])
    assert comparison.entries == []
    comparison.add("sd", a_run("sd"), [[1, 2], [3]])
    comparison.add("ssd", a_run("ssd"), [[1, 2], [4]])
    same, other = comparison.entries
    assert (same["equal"], same["with"], same["requests"]) == (True, "ar", 2)
    assert (other["equal"], other["expected"], other["of"]) == (False, True, "ssd")
    assert other["first_difference"] == {"prompt": 1, "position": 0}
    assert not is_equal(comparison)


def test_temperatures_are_apart():
    comparison = Comparison()
    comparison.add("ar", a_run(temperature=0.0), [[1]])
    comparison.add("ar", a_run(temperature=1.0), [[2]])
    assert comparison.entries == []


def test_requests_beyond_the_first_run_are_compared_with_who_had_them_first():
    """Batch 1 has one request, batch 4 two: the second is new with AR and wrong with SSD."""
    comparison = Comparison()
    comparison.add("ar, batch 1", a_run(), [[1]])
    comparison.add("ar, batch 4", a_run(), [[1], [2]])
    comparison.add("ssd, batch 4", a_run("ssd"), [[1], [3]])
    assert [entry["requests"] for entry in comparison.entries] == [1, 2]
    wrong = comparison.entries[-1]
    assert (wrong["with"], wrong["first_difference"]) == ("ar, batch 4", {"prompt": 1, "position": 0})
    assert not is_equal(comparison)


@pytest.mark.parametrize(
    "odd", [a_run("sd", 1.0, "rejection"), a_run("sd", 0.0, equal_hardware=True)], ids=["rejection", "other devices"]
)
def test_what_may_differ_is_neither_an_error_nor_a_reference(odd):
    temperature = odd["temperature"]
    comparison = Comparison()
    comparison.add("odd", odd, [[9]])
    comparison.add("sd", a_run("sd", temperature), [[1]])
    assert is_equal(comparison)
    comparison.add("ssd", a_run("ssd", temperature), [[1]])
    assert comparison.entries[-1]["expected"]
    assert comparison.entries[-1]["equal"]
    comparison.add("ssd again", a_run("ssd", temperature), [[2]])
    assert not is_equal(comparison)


def test_autoregressive_decoding_verifies_nothing():
    comparison = Comparison()
    comparison.add("ar", a_run("ar", 1.0, "rejection"), [[1]])
    comparison.add("ar again", a_run("ar", 1.0, "rejection"), [[2]])
    assert not is_equal(comparison)


def test_token_hash_is_of_compact_json():
    assert token_ids_sha256([[1, 2], [3]]) == hashlib.sha256(b"[[1,2],[3]]").hexdigest()


def test_first_difference():
    assert first_difference([[1, 2], [3]], [[1, 2], [3]]) is None
    assert first_difference([[1, 2], [3]], [[1, 2], [4]]) == {"prompt": 1, "position": 0}
    assert first_difference([[1, 2]], [[1, 2, 3]]) == {"prompt": 0, "position": 2}
