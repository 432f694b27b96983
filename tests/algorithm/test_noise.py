import itertools
import json
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.noise import (
    PURPOSES,
    draw_bits,
    gumbel,
    gumbel_at,
    gumbel_rows,
    hash_tokens,
    mix64,
    row_key,
)

GOLDEN = json.loads((Path(__file__).parent / "noise_golden.json").read_text("utf-8"))
QWEN = 151_936
KEYS = [row_key(seed, choice, position) for seed in (0, 7) for choice in (0, 1) for position in range(20)]


def words(key, vocab=QWEN):
    return hash_tokens(key, torch.arange(vocab))


def p_value(statistic, freedom):
    """Upper tail of the chi-square law."""
    return float(torch.special.gammaincc(torch.tensor(freedom / 2).double(), torch.tensor(statistic / 2).double()))


def test_golden_values():
    for value, mixed in GOLDEN["mix64"]:
        assert mix64(int(value)) == int(mixed)
    for row in GOLDEN["rows"]:
        key = row_key(int(row["seed"]), row["choice"], row["position"])
        assert list(key) == row["key"]
        tokens = torch.tensor(GOLDEN["tokens"])
        assert hash_tokens(key, tokens).tolist() == row["hashes"]
        assert gumbel_at(key, tokens).tolist() == pytest.approx(row["gumbel"], abs=2e-6)


@given(st.integers(-(2**63), 2**64 - 1), st.integers(0, 100), st.integers(0, 2**31), st.lists(st.integers(0, 2**24)))
def test_hash_equals_the_plain_formula(seed, choice, position, tokens):
    def finish(x):
        x ^= x >> 16
        x = x * 0x7FEB352D % 2**32
        x ^= x >> 15
        x = x * 0x846CA68B % 2**32
        return x ^ x >> 16

    k0, k1 = row_key(seed, choice, position)
    plain = [finish((finish((t * 0x9E3779B9 + k0) % 2**32) + k1) % 2**32) for t in tokens]
    assert hash_tokens((k0, k1), torch.tensor(tokens, dtype=torch.int64)).tolist() == plain


@pytest.mark.parametrize("vocab", [1, 5, 16, 1000, 32_768, 32_769, QWEN])
def test_noise_does_not_depend_on_how_it_is_made(vocab):
    """Same bits alone, in rows, at single ids, and under a longer vocabulary."""
    keys = KEYS[:5]
    rows = gumbel_rows(keys, vocab)
    assert rows.dtype == torch.float32
    assert rows.shape == (5, vocab)
    for key, row in zip(keys, rows, strict=True):
        assert torch.equal(row, gumbel(key, vocab))
        assert torch.equal(row, gumbel(key, vocab + 777)[:vocab])
        ids = torch.randperm(vocab, generator=torch.Generator().manual_seed(1))[:300]
        assert torch.equal(row[ids], gumbel_at(key, ids))


def test_many_short_rows_equal_single_ones():
    keys = [row_key(3, 0, position) for position in range(5000)]
    rows = gumbel_rows(keys, 16)
    for i in (0, 1, 2047, 2048, 2049, 4999):
        assert torch.equal(rows[i], gumbel(keys[i], 16))
    assert gumbel_rows([], 16).shape == (0, 16)


def test_noise_is_minus_log_of_an_exponential_of_the_hash():
    key = row_key(11, 2, 345)
    u = (words(key).double() + 0.5) * 2.0**-32
    exact = -torch.log(-torch.log1p(-u))
    fine = u < 0.99  # nearer to 1, where a token can only lose, float32 rounds u itself
    assert torch.allclose(gumbel(key, QWEN)[fine].double(), exact[fine], atol=3e-6, rtol=1e-6)


def token_with_hash(key, word):
    """The hash run backwards: every step of it is a bijection of 32-bit numbers."""

    def undo(x):
        x ^= x >> 16
        x = x * pow(0x846CA68B, -1, 2**32) % 2**32
        x ^= x >> 15 ^ x >> 30
        x = x * pow(0x7FEB352D, -1, 2**32) % 2**32
        return x ^ x >> 16

    return (undo((undo(word) - key[1]) % 2**32) - key[0]) * pow(0x9E3779B9, -1, 2**32) % 2**32


