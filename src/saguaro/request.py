"""What a caller asks for and what comes back: frozen values, checked once.

Shapes: token ids are plain lists of ints. Times are seconds. Must not know: engines, processes, tensors.
Definitions of metrics: docs/metrics.md. Tests: tests/ground/test_request.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields
from itertools import zip_longest
from typing import Any, Literal

from saguaro.errors import RequestRefused
from saguaro.registry import nearest

FinishReason = Literal["stop", "length", "abort"]
MAX_CHOICES, MAX_LOGPROBS = 128, 20
GRAMMARS = ("json_schema", "json_object", "regex", "grammar")
MISS_REASONS = ("k_not_covered", "token_not_covered", "not_ready", "unused", "no_draft")
"""Why an outcome was a miss (docs/metrics.md)."""


@dataclass(frozen=True)
class SamplingParams:
    """How one request is sampled and where it ends.

    Args:
        temperature: 0 is greedy; any value up to 100 is allowed.
        top_k: keep the k most likely tokens; 0 keeps all.
        top_p: keep the smallest set of tokens whose probability reaches `top_p`; 1 keeps all.
        min_p: keep tokens at least `min_p` times as likely as the likeliest; 0 keeps all. Filters apply after
            temperature: min_p, then top_k, then top_p.
        repetition_penalty: divides positive and multiplies negative logits of tokens in prompt or output; 1 is off.
        presence_penalty: taken from the logits of tokens in the output.
        frequency_penalty: taken from them as often as they are in the output.
        logit_bias: what to add to the logits of token ids.
        bad_words: strings that are not generated, at the beginning of a word or within one.
        min_tokens: so many tokens come before a stop token may; stop strings are not held back.
        seed: 64-bit key of the noise; None takes one from the system, which the result reports.
        max_tokens: at most this many tokens are generated.
        stop: strings that end the text before them (a string or a list of strings).
        stop_token_ids: further ids that end the generation.
        ignore_eos: do not end at the model's own stop ids.
        speculation: at most so many tokens of this request are proposed at a time; 0 decodes it without the draft, None
            leaves it to the engine. It changes the speed, never the text.
        n: independent choices of one prompt; choice i has its own noise, and choice 0 is what n = 1 gives.
        logprobs: report the log probability of each token, and of this many of the likeliest (0 ... 20), by the
            target's own law before temperature and filters; None reports nothing.
        prompt_logprobs: the same for the tokens of the prompt but the first; its keys and values are computed anew.
        skip_special_tokens: leave special tokens (those that mark turns and ends) out of the text; ids keep them.
        json_schema: the output is JSON that fits this schema (a mapping or JSON text; kept as text), written without
            white space unless the schema's `x-guidance` asks for it.
        json_object: the output is any JSON object.
        regex: the output matches this regular expression as a whole.
        grammar: the output follows this grammar, in the Lark form that the library llguidance reads.

    At most one of the last four may be set. The output then is a beginning of such a text, and a whole one when the
    request ends by itself: at one of the model's stop ids, which may come where the text is complete, or, where
    `ignore_eos` leaves none, where nothing can follow. `stop` and `max_tokens` cut it as they do any text; `min_tokens`
    does not make a text longer than the grammar allows; a place where `bad_words` leave nothing fails the request.

    Raises:
        RequestRefused: when a value is out of its range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None
    max_tokens: int = 128
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    n: int = 1
    logprobs: int | None = None
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    bad_words: tuple[str, ...] = ()
    min_tokens: int = 0
    speculation: int | None = None
    prompt_logprobs: int | None = None
    skip_special_tokens: bool = True
    json_schema: str | Mapping[str, Any] | None = None
    json_object: bool = False
    regex: str | None = None
    grammar: str | None = None

    def __post_init__(self) -> None:
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        object.__setattr__(self, "stop", stop)
        object.__setattr__(self, "stop_token_ids", tuple(self.stop_token_ids or ()))
        words = (self.bad_words,) if isinstance(self.bad_words, str) else tuple(self.bad_words or ())
        object.__setattr__(self, "bad_words", words)
        object.__setattr__(self, "logit_bias", _pairs(self.logit_bias))
        _require(_is_number(self.temperature) and 0 <= self.temperature <= 100, "temperature must be in 0 ... 100")
        _require(_is_int(self.top_k) and self.top_k >= 0, "top_k must be a whole number, 0 (off) or more")
        _require(_is_number(self.top_p) and 0 < self.top_p <= 1, "top_p must be above 0 and at most 1")
        _require(_is_int(self.max_tokens) and self.max_tokens >= 1, "max_tokens must be a whole number of 1 or more")
        _require(
            self.seed is None or (_is_int(self.seed) and -(2**63) <= self.seed < 2**64), "seed must fit in 64 bits"
        )
        _require(all(isinstance(s, str) and s for s in stop), "stop must be a string or strings, none of them empty")
        _require(all(_is_int(t) and t >= 0 for t in self.stop_token_ids), "stop_token_ids must be token ids")
        _require(isinstance(self.ignore_eos, bool), "ignore_eos must be true or false")
        _require(isinstance(self.skip_special_tokens, bool), "skip_special_tokens must be true or false")
        _require(_is_number(self.min_p) and 0 <= self.min_p <= 1, "min_p must be in 0 ... 1")
        _require(
            _is_number(self.repetition_penalty) and 0 < self.repetition_penalty <= 100,
            "repetition_penalty must be above 0 and at most 100",
        )
        for name in ("presence_penalty", "frequency_penalty"):
            value = getattr(self, name)
            _require(_is_number(value) and -100 <= value <= 100, f"{name} must be in -100 ... 100")
        _require(all(isinstance(w, str) and w for w in words), "bad_words must be strings, none of them empty")
        _require(
            _is_int(self.min_tokens) and 0 <= self.min_tokens <= self.max_tokens,
            "min_tokens must be a whole number from 0 to max_tokens",
        )
        _require(
            self.speculation is None or (_is_int(self.speculation) and self.speculation >= 0),
            "speculation must be a whole number of 0 (off) or more",
        )
        _require(_is_int(self.n) and 1 <= self.n <= MAX_CHOICES, f"n must be a whole number in 1 ... {MAX_CHOICES}")
        for name in ("logprobs", "prompt_logprobs"):
            value = getattr(self, name)
            _require(
                value is None or (_is_int(value) and 0 <= value <= MAX_LOGPROBS),
                f"{name} must be a whole number in 0 ... {MAX_LOGPROBS}",
            )
        self._check_grammar()

    def _check_grammar(self) -> None:
        _require(isinstance(self.json_object, bool), "json_object must be true or false")
        for name in ("regex", "grammar"):
            value = getattr(self, name)
            _require(value is None or (isinstance(value, str) and value != ""), f"{name} must be a string, not empty")
        if self.json_schema is not None:
            object.__setattr__(self, "json_schema", _schema_text(self.json_schema))
        given = [name for name in GRAMMARS if getattr(self, name) not in (None, False)]
        _require(len(given) <= 1, f"one grammar at a time: {' and '.join(given)} are both given")

    @property
    def constrained(self) -> bool:
        """Whether the output follows a grammar."""
        return any(getattr(self, name) not in (None, False) for name in GRAMMARS)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> SamplingParams:
        """Build from a mapping; unknown names are refused with the nearest known one."""
        known = [f.name for f in fields(cls)]
        for name in values:
            if name not in known:
                raise RequestRefused(f"unknown sampling option {name!r}{nearest(name, known) or '.'}")
        return cls(**values)


