"""The books of a draft that reads the target's hidden states: what may run, what runs again, what is filed."""

from __future__ import annotations

import pytest
import torch

from saguaro.algorithm.options import Sampling
from saguaro.engine.branch import Branch
from saguaro.engine.draft_row import DraftRow
from saguaro.engine.draft_work import branch_work
from saguaro.engine.tap_store import TapStore
from saguaro.errors import ProtocolError
from saguaro.paging import PagePool, PrefixCache
from saguaro.protocol.messages import Admit, Decided, Taken, Taps, decode, encode

WIDTH = 4
PROMPT = (1, 2, 3, 4, 5, 6)


def taps(start: int, count: int, request: int = 1) -> Taps:
    """Position p has the numbers p, p, p, p."""
    rows = torch.arange(start, start + count).repeat_interleave(WIDTH).bfloat16()
    return Taps(request, start, count, WIDTH, rows.view(torch.int16).numpy().tobytes())


def row(cache: PrefixCache | None = None, prompt: tuple[int, ...] = PROMPT) -> DraftRow:
    cache = cache or PrefixCache(PagePool(16, 4))
    return DraftRow(Admit(1, 0, 0, len(prompt), Sampling(temperature=0.0), prompt), cache, 64, tap_width=WIDTH)


def run(r: DraftRow) -> tuple[list[int], list[float]]:
    """Run what is due; the tokens, and the first number of each of their taps."""
    tokens, found = r.due(), r.tapped(len(r.due()))
    assert found is not None
    if tokens:
        slots = r.prepare_tail(len(tokens))
        assert slots is not None
        assert slots == r.table.slots(r.kv - 1, r.kv - 1 + len(tokens))
        r.ran(len(tokens))
    return tokens, found[:, 0].tolist()


def ready(cache: PrefixCache | None = None) -> DraftRow:
    """A row with its prompt in."""
    r = row(cache)
    r.hear(taps(0, 6), soon=0)
    assert run(r) == ([2, 3, 4, 5, 6], [0, 1, 2, 3, 4])
    r.reserve.grow(8)
    return r


def decided(r: DraftRow, accepted: int, bonus: int, tokens: tuple[int, ...] = (), *, pending: bool = False) -> Decided:
    return Decided(1, r.round, r.length, accepted, bonus, "hit", pending, 4, tokens)


def test_a_prompt_runs_as_far_as_its_taps_have_come() -> None:
    r = row()
    assert r.due() == []
    r.hear(taps(0, 3), soon=4)
    assert not r.caught_up
    r.begin()
    assert run(r) == ([2, 3, 4], [0, 1, 2])
    assert r.due() == []
    r.hear(taps(3, 3), soon=4)
    assert r.caught_up, "the target may ask: the rest is one pass"
    assert run(r) == ([5, 6], [3, 4])


def test_what_has_no_taps_runs_with_zeros_and_is_counted() -> None:
    r = row()
    r.begin()
    r.hear(taps(3, 3), soon=8)  # the target knew the first three positions from an earlier prompt
    assert run(r) == ([2, 3, 4, 5, 6], [0, 0, 0, 3, 4])
    assert r.taps is not None
    assert r.taps.missing == 3


def test_guessed_pairs_run_again_with_the_targets_states() -> None:
    r = ready()
    r.decide(decided(r, 0, 7, (8, 9)))  # a proposal that the draft has not run
    assert r.due() == [7], "8 goes on from the state of 7, which is not there yet"
    assert run(r) == ([7], [5])
    assert run(r) == ([8], [])
    assert run(r) == ([9], [])
    r.hear(taps(6, 2), soon=0)
    r.decide(decided(r, 1, 5))  # 8 was right: 7 and 8 have taps now
    assert r.tokens == [*PROMPT, 7, 8, 5]
    assert (r.kv, r.held) == (7, 8)
    assert run(r) == ([8, 5], [6, 7])


def test_a_hit_keeps_the_states_of_its_branch_until_better_ones_come() -> None:
    r = ready()
    b = Branch(0, 7, 1, [8, 9, 4])
    b.slots = [r.reserve.take() or 0 for _ in b.tokens]
    r.branches[0, 7] = b
    slots = list(b.slots)
    sources, targets = r.decide(decided(r, 0, 7, (8, 9)))
    assert (sources, targets) == (slots, r.table.slots(5, 8))
    assert (r.kv, r.held, r.ranked) == (6, 9, [])
    assert run(r) == ([7, 8, 9], [5])  # one pass: 8 and 9 from the branch's states
    r.hear(taps(6, 3), soon=0)
    r.decide(decided(r, 2, 1))
    assert run(r) == ([8, 9, 1], [6, 7, 8])


def test_taps_that_never_came_are_not_waited_for() -> None:
    r = ready()
    r.decide(decided(r, 0, 7, (8,)))
    run(r)
    r.decide(decided(r, 1, 5))
    assert run(r) == ([8, 5], [0, 0])


def test_an_answer_taken_in_part() -> None:
    r = ready()
    r.decide(decided(r, 0, 7, pending=True))
    assert run(r) == ([7], [5])
    r.proposal = [8, 9]
    assert run(r) == ([8], [])
    r.take(Taken(1, 0, "neural", (8, 3)))
    assert (r.kv, r.held) == (8, 8)
    assert r.due() == [3]


def test_a_branch_runs_one_token_at_a_time() -> None:
    r = ready()
    b = Branch(0, 7, 1, [8])  # 8 was certain, so that neither has run
    [first] = branch_work(r, b, r.cache.pool, spare=0)
    assert (first.span.tokens, first.span.wanted, first.span.shared) == ([7], 0, 6)
    b.slots.append(first.span.slots[0])
    [second] = branch_work(r, b, r.cache.pool, spare=0)
    assert (second.span.tokens, second.span.wanted, second.span.own) == ([8], 1, tuple(b.slots))


def test_a_slot_is_shared_when_both_of_its_tokens_are() -> None:
    cache = PrefixCache(PagePool(16, 4))
    ready(cache).release()
    for prompt, length in (((1, 2, 3, 4, 5, 9), 5), ((1, 2, 3, 9, 5, 6), 3), ((9, 2, 3, 4), 1), ((1,), 1)):
        r = row(cache, prompt)
        sources, targets = r.begin()
        assert r.kv == r.held == length
        assert len(sources) == len(targets) == (length - 1) % 4
        r.release()
    assert row(cache, (1,)).mute


def test_taps_travel_and_bad_ones_are_refused() -> None:
    message = taps(5, 3)
    assert decode(encode(message)) == message
    odd = Taps(1, 0, 1, 1, b"ab")
    assert decode(encode(odd)) == odd
    with pytest.raises(ProtocolError, match="taps"):
        decode(encode(Taps(1, 0, 2, WIDTH, message.values)))
    with pytest.raises(ProtocolError, match="takes 8"):
        TapStore(8).add(message)
    plain = DraftRow(Admit(1, 0, 0, 1, Sampling(), (1,)), PrefixCache(PagePool(4, 4)), 64)
    with pytest.raises(ProtocolError, match="reads none"):
        plain.hear(message, soon=0)
