"""Numbers made from keys: a counter-based hash, the Gumbel noise of shared-noise sampling, and keyed random bits.

DESIGN D1. The noise of a token depends on (seed, choice, absolute position in prompt + output, token id) and on
nothing else, so target and draft, any batching and any branch see the same numbers. A native copy of the hash must
give the values of tests/algorithm/noise_golden.json. Arithmetic is modulo 2^64 (keys) and 2^32 (tokens).
Must not know: logits, models, generators. Tests: tests/algorithm/test_noise.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import torch

Key = tuple[int, int]
Purpose = Literal["draft", "accept", "residual"]
PURPOSES: tuple[Purpose, ...] = ("draft", "accept", "residual")

_MASK64 = (1 << 64) - 1
_MASK32 = (1 << 32) - 1
_SEED, _CHOICE, _POSITION = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_DRAW, _FIELD = 0xD1B54A32D192ED03, 0xAEF17502108EF2D9
_TOKEN, _MIX_1, _MIX_2 = 0x9E3779B9, 0x7FEB352D, 0x846CA68B
_BLOCK = 1 << 15  # tokens hashed at a time, so that the scratch stays in the second-level cache


def mix64(value: int) -> int:
    """The finaliser of splitmix64, a bijection of 64-bit integers."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK64
    return value ^ (value >> 31)


def row_key(seed: int, choice: int, position: int) -> Key:
    """The two 32-bit words that key the noise of one position of one choice.

    Args:
        seed: any 64-bit number; negative values are taken modulo 2^64.
        choice: index of the choice among the n of a request.
        position: absolute position, in prompt + output, of the token that is drawn.
    """
    state = mix64((seed & _MASK64) ^ _SEED)
    state = mix64(state ^ ((choice * _CHOICE) & _MASK64))
    state = mix64(state ^ ((position * _POSITION) & _MASK64))
    return state & _MASK32, state >> 32


def draw_bits(
    seed: int, choice: int, *, position: int, round_number: int, branch: tuple[int, int] | None, purpose: Purpose
) -> int:
    """64 random bits for one draw of `rejection`; every draw of a request has a key of its own.

    Args:
        seed: any 64-bit number.
        choice: index of the choice among the n of a request.
        position: absolute position of the token that is drawn, or whose acceptance is decided.
        round_number: r, the number of the verification that the draw belongs to; prefill is round 0.
        branch: the outcome (k, t*) that the proposal was prepared for, or None for a fallback.
        purpose: drawing the proposal, accepting it, or drawing the bonus token.
    """
    accepted, bonus = (0, 0) if branch is None else (branch[0] + 1, branch[1])
    state = mix64((seed & _MASK64) ^ _DRAW)
    for value in (choice, position, round_number, accepted, bonus, PURPOSES.index(purpose)):
        state = mix64(state ^ (((value + 1) * _FIELD) & _MASK64))
    return state


def hash_tokens(key: Key, token_ids: torch.Tensor) -> torch.Tensor:
    """The 32-bit hash of each token id under a key.

    Args:
        key: two 32-bit words from `row_key`.
        token_ids: int64, any shape, values from 0.

    Returns:
        int64 tensor of the same shape holding values in 0 ... 2^32 - 1.
    """
    low = (token_ids * _TOKEN + key[0]) & _MASK32
    words = _finish_(_finish_(_signed_words(low)).add_(_signed(key[1])))
    return words.to(torch.int64).bitwise_and_(_MASK32)


def gumbel_at(key: Key, token_ids: torch.Tensor) -> torch.Tensor:
    """The noise -log E of the given token ids: float32, same shape. The same numbers as `gumbel` has at these ids."""
    low = (token_ids * _TOKEN + key[0]) & _MASK32
    words = _finish_(_finish_(_signed_words(low)).add_(_signed(key[1])))
    return _to_gumbel(words)


def gumbel(key: Key, vocab: int) -> torch.Tensor:
    """The noise -log E of every token id below `vocab`, float32 of shape (V).

    u = (h + 1/2) * 2^-32 and E = -log1p(-u): a small u gives the large score, so precision is kept where it matters.
    """
    return gumbel_rows([key], vocab)[0]


def gumbel_rows(keys: Sequence[Key], vocab: int) -> torch.Tensor:
    """The noise of several rows, float32 of shape (R, V). Row i equals `gumbel(keys[i], vocab)` bit for bit."""
    rows = len(keys)
    noise_RV = torch.empty((rows, vocab), dtype=torch.float32)
    if not rows or not vocab:
        return noise_RV
    width = min(vocab, _BLOCK)
    together = max(1, _BLOCK // width)
    for first in range(0, rows, together):
        some = keys[first : first + together]
        second_R1 = torch.tensor([_signed(k1) for _, k1 in some], dtype=torch.int32)[:, None]
        for start in range(0, vocab, width):
            count = min(width, vocab - start)
            offsets = [_signed((start * _TOKEN + k0) & _MASK32) for k0, _ in some]
            first_R1 = torch.tensor(offsets, dtype=torch.int32)[:, None]
            words = _finish_(_products(width)[:count] + first_R1)
            noise_RV[first : first + len(some), start : start + count] = _to_gumbel(_finish_(words.add_(second_R1)))
    return noise_RV


@lru_cache(maxsize=8)
def _products(count: int) -> torch.Tensor:
    """Words t * 0x9E3779B9 modulo 2^32 for t = 0 ... count - 1, as signed words. Never written to."""
    return torch.arange(count, dtype=torch.int32).mul_(_signed(_TOKEN))


def _finish_(words: torch.Tensor) -> torch.Tensor:
    """f(x) in place: x ^= x >> 16; x *= 0x7FEB352D; x ^= x >> 15; x *= 0x846CA68B; x ^= x >> 16, unsigned shifts.

    int32 products wrap modulo 2^32; the masks undo the sign that an arithmetic shift drags in.
    """
    shifted = torch.bitwise_right_shift(words, 16).bitwise_and_(0xFFFF)
    words.bitwise_xor_(shifted).mul_(_signed(_MIX_1))
    torch.bitwise_right_shift(words, 15, out=shifted).bitwise_and_(0x1FFFF)
    words.bitwise_xor_(shifted).mul_(_signed(_MIX_2))
    torch.bitwise_right_shift(words, 16, out=shifted).bitwise_and_(0xFFFF)
    return words.bitwise_xor_(shifted)


def _to_gumbel(words: torch.Tensor) -> torch.Tensor:
    """-log(-log1p(-u)) of hashed words. u = 1 (the largest words round to it) gives -inf, which can only lose."""
    u = words.view(torch.uint32).to(torch.float32)
    return u.add_(0.5).mul_(-(2.0**-32)).log1p_().neg_().log_().neg_()


def _signed(word: int) -> int:
    """An unsigned 32-bit word as the int32 with the same bits."""
    return word - (1 << 32) if word >= 1 << 31 else word


def _signed_words(words: torch.Tensor) -> torch.Tensor:
    """int64 values in 0 ... 2^32 - 1 as int32 with the same bits (a fresh tensor)."""
    return torch.where(words >= 1 << 31, words - (1 << 32), words).to(torch.int32)
