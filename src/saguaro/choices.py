"""What both faces share: prompts and parameters become choices, their rounds become text, counters and completions.

`Intake` checks and encodes; a `Choice` is one request under way. The engine sees token ids only: encoding,
detokenising and stop strings live here. Ids, log probabilities, origins, text and metrics of a choice describe the same
tokens at every moment. Must not know: how an engine is driven, asyncio. Tests: tests/llm/, tests/reports/.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from saguaro.algorithm.options import Sampling
from saguaro.config import EngineConfig
from saguaro.engine.counting import RoundCounter
from saguaro.engine.resolve import Plan, resolve
from saguaro.engine.round_log import round_fields
from saguaro.engine.sequence import RoundReport, Submission
from saguaro.engine.target import Failure
from saguaro.errors import RequestRefused, SaguaroError
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.grammar import Grammars, grammar_text
from saguaro.models.text import Detokeniser, StopStrings
from saguaro.models.tokenizer import TextCodec
from saguaro.request import Completion, Delta, FinishReason, RequestMetrics, SamplingParams, TokenLogprob

Prompt = str | Sequence[int]


@dataclass
class Choice:
    """One request under way: its text so far and its counters.

    `speculating`: its rounds look a cache up. `rounds`: a record of each, with its tokens; None keeps none.
    """

    index: int
    prompt: list[int]
    params: SamplingParams
    seed: int
    detokeniser: Detokeniser
    stops: StopStrings
    speculating: bool
    submitted: float = field(default_factory=time.monotonic)
    tokens: list[int] = field(default_factory=list)
    origins: list[str] = field(default_factory=list)
    text: str = ""
    logprobs: list[TokenLogprob] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprob] | None = None
    metrics: RequestMetrics = field(default_factory=RequestMetrics)
    finish: FinishReason | None = None
    rounds: list[dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        self._counter = RoundCounter(self.metrics, prompt_tokens=len(self.prompt), looks_up=self.speculating)

    def add(self, report: RoundReport) -> Delta:
        """Take one round's tokens, up to the one that completes a stop string."""
        kept: list[int] = []
        texts: list[str] = []
        for token in report.tokens:
            kept.append(token)
            text, stopped = self.stops.push(self.detokeniser.push([token]))
            texts.append(text)
            if stopped:
                self.finish = "stop"
                break
        if self.finish is None and report.finish is not None:
            self.finish = "stop" if report.finish == "stop" else "length"
            texts[-1] += self._rest()
        shown = "".join(texts)
        origins = self._origins(report, len(kept))
        self.tokens += kept
        self.origins += origins
        logprobs = None if report.logprobs is None else report.logprobs[: len(kept)]
        self.logprobs += logprobs or []
        self.text += shown
        self._count(report, len(kept))
        rounds = self._record(report, zip(kept, texts, origins, strict=True))
        metrics = self.metrics if self.finish else None
        return Delta(shown, kept, self.finish, origins, metrics, logprobs, rounds, texts)

    def abort(self) -> Delta:
        """End here: what was held back is shown, no token is added."""
        self.finish = "abort"
        shown = self._rest()
        self.text += shown
        logprobs: list[TokenLogprob] | None = None if self.params.logprobs is None else []
        return Delta(shown, [], self.finish, [], self.metrics, logprobs, None if self.rounds is None else [])

    def _rest(self) -> str:
        """The text that was held back, now that no token follows."""
        text, stopped = self.stops.push(self.detokeniser.finish())
        if stopped:  # a stop string that ends in the mark of a cut character
            self.finish = "stop"
        return text + self.stops.finish()

    @staticmethod
    def _origins(report: RoundReport, count: int) -> list[str]:
        if report.source == "prefill":
            return ["prefill"] * count
        accepted = report.source if report.source in ("hit", "forced") else "fallback"
        return [accepted if i < report.accepted else "bonus" for i in range(count)]

    def _record(self, report: RoundReport, tokens: Iterable[tuple[int, str, str]]) -> list[dict[str, Any]] | None:
        """The record of a round, where records are kept; the text of a token is what it completed."""
        if self.rounds is None:
            return None
        fields = round_fields(report, looks_up=self.speculating and report.looked)
        each = [{"id": token, "text": text, "origin": origin} for token, text, origin in tokens]
        self.rounds.append({**fields, "tokens": each})
        return self.rounds[-1:]

    def _count(self, report: RoundReport, kept: int) -> None:
        self._counter.add(report, kept)
        if report.source == "prefill":
            self.metrics.time_to_first_token = report.time - self.submitted
            self.prompt_logprobs = report.prompt_logprobs

    def completion(self) -> Completion:
        """The finished choice."""
        assert self.finish is not None
        return Completion(
            text=self.text,
            token_ids=self.tokens,
            finish_reason=self.finish,
            prompt_token_ids=self.prompt,
            metrics=self.metrics,
            seed=self.seed,
            index=self.index,
            logprobs=None if self.params.logprobs is None else self.logprobs,
            origins=self.origins,
            prompt_logprobs=None if self.prompt_logprobs is None else [None, *self.prompt_logprobs],
            rounds=self.rounds,
        )


