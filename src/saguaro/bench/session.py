"""Requests of one `LLM` that come and go one by one, which `LLM.generate` does not offer.

The only file of the benchmark that reaches into `LLM`: it submits, polls and aborts through the same engine and counts
with the same bookkeeping as `LLM.generate`, so that both measure the same thing. Tests: tests/bench/test_session.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from saguaro.bench.load import Delivery, Request
from saguaro.choices import Choice, error_of
from saguaro.engine.interface import about
from saguaro.engine.target import Failure

if TYPE_CHECKING:
    from saguaro.llm import LLM


class Session:
    """`Serving` over an `LLM`. Nobody else may use that `LLM` meanwhile."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm
        self._engine = llm._open
        self._open: dict[int, tuple[Request, Choice]] = {}

    def start(self, request: Request) -> None:
        """Submit one request (`n` is 1).

        Raises:
            RequestRefused: when the prompt cannot run.
        """
        number, choice = _submit(self._llm, request)
        self._open[number] = (request, choice)

    def poll(self, seconds: float) -> list[Delivery]:
        """What arrived, waiting at most `seconds` for it.

        Raises:
            RequestRefused, SaguaroError: when one of the requests failed.
        """
        found = []
        for event in self._engine.poll(seconds):
            number, _ = about(event)
            if number not in self._open:
                continue
            if isinstance(event, Failure):
                raise error_of(event)
            request, choice = self._open[number]
            report = event[1]
            delta = choice.add(report)
            done = None
            if choice.finish is not None:
                del self._open[number]
                if report.finish is None:
                    self._engine.abort(number)
                done = choice.completion()
            found.append(Delivery(request.number, report.time, len(delta.token_ids), done))
        return found

    def abort(self) -> None:
        """End every request that still runs."""
        for number in self._open:
            self._engine.abort(number)
        self._open.clear()


def _submit(llm: LLM, request: Request) -> tuple[int, Choice]:
    """Hand a request to the engine as `LLM.generate` does."""
    [choice] = llm._intake.choices([request.prompt], request.params)
    number = next(llm._numbers)
    llm._open.submit(llm._intake.submission(number, choice))
    return number, choice
