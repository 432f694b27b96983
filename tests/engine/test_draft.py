"""The draft's choice of branches and rows, with a drafter whose scores are written down."""

from collections.abc import Callable, Sequence

import pytest
import torch

from saguaro.algorithm.options import Sampling
from saguaro.drafting.drafters.base import Drafter
from saguaro.engine.draft import DraftWorker
from saguaro.execution.batch import Span
from saguaro.models.byte_tokenizer import ByteTokenizer
from saguaro.models.grammar import Grammars, grammar_text
from saguaro.protocol.messages import FIRST_ENTRY, LAST, Admit, Configure, Decided, Taken
from saguaro.request import SamplingParams
from saguaro.transport.base import Entry, Key
from saguaro.transport.loopback import Loopback

VOCAB, PAGE = 16, 4


class Written(Drafter):
    """After token t comes t + 1 with a lead of `lead(t)` over t + 2, and that over t + 3."""

    vocab, num_slots, max_positions = VOCAB, 256, 64

    def __init__(self, lead: Callable[[int], float]) -> None:
        self.lead = lead
        self.passes: list[list[int]] = []

    def run(self, spans: Sequence[Span], *, interrupt: Callable[[], bool] | None = None) -> torch.Tensor | None:
        self.passes.append([token for span in spans for token in span.tokens])
        rows = [self._row(token) for span in spans for token in list(span.tokens)[len(span.tokens) - span.wanted :]]
        return torch.stack(rows) if rows else torch.empty(0, 0)

    def _row(self, token: int) -> torch.Tensor:
        row = torch.full((VOCAB,), -30.0)
        for rank in (1, 2, 3):
            row[(token + rank) % VOCAB] = -self.lead(token) * rank
        return row

    def move(self, sources: list[int], targets: list[int]) -> None:
        """No keys here."""


class Apart(Loopback):
    """A loopback whose draft believes that it runs beside the target."""

    local = False


def started(
    lead: Callable[[int], float], times: dict[int, float], *, budget: int = 4, everything: bool = False
) -> tuple[DraftWorker, Written]:
    """A draft that knows the prompt [0] and verifies the proposal [2, 3] after the outcome (0, 1)."""
    port = Apart()
    drafter = Written(lead)
    worker = DraftWorker(
        drafter, port, page_size=PAGE, prefill_chunk=16, grammars=Grammars(lambda: ByteTokenizer(VOCAB), VOCAB, {0})
    )
    worker.times.measured(times)
    port.send(Configure(2, False, True, 1.0, budget, everything, fan_out="ranked"))
    port.send(Admit(1, 0, 0, 1, Sampling(temperature=0.0), (0,)))
    worker.step()
    port.send(Decided(1, 0, 1, 0, 1, "random", False, 2, (2, 3)))
    worker.step()
    drafter.passes.clear()
    return worker, drafter


def run(worker: DraftWorker) -> None:
    for _ in range(20):
        if not worker.step():
            return


FREE, DEAR = {1: 1.0, 12: 1.0}, {1: 1.0, 2: 2.5, 12: 27.5}


def test_free_rows_all_run() -> None:
    worker, drafter = started(lambda token: 1.0, FREE)
    run(worker)
    assert max(len(tokens) for tokens in drafter.passes) == 4
    branches = worker.rows[1].branches.values()
    assert len(branches) == 4
    assert all(len(branch.tokens) == 2 for branch in branches)
    assert worker.port.full(0, worker.rows[1].key(0, 0))  # type: ignore[attr-defined]


def test_dear_rows_run_one_by_one_likeliest_first() -> None:
    worker, drafter = started(lambda token: 3.0, DEAR)
    run(worker)
    assert {len(tokens) for tokens in drafter.passes} == {1}
    assert drafter.passes[:2] == [[4], [5]]  # the branch (2, 4) to its full depth, before any other


def test_a_wavering_position_gets_the_branches() -> None:
    """The draft is sure after token 2 and not after token 1, so the other guesses there are prepared."""
    worker, _ = started(lambda token: 0.1 if token == 1 else 9.0, FREE, budget=3)
    run(worker)
    assert set(worker.rows[1].branches) == {(0, 3), (0, 4), (2, 4)}


def test_a_likelier_outcome_takes_the_place_of_the_least_likely() -> None:
    row = started(lambda token: 1.0, FREE, budget=2)[0].rows[1]
    row.drop_branches()
    row.open_branch((0, 3), 0.2, 2)
    row.open_branch((1, 4), 0.1, 2)
    row.open_branch((2, 4), 0.5, 2)
    assert set(row.branches) == {(0, 3), (2, 4)}
    assert sorted(branch.index for branch in row.branches.values()) == [1, 2]
    row.open_branch((1, 5), 0.1, 2)
    assert set(row.branches) == {(0, 3), (2, 4)}


@pytest.mark.parametrize(
    ("together", "everything", "idle"), [(1.0, False, False), (3.0, False, True), (3.0, True, False)]
)
def test_a_pass_that_slows_the_target_more_than_it_saves_is_not_run(
    together: float, everything: bool, idle: bool
) -> None:
    worker, drafter = started(lambda token: 0.5, FREE, everything=everything)
    worker.times_alone.measured({1: 1.0, 12: 1.0})
    worker.times.measured({1: together, 12: together})
    run(worker)
    assert (not drafter.passes) == idle


