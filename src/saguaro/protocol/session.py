"""The table of what may follow what, for one request, seen from either end (DESIGN D3).

    state       Admit     Decided      Decided(pending)   Taken       Release
    absent      running   –            –                  –           –
    running     –         running r+1  waiting            –           absent
    waiting     –         –            –                  running r+1 absent

`Taps` may come while it is running, and change nothing. Rounds must count up by one. Anything else is a
`ProtocolError`. Must not know: tokens' meaning, clocks, transports.
Tests: tests/protocol/test_session.py (a hypothesis state machine drives both ends).
"""

from __future__ import annotations

from saguaro.errors import ProtocolError
from saguaro.protocol.messages import Admit, Configure, Decided, Message, Release, Taps

ABSENT, RUNNING, WAITING = "absent", "running", "waiting"

TRANSITIONS: dict[tuple[str, str], str] = {
    (ABSENT, "Admit"): RUNNING,
    (RUNNING, "Decided"): RUNNING,
    (RUNNING, "Pending"): WAITING,
    (WAITING, "Taken"): RUNNING,
    (RUNNING, "Taps"): RUNNING,
    (RUNNING, "Release"): ABSENT,
    (WAITING, "Release"): ABSENT,
}


class Session:
    """Checks a stream of messages. Both ends keep one: the sender checks before it sends, the receiver on arrival."""

    def __init__(self) -> None:
        self._state: dict[int, tuple[str, int]] = {}

    def state(self, request: int) -> str:
        """`absent`, `running` or `waiting`."""
        return self._state.get(request, (ABSENT, 0))[0]

    def round(self, request: int) -> int:
        """The round whose outcome is expected next."""
        return self._state.get(request, (ABSENT, 0))[1]

    def requests(self) -> list[int]:
        """Requests that are present."""
        return list(self._state)

    def check(self, message: Message) -> None:
        """Advance by one message.

        Raises:
            ProtocolError: when the message is not allowed now; the state is unchanged then.
        """
        if isinstance(message, Configure):
            return
        name = type(message).__name__
        if isinstance(message, Decided) and message.pending:
            name = "Pending"
        state, expected = self._state.get(message.request, (ABSENT, 0))
        after = TRANSITIONS.get((state, name))
        if after is None:
            raise ProtocolError(f"{name} for request {message.request} is not allowed while it is {state}.")
        if isinstance(message, Taps):
            return
        if isinstance(message, Admit):
            expected = message.round
        elif not isinstance(message, Release):
            if message.round != expected:
                raise ProtocolError(f"{name} of round {message.round} arrived where round {expected} was due.")
            if after == RUNNING:
                expected += 1
        if after == ABSENT:
            self._state.pop(message.request, None)
        else:
            self._state[message.request] = (after, expected)