@dataclass(frozen=True)
class TokenLogprob:
    """The log probability of a token, and the likeliest tokens at its place with theirs, best first."""

    token_id: int
    logprob: float
    top: list[tuple[int, float]] = field(default_factory=list)


@dataclass
class RequestMetrics:
    """Counters of one request, or sums over many; docs/metrics.md defines each.

    `len(token_ids) == 1 + rounds + accepted`; prefill is no round. Each round is verified once, and in SSD the outcome
    before it was looked up once: `hits + misses == rounds`, and `miss_reasons` add up to `misses`. Where nothing is
    looked up (AR, SD, and rounds in those gears under mode `auto`), everything about hits and misses stays empty.
    Times of a batch are those of all its rows.
    """

    rounds: int = 0
    drafted: int = 0
    verified: int = 0
    accepted: int = 0
    accepted_per_position: list[int] = field(default_factory=list)
    verified_per_position: list[int] = field(default_factory=list)
    hits: int = 0
    misses: int = 0
    miss_reasons: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MISS_REASONS, 0))
    rounds_by_accepted: list[int] = field(default_factory=list)
    hits_by_accepted: list[int] = field(default_factory=list)
    rounds_after_hit: int = 0
    hits_after_hit: int = 0
    rounds_after_miss: int = 0
    hits_after_miss: int = 0
    hit_accepted_per_position: list[int] = field(default_factory=list)
    hit_verified_per_position: list[int] = field(default_factory=list)
    miss_accepted_per_position: list[int] = field(default_factory=list)
    miss_verified_per_position: list[int] = field(default_factory=list)
    hit_depth_sum: int = 0
    branches: int = 0
    target_wait_seconds: float = 0.0
    wait_depth_seconds: float = 0.0
    wait_pending_seconds: float = 0.0
    handover_seconds: float = 0.0
    verify_seconds: float = 0.0
    draw_seconds: float = 0.0
    prefill_tokens: int = 0
    cached_tokens: int = 0
    prefill_seconds: float = 0.0
    time_to_first_token: float = 0.0
    decode_seconds: float = 0.0
    preemptions: int = 0
    round_seconds: list[float] = field(default_factory=list)
    round_tokens: list[int] = field(default_factory=list)

    @property
    def depth(self) -> float | None:
        """Mean length of a hit, in tokens; None without hits."""
        return _ratio(self.hit_depth_sum, self.hits)

    @property
    def hit_rate(self) -> float | None:
        """Hits per round; None where no cache is in use (AR, SD)."""
        return _ratio(self.hits, self.hits + self.misses)

    @property
    def hit_rate_by_accepted(self) -> list[float | None]:
        """The hit rate of outcomes with k accepted tokens, by k."""
        return _ratios(self.hits_by_accepted, self.rounds_by_accepted)

    @property
    def hit_rate_after_hit(self) -> float | None:
        """The hit rate where the proposal before was a hit: p_hit,p of Theorem 7."""
        return _ratio(self.hits_after_hit, self.rounds_after_hit)

    @property
    def hit_rate_after_miss(self) -> float | None:
        """The hit rate where the proposal before answered a miss: p_hit,b of Theorem 7."""
        return _ratio(self.hits_after_miss, self.rounds_after_miss)

    @property
    def acceptance_of_hits(self) -> list[float | None]:
        """Acceptance by position of proposals that were hits."""
        return _ratios(self.hit_accepted_per_position, self.hit_verified_per_position)

    @property
    def acceptance_of_misses(self) -> list[float | None]:
        """Acceptance by position of proposals that answered a miss."""
        return _ratios(self.miss_accepted_per_position, self.miss_verified_per_position)

    @property
    def budget_used(self) -> float | None:
        """Branches that a round had when its outcome was looked up, in the mean."""
        return _ratio(self.branches, self.hits + self.misses)

    @property
    def acceptance_rate(self) -> float | None:
        """accepted / verified, an estimate of alpha (Theorem 1)."""
        return _ratio(self.accepted, self.verified)

    @property
    def accepted_share(self) -> float | None:
        """accepted / drafted."""
        return _ratio(self.accepted, self.drafted)

    @property
    def acceptance_length(self) -> float | None:
        """Tokens a round: 1 + accepted / rounds."""
        return 1 + self.accepted / self.rounds if self.rounds else None

    def to_dict(self) -> dict[str, Any]:
        """Counters and the rates made from them, as plain values; the times of single rounds are left out."""
        names = [f.name for f in fields(self) if f.name not in ("round_seconds", "round_tokens")]
        return {name: deepcopy(getattr(self, name)) for name in [*names, *RATES]}


