"""Recorded rounds: what the draft listed and what came out, from an engine whose proposals nothing disturbs.

The engine runs in lockstep, without branches, with the neural fallback and a fixed lookahead, so every proposal is what
the draft draws after the committed text, and every policy can be tried on the rounds later (`simulate.replay`).
Must not know: what the rounds are for. Tests: tests/simulate/test_replay.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from saguaro.algorithm.rounds import EndedRound, from_plain
from saguaro.errors import ConfigError, SaguaroError
from saguaro.request import SamplingParams

if TYPE_CHECKING:
    from saguaro.llm import LLM

OWN = {
    "mode": "ssd",
    "fan_out": "none",
    "fallback": "neural",
    "pacing": "lockstep",
    "verification": "shared_noise",
    "budget": 1,
}
"""Options of an engine that records."""
LOOKAHEAD, CANDIDATES, ROWS = 6, 32, 2


@dataclass(frozen=True)
class Recording:
    """Rounds of some prompts at one temperature; `request` of a round is the prompt's place. `texts` are pairs of the
    token ids of a prompt and of its output.
    """

    temperature: float
    rounds: list[EndedRound]
    texts: list[tuple[list[int], list[int]]]

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "temperature": self.temperature,
            "rounds": [each.plain() for each in self.rounds],
            "texts": [[list(prompt), list(output)] for prompt, output in self.texts],
        }


def recording_from(values: Mapping[str, Any]) -> Recording:
    """The recording of what `Recording.plain` gave."""
    texts = [(list(prompt), list(output)) for prompt, output in values["texts"]]
    return Recording(float(values["temperature"]), [from_plain(each) for each in values["rounds"]], texts)


def recording_options(engine: Mapping[str, Any], *, lookahead: int, candidates: int, rows: int) -> dict[str, Any]:
    """Options of an engine that records.

    Args:
        engine: options of the user; models, devices, dtypes.
        lookahead: K.
        candidates: of each position, that are kept.
        rows: prompts that run at once. It changes how long recording takes and nothing else.

    Raises:
        ConfigError: when the user's options name what a calibration decides itself.
    """
    for name in (*OWN, "lookahead", "observe", "profile", "saguaro_c", "max_batch"):
        if name in engine:
            raise ConfigError(f"option {name!r} is what a calibration decides itself; leave it out.")
    return {**engine, **OWN, "lookahead": lookahead, "observe": candidates, "max_batch": rows}


def record(
    llm: LLM,
    prompts: Sequence[str | list[int]],
    *,
    temperature: float,
    max_tokens: int,
    seed: int = 0,
    on_prompts: Callable[[int], None] = lambda count: None,
) -> Recording:
    """Run prompts, `max_batch` at a time, and keep their rounds. Prompt i has the noise of seed + i.

    Raises:
        SaguaroError: when rounds of a prompt were lost.
    """
    rows = llm._open.plan.config.max_batch
    llm._open.observations()
    rounds: list[EndedRound] = []
    texts: list[tuple[list[int], list[int]]] = []
    for first in range(0, len(prompts), rows):
        some = list(prompts[first : first + rows])
        params = [
            SamplingParams(temperature=temperature, max_tokens=max_tokens, seed=seed + first + i, ignore_eos=True)
            for i in range(len(some))
        ]
        done = llm.generate(some, params)
        found = llm._open.observations()
        numbers = sorted({each.request for each in found})
        if len(numbers) != len(some) and max_tokens > 1:
            raise SaguaroError(f"rounds of {len(numbers)} of {len(some)} prompts were recorded; run them again.")
        places = {number: first + place for place, number in enumerate(numbers)}
        rounds += [replace(each, request=places[each.request]) for each in found]
        texts += [(list(each.prompt_token_ids), list(each.token_ids)) for each in done]
        on_prompts(len(some))
    return Recording(temperature, rounds, texts)
