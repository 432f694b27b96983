"""`LLM`: prompts in, text out. The synchronous face of the engine (DESIGN section 5).

    from saguaro import LLM, SamplingParams
    with LLM("target", draft="draft") as llm:
        print(llm.generate("Hello", SamplingParams(temperature=0, max_tokens=32))[0].text)

Not thread-safe, though several streams may be read in turn; `AsyncLLM` serves many callers at once. Must not know: text
(`choices.py`), workers. Tests: tests/llm/, tests/reports/.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from saguaro.choices import Choice, Prompt, error_of, open_intake
from saguaro.engine.engine import open_engine
from saguaro.engine.interface import Engine, about
from saguaro.engine.target import Event, Failure
from saguaro.engine.trace import ProcessTrace
from saguaro.errors import SaguaroError, WorkerDied
from saguaro.request import Completion, Delta, SamplingParams

POLL_SECONDS = 1.0


class LLM:
    """A target, optionally a draft, ready to generate.

    Options are those of `config.EngineConfig`; unknown ones are refused with the nearest name. `cache_dir` holds packed
    weights between runs, `hub_cache` is a Hugging Face hub cache; None uses the usual places under the home directory.

    Raises:
        ConfigError, WeightsError: before any weight is loaded, where it can be known.
    """

    def __init__(
        self,
        target: str | Path,
        draft: str | Path | None = None,
        *,
        cache_dir: str | Path | None = None,
        hub_cache: str | Path | None = None,
        **options: Any,
    ) -> None:
        self._intake = open_intake(target, draft, cache_dir=cache_dir, hub_cache=hub_cache, options=options)
        self.tokenizer = self._intake.tokenizer
        self._numbers = itertools.count(1)
        self._boxes: dict[int, list[Event]] = {}  # where the events of a request go: one list for each call under way
        self._running: set[int] = set()  # requests that the engine has not ended
        self._engine: Engine | None = open_engine(self._intake.plan)

    # -- generating -----------------------------------------------------------------------------------------------

    def generate(
        self, prompts: Prompt | Sequence[Prompt], params: SamplingParams | Sequence[SamplingParams] | None = None
    ) -> list[Completion]:
        """Complete prompts; a list of results in the order of the prompts, `n` for each.

        Args:
            prompts: a string, a list of token ids, or a list of either.
            params: one for all, or one for each prompt. Default: `SamplingParams()`.

        Raises:
            RequestRefused: when a prompt cannot run; nothing has been generated then.
        """
        choices = self._intake.choices(prompts, params)
        for _ in self._run(choices):
            pass
        return [choice.completion() for choice in choices]

    def stream(self, prompt: Prompt, params: SamplingParams | None = None) -> Iterator[Delta]:
        """Complete one prompt, piece by piece as rounds end. Leaving the loop early ends the request."""
        yield from self._run([self._intake.choice(prompt, params)])

    def chat(self, messages: Sequence[Mapping[str, Any]], params: SamplingParams | None = None) -> Completion:
        """Answer a conversation, rendered by the target's chat template."""
        choice = self._intake.choice(self.chat_prompt(messages), params)
        for _ in self._run([choice]):
            pass
        return choice.completion()

    def chat_prompt(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Token ids of a rendered conversation with the generation prompt; BOS exactly once."""
        return self._intake.chat_prompt(messages)

    def _run(self, choices: Sequence[Choice]) -> Iterator[Delta]:
        """Submit choices and yield their pieces until all have ended."""
        engine = self._open
        open_: dict[int, Choice] = {}
        box: list[Event] = []
        try:
            for choice in choices:
                number = next(self._numbers)
                open_[number], self._boxes[number] = choice, box
                engine.submit(self._intake.submission(number, choice))
                self._running.add(number)
            while open_:
                for event in self._events(box):
                    number, _ = about(event)
                    if number not in open_:
                        continue  # it has just ended at a stop string
                    if isinstance(event, Failure):
                        raise error_of(event)
                    delta = open_[number].add(event[1])
                    if delta.finish_reason is not None:
                        del open_[number]
                        self._leave([number])
                    yield delta
        except WorkerDied:
            self._running.clear()  # nobody is left to be told of an abort
            raise
        finally:
            self._leave(open_)

    def _events(self, box: list[Event]) -> list[Event]:
        """What is in a box, polling when it is empty; events of other calls go to theirs."""
        if not box:
            for event in self._open.poll(POLL_SECONDS):
                number, ended = about(event)
                if ended:
                    self._running.discard(number)
                if number in self._boxes:
                    self._boxes[number].append(event)
        found = list(box)
        box.clear()
        return found

    def _leave(self, numbers: Iterable[int]) -> None:
        """Forget requests, and end those that the engine has not ended."""
        for number in numbers:
            del self._boxes[number]
            if number in self._running:
                self._running.remove(number)
                if self._engine is not None:
                    self._engine.abort(number)

    # -- the engine -----------------------------------------------------------------------------------------------

    @property
    def _open(self) -> Engine:
        if self._engine is None:
            raise SaguaroError("this LLM is closed; make a new one.")
        return self._engine

    @property
    def mode(self) -> str:
        """`ar`, `sd` or `ssd`: what the engine was opened for. The gear of the moment is in `statistics()["gears"]`."""
        return self._open.plan.mode

    def configure(self, **changes: Any) -> None:
        """Change mode (among those that this placement has), lookahead, budget, fan_out, fallback or pacing between
        rounds.
        """
        self._open.configure(**changes)

    def statistics(self) -> dict[str, Any]:
        """The resolved plan, measured step times, running estimates, totals, waiting times and warnings."""
        return self._open.statistics()

    def trace(self) -> list[ProcessTrace]:
        """What each process did, and when, since the last call; `engine.trace.chrome_trace` draws it.

        Raises:
            ConfigError: when the engine was opened without `trace=True`.
        """
        return self._open.trace()

    def close(self) -> None:
        """End the workers. The object cannot be used afterwards; closing twice is fine."""
        if self._engine is not None:
            engine, self._engine = self._engine, None
            engine.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
