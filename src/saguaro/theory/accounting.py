"""What SSD spends: Appendix C's draft tokens, operations, cache and bytes on the wire, for its design and for ours.

Appendix C: with a batch of B rows, lookahead K and uniform fan-out F the draft decodes B K (K + 1) F tokens a round
instead of B K, keeps B K (K + 1) F tokens with V logits each, and sends B K V numbers. Under shared noise a cached
token is its id alone, and is pushed once. Here the branches are counted (any fan-out), and the pass that ranks
outcomes is counted too. Must not know: torch, engines. Tests: tests/theory/test_accounting.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from saguaro.errors import ConfigError

ID_BYTES = 4
ENTRY_BYTES = 16
"""Of an entry beside its tokens: key (k, t*), depth and tag."""


@dataclass(frozen=True)
class Spent:
    """What a round costs beside the target's work.

    Args:
        draft_tokens: tokens that the draft decodes.
        draft_flops: floating-point operations for that.
        cache_bytes: what the speculation cache holds.
        keys_bytes: keys and values of the branches in the draft's memory.
        wire_bytes: to the target and back.
    """

    draft_tokens: int
    draft_flops: float
    cache_bytes: float
    keys_bytes: float
    wire_bytes: float


def sd(batch: int, lookahead: int, *, flops_per_token: float) -> Spent:
    """Plain speculative decoding: B K draft tokens, nothing cached; target and draft share their device."""
    _check(batch, lookahead, 0)
    tokens = batch * lookahead
    return Spent(tokens, tokens * flops_per_token, 0.0, 0.0, 0.0)


def ssd(
    batch: int,
    lookahead: int,
    branches: int,
    *,
    flops_per_token: float,
    vocab: int,
    kv_bytes_per_token: float = 0.0,
    laws: bool = False,
    value_bytes: int = 2,
) -> Spent:
    """SSD with `branches` branches a row: B K branches tokens, and B rows of the pass that ranks outcomes.

    Args:
        batch: B rows.
        lookahead: K.
        branches: of one row; (K + 1) F for a uniform fan-out.
        flops_per_token: of the draft.
        vocab: V.
        kv_bytes_per_token: keys and values that a token of the draft keeps.
        laws: proposals carry their law (`rejection`, and the paper's design): V numbers a cached token, of which those
            of one proposal travel. Without, a token is its id and every entry is pushed.
        value_bytes: of one of those numbers.
    """
    _check(batch, lookahead, branches)
    cached = batch * lookahead * branches
    tokens = cached + batch
    outcome = batch * (3 * ID_BYTES)
    if laws:
        cache = cached * (ID_BYTES + vocab * value_bytes)
        wire = outcome + batch * lookahead * (ID_BYTES + vocab * value_bytes)
    else:
        cache = batch * branches * ENTRY_BYTES + cached * ID_BYTES
        wire = outcome + cache
    return Spent(tokens, tokens * flops_per_token, cache, cached * kv_bytes_per_token, wire)


def flops_ratio(lookahead: int, fan_out: int) -> int:
    """Appendix C: SSD's draft decodes (K + 1) F times the tokens of SD's."""
    return (lookahead + 1) * fan_out


def _check(batch: int, lookahead: int, branches: int) -> None:
    if batch < 1 or lookahead < 0 or branches < 0:
        raise ConfigError("accounting needs a batch of 1 or more, and lookahead and branches of 0 or more.")
