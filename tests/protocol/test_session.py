"""The table of legal transitions, as data and as a walk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.options import Sampling
from saguaro.errors import ProtocolError
from saguaro.protocol.messages import Admit, Configure, Decided, Release, Taken, Taps
from saguaro.protocol.session import ABSENT, RUNNING, TRANSITIONS, WAITING, Session


def admit(round_: int = 0) -> Admit:
    return Admit(7, 0, round_, 2, Sampling(), (1, 2))


def decided(round_: int, *, pending: bool = False) -> Decided:
    return Decided(7, round_, 2, 0, 5, "none", pending, 0, ())


@given(st.lists(st.sampled_from(["Admit", "Decided", "Pending", "Taken", "Release", "Taps"]), max_size=20))
def test_exactly_the_table_is_allowed(names: list[str]) -> None:
    session, state, round_ = Session(), ABSENT, 0
    for name in names:
        message = {
            "Admit": admit(),
            "Decided": decided(round_),
            "Pending": decided(round_, pending=True),
            "Taken": Taken(7, round_, "neural", ()),
            "Release": Release(7),
            "Taps": Taps(7, 0, 1, 2, bytes(4)),
        }[name]
        after = TRANSITIONS.get((state, name))
        if after is None:
            with pytest.raises(ProtocolError):
                session.check(message)
        else:
            session.check(message)
            if name == "Admit":
                round_ = 0
            elif after == RUNNING and name != "Taps":
                round_ += 1
            state = after
        assert session.state(7) == state


def test_a_round_out_of_turn_is_refused_and_changes_nothing() -> None:
    session = Session()
    session.check(admit(round_=3))
    for wrong in (2, 4):
        with pytest.raises(ProtocolError, match="round"):
            session.check(decided(wrong))
    session.check(decided(3, pending=True))
    assert session.state(7) == WAITING
    assert session.round(7) == 3
    session.check(Taken(7, 3, "neural", (1,)))
    assert session.round(7) == 4


def test_settings_may_come_at_any_time() -> None:
    Session().check(Configure(1, False, True, 1.0, 2, False, fan_out="uniform"))