def test_news_of_the_hit_keeps_the_branch() -> None:
    worker, _ = started(lambda token: 3.0, FREE)
    run(worker)
    worker.port.send(Decided(1, 1, 2, 2, 4, "hit", False, 2, (5, 6)))  # type: ignore[attr-defined]
    worker.step()
    row = worker.rows[1]
    assert row.tokens == [0, 1, 2, 3, 4]
    assert row.proposal == [5, 6]
    assert row.kv >= 6  # the bonus token and x_1 had run in the branch


LETTERS = 27
"""The target's vocabulary: an end (0) and the letters; the draft's head knows the first 15 of them."""


def constrained(regex: str) -> DraftWorker:
    """A draft that knows the prompt [1] of a request whose output follows `regex`."""
    port = Apart()
    grammars = Grammars(lambda: ByteTokenizer(LETTERS), LETTERS, {0})
    worker = DraftWorker(Written(lambda token: 1.0), port, page_size=PAGE, prefill_chunk=16, grammars=grammars)
    worker.times.measured(FREE)
    sampling = Sampling(temperature=0.0, grammar=grammar_text(SamplingParams(regex=regex)), stop_ids=(0,))
    port.send(Configure(4, False, True, 1.0, 4, True, fan_out="ranked"))
    port.send(Admit(1, 0, 0, 1, sampling, (1,)))
    return worker


def letters(text: str) -> tuple[int, ...]:
    return tuple(ord(letter) - 96 for letter in text)


def test_what_the_head_does_not_know_is_drawn_where_it_is_certain() -> None:
    worker = constrained("a(b|c)xyz")
    run(worker)
    entry = worker.port.find(0, Key(1, 0, 1, 0, 1))  # type: ignore[attr-defined]
    assert entry == Entry(Key(1, 0, 1, 0, 1), letters("bxyz"))
    assert worker.port.full(0, Key(1, 0, 1, 0, 1))  # type: ignore[attr-defined]


def test_where_the_head_knows_nothing_that_may_come_the_target_is_told() -> None:
    worker = constrained("ab(x|y)")
    run(worker)
    [branch] = worker.rows[1].branches.values()
    assert (tuple(branch.tokens), branch.ended) == (letters("b"), True)
    worker.port.send(Decided(1, 0, 1, 0, 1, "pending", True, 4, ()))  # type: ignore[attr-defined]
    run(worker)
    entry = worker.port.find(0, Key(1, 0, 1, 0, 1))  # type: ignore[attr-defined]
    assert entry == Entry(Key(1, 0, 1, 0, 1), letters("b"), FIRST_ENTRY | LAST)


@pytest.mark.parametrize("rejection", [False, True])
def test_the_key_of_a_branch_is_there_before_its_tokens(rejection: bool) -> None:
    port = Apart()
    grammars = Grammars(lambda: ByteTokenizer(VOCAB), VOCAB, {0})
    worker = DraftWorker(Written(lambda token: 1.0), port, page_size=PAGE, prefill_chunk=16, grammars=grammars)
    worker.times.measured(FREE)
    port.send(Configure(2, rejection, True, 1.0, 3, True, listed=3, fan_out="listed", tokens=(1, 0, 2)))
    port.send(Admit(1, 0, 0, 1, Sampling(temperature=0.0), (0,)))
    worker.step()
    port.send(Decided(1, 0, 1, 0, 1, "random", False, 2, (2, 3)))
    worker.step()  # the tail: it gives the candidates of all positions, and the branches
    row = worker.rows[1]
    assert set(row.branches) == {(0, 3), (2, 4), (2, 5)}
    for outcome, seen in (((0, 3), (True, True)), ((0, 9), (True, False)), ((1, 3), (False, False))):
        assert port.chosen(0, row.key(*outcome), found=False) == (3, 3, *seen)
    assert port.entries(0, 1, 1) == []
    worker.step()
    assert [len(entry.tokens) for entry in port.entries(0, 1, 1)] == ([] if rejection else [1, 1, 1])
    assert (worker.statistics()["steps"], worker.statistics()["rows_run"]) == (3, 1 + 3 + 3)


def test_a_branch_that_gives_way_leaves_the_tokens_that_the_target_may_take() -> None:
    row = started(lambda token: 1.0, FREE, budget=2)[0].rows[1]
    row.drop_branches()
    for outcome, odds in (((0, 3), 0.2), ((1, 4), 0.1)):
        row.open_branch(outcome, odds, 2)
    row.branches[1, 4].tokens.append(5)
    new = row.open_branch((2, 4), 0.5, 2)
    assert new is not None
    assert new.index == 3
    last = row.open_branch((2, 5), 0.4, 2)  # the place of (0, 3), which has nothing
    assert last is not None
    assert last.index == 1


def test_a_row_is_full_when_everything_ran_before_its_answer_was_taken() -> None:
    """Without branches no pass follows `Taken`, and in lockstep the target waits to hear that the row is full."""
    worker, _ = started(lambda token: 1.0, FREE, everything=True)
    port = worker.port
    assert isinstance(port, Apart)
    port.send(Configure(2, False, True, 1.0, 0, True, fan_out="none"))
    port.send(Decided(1, 1, 2, 0, 9, "pending", True, 2, ()))
    run(worker)
    key = Key(1, 2, 3, 0, 9)
    assert not port.full(0, key)
    port.send(Taken(1, 1, "neural", (10, 11)))
    run(worker)
    assert port.full(0, key)
