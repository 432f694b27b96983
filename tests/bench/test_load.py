"""The loops themselves, in made-up time: who runs when, and what is written down."""

import pytest

from saguaro.bench.load import closed_loop, open_loop
from saguaro.errors import SaguaroError


def test_a_closed_loop_keeps_its_rows_full(made_up, asked):
    """Two rows, lengths 1, 5, 3, 1 in tokens, so 1, 3, 2, 1 rounds: 0 and 1 begin, 2 follows 0, 3 follows 1 or 2."""
    engine = made_up(rows=8)
    load = closed_loop(engine, asked(1, 5, 3, 1), 2, clock=engine.clock)
    assert engine.most == 2
    assert [one.request.number for one in load.served] == [0, 1, 2, 3]
    assert [one.submitted for one in load.served] == [0.0, 0.0, 1.0, 3.0]
    assert [one.ended for one in load.served] == [1.0, 3.0, 3.0, 4.0]
    assert [[each.tokens for each in one.deliveries] for one in load.served] == [[1], [1, 2, 2], [1, 2], [1]]
    assert [len(one.completion.token_ids) for one in load.served] == [1, 5, 3, 1]


def test_the_loaded_phase_ends_with_the_first_row_that_stays_empty(made_up, asked):
    engine = made_up(rows=8)
    load = closed_loop(engine, asked(1, 5, 3, 9), 2, clock=engine.clock)
    assert (load.began, load.loaded_until) == (0.0, 3.0)  # request 2 ends beside 1, and only 3 is left to start
    assert load.served[3].ended == 8.0


def test_one_row_is_loaded_to_the_end(made_up, asked):
    engine = made_up(rows=1)
    load = closed_loop(engine, asked(3, 3), 1, clock=engine.clock)
    assert load.loaded_until == load.served[-1].ended == 4.0


def test_a_request_is_known_by_its_number_and_not_by_its_place(made_up, asked):
    engine, requests = made_up(rows=2), asked(3, 3, 3, 1)
    load = closed_loop(engine, requests[2:], 2, clock=engine.clock)
    assert [one.request.number for one in load.served] == [2, 3]


def test_an_open_loop_starts_requests_when_they_are_due(made_up, asked):
    engine = made_up(rows=8)
    load = open_loop(engine, asked(3, 1, 1), [0.5, 0.75, 6.0], clock=engine.clock, sleep=engine.sleep)
    assert [one.arrival for one in load.served] == [0.5, 0.75, 6.0]
    assert [one.submitted for one in load.served] == [0.5, 0.75, 6.0]
    assert [one.first_token for one in load.served] == [1.5, 2.5, 7.0]
    assert (load.began, load.loaded_until) == (0.0, 7.0)


def test_an_open_loop_does_not_wait_for_the_engine(made_up, asked):
    """One row and an arrival each half second: the queue grows, and the time in it counts from the arrival."""
    engine = made_up(rows=1)
    load = open_loop(engine, asked(1, 1, 1, 1), [0.0, 0.5, 1.0, 1.5], clock=engine.clock, sleep=engine.sleep)
    assert [one.first_token - one.arrival for one in load.served] == [1.0, 1.5, 2.0, 2.5]


def test_a_late_submission_keeps_its_arrival(made_up, asked):
    engine = made_up(rows=4)
    engine.poll = lambda seconds, poll=engine.poll: poll(10.0)  # an engine that lets nobody in during a round
    load = open_loop(engine, asked(1, 1), [0.0, 0.25], clock=engine.clock, sleep=engine.sleep)
    assert (load.served[1].arrival, load.served[1].submitted) == (0.25, 1.0)


def test_ends_are_told(made_up, asked):
    engine, ended = made_up(rows=2), []
    closed_loop(engine, asked(1, 3, 1), 2, clock=engine.clock, on_end=lambda: ended.append(engine.now))
    assert ended == [1.0, 2.0, 2.0]


@pytest.mark.parametrize("kind", ["closed", "open"])
def test_what_still_runs_is_ended_when_a_request_fails(made_up, asked, kind):
    engine = made_up(rows=2)

    def fail(seconds, poll=engine.poll):
        found = poll(seconds)
        if any(delivery.completion for delivery in found):
            raise SaguaroError("broken.")
        return found

    engine.poll = fail
    loops = {
        "closed": lambda: closed_loop(engine, asked(1, 9, 9), 2, clock=engine.clock),
        "open": lambda: open_loop(engine, asked(1, 9), [0.0, 0.0], clock=engine.clock, sleep=engine.sleep),
    }
    with pytest.raises(SaguaroError, match="broken"):
        loops[kind]()
    assert engine.aborted == [1]


def test_nothing_to_end_after_a_loop(made_up, asked):
    engine = made_up(rows=2)
    closed_loop(engine, asked(1, 3), 2, clock=engine.clock)
    assert engine.aborted is None