class Intake:
    """Prompts and parameters in, checked choices and their submissions out."""

    def __init__(self, tokenizer: TextCodec, plan: Plan, *, vocab: int, stop_ids: frozenset[int]) -> None:
        self.tokenizer = tokenizer
        self.plan = plan
        self.vocab = vocab
        self.stop_ids = stop_ids
        self.grammars = Grammars(lambda: self.tokenizer, vocab, stop_ids)

    def choices(
        self, prompts: Prompt | Sequence[Prompt], params: SamplingParams | Sequence[SamplingParams] | None
    ) -> list[Choice]:
        """The choices of all prompts, prompt by prompt, `n` for each.

        Raises:
            RequestRefused: when a prompt cannot run.
        """
        several = _as_list(prompts)
        each = _params_for(several, params)
        return [choice for prompt, p in zip(several, each, strict=True) for choice in self._choices(prompt, p)]

    def choice(self, prompt: Prompt, params: SamplingParams | None) -> Choice:
        """The choice of a call that returns one text.

        Raises:
            RequestRefused: when the prompt cannot run, or several choices are asked for.
        """
        params = params or SamplingParams()
        if params.n != 1:
            raise RequestRefused(f"this call returns one text, and n is {params.n}; use generate, or n=1.")
        return self._choices(prompt, params)[0]

    def chat_prompt(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Token ids of a rendered conversation with the generation prompt; BOS exactly once."""
        return list(self.tokenizer.encode_chat([dict(m) for m in messages]))

    def _choices(self, prompt: Prompt, params: SamplingParams) -> list[Choice]:
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        limit = self.plan.max_model_len
        if not ids:
            raise RequestRefused("the prompt is empty; give at least one token.")
        if len(ids) >= limit:
            raise RequestRefused(
                f"the prompt has {len(ids)} tokens; with max_model_len {limit} at most {limit - 1} fit."
            )
        if any(not 0 <= token < self.vocab for token in ids):
            raise RequestRefused(f"the prompt holds a token id outside 0 ... {self.vocab - 1}.")
        if any(token >= self.vocab for token, _ in params.logit_bias):
            raise RequestRefused(f"logit_bias names a token id above {self.vocab - 1}.")
        if params.constrained:
            self.grammars.compile(grammar_text(params))
        seed = secrets.randbits(64) if params.seed is None else params.seed % 2**64
        return [
            Choice(
                index,
                list(ids),
                params,
                seed,
                Detokeniser(self.tokenizer, skip_special=params.skip_special_tokens),
                StopStrings(params.stop),
                params.speculation != 0,
            )
            for index in range(params.n)
        ]

    def submission(self, number: int, choice: Choice) -> Submission:
        """What the engine gets of a choice; its clock starts now."""
        choice.submitted = time.monotonic()
        p = choice.params
        stops = frozenset(p.stop_token_ids) | (frozenset() if p.ignore_eos else self.stop_ids)
        grammar = grammar_text(p) if p.constrained else ""
        return Submission(
            request=number,
            prompt=tuple(choice.prompt),
            sampling=Sampling(
                seed=choice.seed,
                choice=choice.index,
                temperature=float(p.temperature),
                top_k=p.top_k,
                top_p=float(p.top_p),
                min_p=float(p.min_p),
                repetition_penalty=float(p.repetition_penalty),
                presence_penalty=float(p.presence_penalty),
                frequency_penalty=float(p.frequency_penalty),
                logit_bias=p.logit_bias,
                bad_words=self.bad_words(p.bad_words),
                min_tokens=p.min_tokens,
                stop_ids=tuple(sorted(stops)) if p.min_tokens or grammar else (),
                grammar=grammar,
            ),
            max_tokens=p.max_tokens,
            stop_ids=stops,
            logprobs=p.logprobs,
            lookahead=p.speculation,
            prompt_logprobs=p.prompt_logprobs,
        )

    def bad_words(self, words: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Token sequences of words as they stand after a space and elsewhere."""
        found = {
            tuple(self.tokenizer.encode(text, add_special=False))
            for word in words
            for text in (word, " " + word.lstrip())
        }
        return tuple(sorted(found))


def open_intake(
    target: str | Path,
    draft: str | Path | None,
    *,
    cache_dir: str | Path | None,
    hub_cache: str | Path | None,
    options: Mapping[str, Any],
) -> Intake:
    """The intake of a target, whose plan says how to open the engine; no weight is loaded.

    Raises:
        ConfigError, WeightsError: as `resolve`.
    """
    config = EngineConfig.from_options(str(target), None if draft is None else str(draft), **options)
    cache = Path(cache_dir) if cache_dir is not None else Path.home() / ".cache" / "saguaro" / "packed"
    hub = Path(hub_cache) if hub_cache is not None else Path.home() / ".cache" / "huggingface" / "hub"
    plan = resolve(config, cache_dir=str(cache), hub_cache=str(hub))
    checkpoint = open_checkpoint(config.target, hub_cache=hub)
    tokenizer: TextCodec = checkpoint.tokenizer()
    stop_ids = frozenset(checkpoint.config.stop_ids | tokenizer.stop_ids)
    return Intake(tokenizer, plan, vocab=checkpoint.config.vocab, stop_ids=stop_ids)


def error_of(failure: Failure) -> SaguaroError:
    """What a caller is told of a request that ended without a result."""
    return RequestRefused(failure.message) if failure.error == "RequestRefused" else SaguaroError(failure.message)


def merged(first: Delta, second: Delta) -> Delta:
    """Two pieces of one stream as one. The lists of `first` grow, so joining many pieces takes linear time."""
    first.token_ids.extend(second.token_ids)
    first.origins.extend(second.origins)
    first.texts.extend(second.texts)
    if first.logprobs is not None:
        first.logprobs.extend(second.logprobs or [])
    if first.rounds is not None:
        first.rounds.extend(second.rounds or [])
    return replace(first, text=first.text + second.text, finish_reason=second.finish_reason, metrics=second.metrics)


def _as_list(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    if isinstance(prompts, str) or (prompts and isinstance(prompts[0], int)):
        return [prompts]  # type: ignore[list-item]
    return list(prompts)  # type: ignore[arg-type]


def _params_for(
    prompts: list[Prompt], params: SamplingParams | Sequence[SamplingParams] | None
) -> list[SamplingParams]:
    if params is None or isinstance(params, SamplingParams):
        return [params or SamplingParams()] * len(prompts)
    if len(params) != len(prompts):
        raise RequestRefused(
            f"{len(params)} SamplingParams were given for {len(prompts)} prompts; give one, or one each."
        )
    return list(params)
