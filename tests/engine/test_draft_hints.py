"""Hints of the row's own text: the same tokens in fewer passes, and nothing of a wrong one stays."""

import pytest
from tests.engine.test_draft import VOCAB, Written

from saguaro.algorithm.options import Sampling
from saguaro.engine.draft import DraftWorker
from saguaro.models.byte_tokenizer import ByteTokenizer
from saguaro.models.grammar import Grammars
from saguaro.protocol.messages import Admit, Configure, Decided, Taken
from saguaro.transport.base import Key
from saguaro.transport.loopback import Loopback

RIGHT = (1, 2, 3, 4, 5, 6, 7, 8, 9, 1)
"""The drafter of these tests counts, and so does this text."""
WRONG = (1, 2, 4, 8, 2, 5, 8, 3, 9, 1)
STRANGE = (14, 12, 10, 8, 6, 13, 11, 9, 15, 1)
"""A text in which neither 1 nor 2 has occurred before."""


def waiting(text: tuple[int, ...], *, branches: bool = False, **more: object) -> tuple[DraftWorker, Written]:
    """A draft that is asked for a proposal of four tokens after `text` and 2."""
    port, drafter = Loopback(), Written(lambda token: 3.0)
    worker = DraftWorker(
        drafter, port, page_size=16, prefill_chunk=16, grammars=Grammars(lambda: ByteTokenizer(VOCAB), VOCAB, {0})
    )
    port.send(Configure(4, False, branches, 1.0, 2 if branches else 0, False, fan_out="ranked"))
    port.send(Admit(1, 0, 0, len(text), Sampling(temperature=0.0, **more), text))
    worker.step()
    drafter.passes.clear()
    port.send(Decided(1, 0, len(text), 0, 2, "none", True, 4, ()))
    return worker, drafter


def proposal(worker: DraftWorker, text: tuple[int, ...]) -> tuple[int, ...]:
    """What the channel has for the target."""
    entry = worker.port.find(0, Key(1, 0, len(text), 0, 2))  # type: ignore[attr-defined]
    return entry.tokens if entry else ()


def run(worker: DraftWorker) -> None:
    for _ in range(20):
        if not worker.step():
            return


@pytest.mark.parametrize(("text", "passes"), [(RIGHT, 1), (STRANGE, 4), (WRONG, 4)])
def test_the_same_proposal_in_as_few_passes_as_the_text_allows(text: tuple[int, ...], passes: int) -> None:
    worker, drafter = waiting(text)
    run(worker)
    assert proposal(worker, text) == (3, 4, 5, 6)
    assert len(drafter.passes) == passes
    assert (worker.hints.run > 0) == (text != STRANGE)
    assert worker.hints.right == (3 if text == RIGHT else 0)


def test_what_ran_on_a_wrong_hint_does_not_count_as_run() -> None:
    worker, drafter = waiting(WRONG)
    worker.step()
    row = worker.rows[1]
    assert drafter.passes == [[2, 4, 8, 2]]
    assert row.proposal == [3]
    assert row.kv == row.length
    assert row.missing() == [3]
    assert len(row.ranked) == 1


def test_what_ran_on_a_right_hint_does() -> None:
    worker, drafter = waiting(RIGHT)
    worker.step()
    row = worker.rows[1]
    assert drafter.passes == [[2, 3, 4, 5]]
    assert row.proposal == [3, 4, 5, 6]
    assert row.missing() == [6]
    assert len(row.ranked) == 4


@pytest.mark.parametrize("text", [RIGHT, WRONG, STRANGE])
def test_branches_are_the_same_with_hints_and_their_slots_come_back(text: tuple[int, ...]) -> None:
    worker, drafter = waiting(text, branches=True)
    run(worker)
    drafter.passes.clear()
    worker.port.send(Taken(1, 0, "neural", (3, 4, 5, 6)))  # type: ignore[attr-defined]
    run(worker)
    row = worker.rows[1]
    assert {key: branch.tokens for key, branch in row.branches.items()} == {
        (accepted, bonus): [(bonus + i) % VOCAB for i in range(1, 5)] for accepted, bonus in row.branches
    }
    assert len(row.branches) == 2
    taken = [slot for branch in row.branches.values() for slot in branch.slots]
    assert [len(branch.slots) for branch in row.branches.values()] == [4, 4]
    assert len(set(taken)) == 8
    row.drop_branches()
    free = [row.reserve.take() for _ in range(8)]
    assert set(free) >= set(taken) or None not in free
    if text == RIGHT:
        assert len(drafter.passes) < 6


def test_rows_whose_tokens_depend_on_more_than_what_is_before_get_none() -> None:
    worker, _ = waiting(RIGHT, repetition_penalty=1.2)
    run(worker)
    assert worker.hints.run == 0
