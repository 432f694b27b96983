import pytest

from saguaro.errors import ConfigError
from saguaro.theory import accounting


def test_appendix_c_counts():
    """B K (K + 1) F draft tokens instead of B K; the pass that ranks outcomes comes on top."""
    batch, lookahead, fan_out = 4, 7, 3
    plain = accounting.sd(batch, lookahead, flops_per_token=2.0)
    ours = accounting.ssd(batch, lookahead, fan_out * (lookahead + 1), flops_per_token=2.0, vocab=100)
    assert plain.draft_tokens == batch * lookahead
    assert ours.draft_tokens - batch == plain.draft_tokens * accounting.flops_ratio(lookahead, fan_out)
    assert ours.draft_flops == 2.0 * ours.draft_tokens


def test_hundreds_of_megabytes_with_laws():
    """Llama's vocabulary, K = 7, F = 3, batch 8: the paper says some hundred megabytes; ids alone are kilobytes."""
    numbers = {"flops_per_token": 1.0, "vocab": 128_256}
    with_laws = accounting.ssd(8, 7, 24, laws=True, **numbers)
    assert 100e6 < with_laws.cache_bytes < 1e9
    assert accounting.ssd(8, 7, 24, **numbers).cache_bytes < 30e3


def test_what_travels_by_hand():
    """Two rows of three branches, two tokens deep: each entry is 16 bytes and two ids, and outcomes come back."""
    pushed = accounting.ssd(2, 2, 3, flops_per_token=1.0, vocab=10)
    assert pushed.wire_bytes == 2 * 3 * (16 + 2 * 4) + 2 * 12
    asked = accounting.ssd(2, 2, 3, flops_per_token=1.0, vocab=10, laws=True)
    assert asked.wire_bytes == 2 * 2 * (4 + 10 * 2) + 2 * 12


def test_keys_and_values_of_branches():
    assert accounting.ssd(1, 5, 6, flops_per_token=1.0, vocab=10, kv_bytes_per_token=100.0).keys_bytes == 3000


def test_no_batch():
    with pytest.raises(ConfigError):
        accounting.sd(0, 3, flops_per_token=1.0)