def test_largest_and_smallest_noise():
    """A small u gives the large score with full precision, u = (h + 1/2) / 2^32; u = 1 can only lose."""
    key = row_key(3, 0, 14)
    chosen = [0, 1, 2, 2**31, 2**32 - 1]
    tokens = torch.tensor([token_with_hash(key, word) for word in chosen])
    assert hash_tokens(key, tokens).tolist() == chosen
    exact = [-math.log(-math.log1p(-(word + 0.5) * 2.0**-32)) for word in chosen[:-1]]
    noise = gumbel_at(key, tokens).tolist()
    assert noise[:-1] == pytest.approx(exact, abs=3e-6)
    assert noise[0] == pytest.approx(33 * math.log(2), abs=1e-5)
    assert noise[-1] == -math.inf
    assert not torch.isnan(gumbel_rows(KEYS, QWEN // 8)).any()


@pytest.mark.parametrize("shift", [24, 12, 0])
def test_words_are_uniform(shift):
    """256 cells of the high, middle and low bits over 40 rows of a full vocabulary."""
    cells = torch.zeros(256, dtype=torch.int64)
    for key in KEYS[:40]:
        cells += torch.bincount((words(key) >> shift) & 255, minlength=256)
    expected = float(cells.sum()) / 256
    assert p_value(float(((cells - expected) ** 2 / expected).sum()), 255) > 1e-3


def test_words_of_one_row_never_repeat():
    """Under one key the hash is a bijection of 32-bit numbers: no two tokens tie in their words."""
    for key in KEYS[:5]:
        assert words(key).unique().numel() == QWEN


def test_words_of_two_rows_meet_no_more_often_than_chance():
    """Same token, same word in two rows: 780 pairs of rows and the leading 16 bits, so about 1,808 expected."""
    rows = [words(key) >> 16 for key in KEYS[:40]]
    meetings = sum(int((a == b).sum()) for a, b in itertools.combinations(rows, 2))
    expected = 780 * QWEN / 2**16
    assert abs(meetings - expected) < 4.5 * math.sqrt(expected)


def test_tail_at_a_full_vocabulary():
    """The least E of a row times V follows Exp(1): seven cells of equal probability, 400 rows."""
    keys = [row_key(1234, 0, position) for position in range(400)]
    least = torch.stack([(-noise.max().double()).exp() for noise in (gumbel(key, QWEN) for key in keys)])
    cells = ((1 - torch.exp(-least * QWEN)) * 7).long().clamp(max=6).bincount(minlength=7)
    assert p_value(float(((cells - 400 / 7) ** 2 / (400 / 7)).sum()), 6) > 1e-3


def test_far_tail_counts():
    """How many of 40 rows' tokens exceed each level: E < x has probability 1 - exp(-x)."""
    noise = gumbel_rows(KEYS[:40], QWEN)
    total = noise.numel()
    for level in (3, 6, 9, 12):
        expected = total * -math.expm1(-math.exp(-level))
        assert abs(int((noise > level).sum()) - expected) < 4.5 * math.sqrt(expected)


def correlation(a, b):
    a, b = a.double() - a.double().mean(), b.double() - b.double().mean()
    return float((a @ b) / (a.norm() * b.norm()))


def test_no_correlation_between_neighbours():
    """Tokens, positions, choices and seeds one apart (and two, and 2^16): within 4.5 standard errors of 0."""
    row = words(row_key(5, 0, 100))
    others = [
        words(row_key(seed, choice, position))
        for seed, choice, position in [
            (5, 0, 101),
            (5, 0, 102),
            (5, 1, 100),
            (6, 0, 100),
            (4, 0, 100),
            (5, 0, 100 + 2**16),
        ]
    ]
    pairs = [(row, other) for other in others] + [(row[:-gap], row[gap:]) for gap in (1, 2, 3, 64, 2**16)]
    # A token's word at one position against its neighbour's at the next, as a lattice would show.
    pairs += [(row[:-1], others[0][1:]), (row[1:], others[0][:-1])]
    for a, b in pairs:
        assert abs(correlation(a, b)) < 4.5 / math.sqrt(len(a))
        bits_a, bits_b = a & 1, b & 1
        assert abs(correlation(bits_a, bits_b)) < 4.5 / math.sqrt(len(a))


def test_no_correlation_along_positions():
    """One token over 30,000 positions, against the next position and the next token."""
    keys = [row_key(9, 0, position) for position in range(30_000)]
    noise = torch.exp(-gumbel_rows(keys, 3))
    for a, b in [(noise[:-1, 0], noise[1:, 0]), (noise[:, 0], noise[:, 1]), (noise[:-1, 0], noise[1:, 1])]:
        assert abs(correlation(a, b)) < 4.5 / math.sqrt(len(a))


def test_keys_differ():
    keys = {row_key(*parts) for parts in itertools.product(range(12), range(12), range(60))}
    assert len(keys) == 12 * 12 * 60
    assert row_key(-1, 0, 5) == row_key(2**64 - 1, 0, 5)


def test_draws_of_different_keys_differ():
    branches = [None, *itertools.product(range(3), range(4))]
    seen = {
        draw_bits(seed, choice, position=position, round_number=number, branch=branch, purpose=purpose)
        for seed, choice, position, number, branch, purpose in itertools.product(
            range(3), range(2), range(6), range(4), branches, PURPOSES
        )
    }
    assert len(seen) == 3 * 2 * 6 * 4 * len(branches) * len(PURPOSES)


def test_draws_are_uniform_and_apart_from_the_noise():
    bits = [
        draw_bits(0, 0, position=position, round_number=1, branch=branch, purpose=purpose)
        for position in range(1500)
        for branch in (None, (0, 1), (1, 0))
        for purpose in PURPOSES
    ]
    for shift in (56, 0):
        cells = torch.tensor([(b >> shift) & 255 for b in bits]).bincount(minlength=256)
        expected = len(bits) / 256
        assert p_value(float(((cells - expected) ** 2 / expected).sum()), 255) > 1e-3
    keys = {k0 | k1 << 32 for k0, k1 in (row_key(0, 0, position) for position in range(1500))}
    assert not keys & set(bits)