RATES = tuple(name for name, value in vars(RequestMetrics).items() if isinstance(value, property))


@dataclass(frozen=True)
class Completion:
    """One finished choice of one prompt.

    `text` ends before a stop string; `token_ids` keeps everything up to the token that completed it, and the stop id.
    `seed` is the key that was used, also when the system chose it. `logprobs` has one entry for each token,
    `prompt_logprobs` one for each of the prompt, of which the first is None. `rounds` are the records of its rounds
    where they were asked for (`AsyncLLM.streams`; docs/metrics.md).
    """

    text: str
    token_ids: list[int]
    finish_reason: FinishReason
    prompt_token_ids: list[int]
    metrics: RequestMetrics
    seed: int
    index: int = 0
    logprobs: list[TokenLogprob] | None = None
    origins: list[str] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprob | None] | None = None
    rounds: list[dict[str, Any]] | None = None


@dataclass(frozen=True)
class Delta:
    """A piece of a stream: new text (whole characters only), its tokens and where each token came from.

    `rounds` are as in `Completion`. `texts` is what each token completed; both make up `text`.
    """

    text: str
    token_ids: list[int]
    finish_reason: FinishReason | None = None
    origins: list[str] = field(default_factory=list)
    metrics: RequestMetrics | None = None
    logprobs: list[TokenLogprob] | None = None
    rounds: list[dict[str, Any]] | None = None
    texts: list[str] = field(default_factory=list)

    def by_token(self) -> Iterator[Delta]:
        """The same in pieces of one token: the first has the rounds, the last the end and what was held back."""
        if len(self.texts) < 2:
            yield self
            return
        last, shown = len(self.texts) - 1, 0
        for at, text in enumerate(self.texts):
            ends = at == last
            yield Delta(
                self.text[shown:] if ends else text,
                self.token_ids[at : at + 1],
                self.finish_reason if ends else None,
                self.origins[at : at + 1],
                self.metrics if ends else None,
                None if self.logprobs is None else self.logprobs[at : at + 1],
                self.rounds if at == 0 else None,
            )
            shown += len(text)


