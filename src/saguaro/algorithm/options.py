"""How one choice of a request is sampled: all of its options in one value that target and draft share.

Both sides process logits by the same functions (`algorithm/edits.py`, `algorithm/sampling.py`) from the same
`Sampling`, so no option can reach only one of proposal, verification and bonus token. It travels once, as JSON, when a
row is admitted. Must not know: requests, tokens drawn so far, tensors. Tests: tests/algorithm/test_options.py.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

from saguaro.algorithm.noise import Key, row_key


@dataclass(frozen=True, slots=True)
class Sampling:
    """Options of one choice, checked before they get here.

    Args:
        seed: 64-bit key of the noise.
        choice: index among the n choices of the request.
        temperature: 0 is greedy.
        top_k, top_p, min_p: filters after temperature; 0, 1 and 0 are off.
        repetition_penalty: divides positive and multiplies negative logits of tokens in prompt or output; 1 is off.
        presence_penalty: taken from the logits of tokens in the output.
        frequency_penalty: taken as often as the token is in the output.
        logit_bias: pairs of id and what is added to its logit.
        bad_words: token sequences of which the last token is removed where the others have just been generated.
        min_tokens: so many tokens come before any of `stop_ids`.
        stop_ids: what `min_tokens` holds back, and what a complete grammar allows.
        grammar: the text of a grammar that the output follows (`models/grammar.py`); empty without one.
    """

    seed: int = 0
    choice: int = 0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    bad_words: tuple[tuple[int, ...], ...] = ()
    min_tokens: int = 0
    stop_ids: tuple[int, ...] = ()
    grammar: str = ""

    @property
    def filtered(self) -> bool:
        """Whether top-k, top-p or min-p apply; at temperature 0 they change nothing."""
        return self.temperature > 0 and (self.top_k > 0 or self.top_p < 1 or self.min_p > 0)

    @property
    def edited(self) -> bool:
        """Whether logits are changed before temperature."""
        return bool(
            self.logit_bias
            or self.bad_words
            or self.min_tokens
            or self.repetition_penalty != 1
            or self.presence_penalty
            or self.frequency_penalty
            or self.grammar
        )

    def key(self, position: int) -> Key:
        """The key of the noise at an absolute position."""
        return row_key(self.seed, self.choice, position)


_DEFAULTS = {field.name: field.default for field in fields(Sampling)}


def encode(sampling: Sampling) -> bytes:
    """JSON of what is not at its default."""
    given = {name: getattr(sampling, name) for name, default in _DEFAULTS.items()}
    return json.dumps({name: value for name, value in given.items() if value != _DEFAULTS[name]}).encode()


def decode(text: bytes) -> Sampling:
    """The inverse of `encode`.

    Raises:
        ValueError: for anything that `encode` does not make.
    """
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError("sampling options are no object")
    checked: dict[str, Any] = {}
    for name, value in values.items():
        default = _DEFAULTS.get(name)
        if default is None or not _fits(value, default):
            raise ValueError(f"{name!r} is no sampling option, or its value is not one of its kind")
        checked[name] = value
    for name in ("logit_bias", "bad_words"):
        if name in checked:
            checked[name] = tuple(tuple(each) for each in checked[name])
    if "stop_ids" in checked:
        checked["stop_ids"] = tuple(checked["stop_ids"])
    return Sampling(**checked)


def _fits(value: object, default: object) -> bool:
    if isinstance(default, tuple):
        return isinstance(value, list)
    if isinstance(default, str):
        return isinstance(value, str)
    if isinstance(default, float):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, int) and not isinstance(value, bool)