def _pairs(bias: Any) -> tuple[tuple[int, float], ...]:
    """A bias as pairs in order of id; JSON has the ids as strings."""
    items = bias.items() if isinstance(bias, Mapping) else (bias or ())
    try:
        pairs = sorted((int(token), float(value)) for token, value in items)
    except (TypeError, ValueError):
        raise RequestRefused("logit_bias must map token ids to numbers.") from None
    _require(all(token >= 0 and -100 <= value <= 100 for token, value in pairs), "logit_bias is in -100 ... 100")
    _require(len({token for token, _ in pairs}) == len(pairs), "logit_bias names a token twice")
    return tuple(pairs)


def _schema_text(schema: Any) -> str:
    """A JSON schema as JSON text: an object, or true or false."""
    try:
        parsed = json.loads(schema) if isinstance(schema, str) else schema
        text = json.dumps(parsed, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise RequestRefused(f"json_schema is no JSON: {error}.") from None
    _require(isinstance(parsed, (Mapping, bool)), "json_schema must be a JSON object, or its text")
    return text


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise RequestRefused(message + ".")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _ratio(top: float, bottom: float) -> float | None:
    return top / bottom if bottom else None


def _ratios(tops: Sequence[int], bottoms: Sequence[int]) -> list[float | None]:
    """Entry by entry; a list that is shorter goes on with zeros."""
    return [_ratio(top, bottom) for top, bottom in zip_longest(tops, bottoms, fillvalue=0)]
