"""`LLM`: prompts in, text out. The synchronous face of the engine (DESIGN section 5).

    from saguaro import LLM, SamplingParams
    with LLM("target", draft="draft") as llm:
        print(llm.generate("Hello", SamplingParams(temperature=0, max_tokens=32))[0].text)

Text lives here: encoding, chat templates, detokenising, stop strings; the engine sees token ids only. Tests:
tests/llm/.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from saguaro.algorithm.options import Sampling
from saguaro.config import EngineConfig
from saguaro.engine.engine import Engine, open_engine
from saguaro.engine.resolve import resolve
from saguaro.engine.sequence import RoundReport, Submission
from saguaro.engine.target import Failure
from saguaro.errors import RequestRefused, SaguaroError
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.grammar import Grammars, grammar_text
from saguaro.models.text import Detokeniser, StopStrings
from saguaro.models.tokenizer import TextCodec
from saguaro.request import Completion, Delta, FinishReason, RequestMetrics, SamplingParams, TokenLogprob

Prompt = str | Sequence[int]
POLL_SECONDS = 1.0


@dataclass
class _Choice:
    """One request under way: its text so far and its counters."""

    index: int
    prompt: list[int]
    params: SamplingParams
    seed: int
    detokeniser: Detokeniser
    stops: StopStrings
    submitted: float = field(default_factory=time.monotonic)
    first_token: float = 0.0
    tokens: list[int] = field(default_factory=list)
    origins: list[str] = field(default_factory=list)
    text: str = ""
    logprobs: list[TokenLogprob] = field(default_factory=list)
    metrics: RequestMetrics = field(default_factory=RequestMetrics)
    finish: FinishReason | None = None

    def add(self, report: RoundReport, *, speculating: bool) -> Delta:
        """Take one round's tokens, up to the one that completes a stop string."""
        kept: list[int] = []
        shown = ""
        for token in report.tokens:
            kept.append(token)
            text, stopped = self.stops.push(self.detokeniser.push([token]))
            shown += text
            if stopped:
                self.finish = "stop"
                break
        if self.finish is None and report.finish is not None:
            self.finish = "stop" if report.finish == "stop" else "length"
        if self.finish is not None and not self.stops.stopped:
            text, stopped = self.stops.push(self.detokeniser.finish())
            shown += text + self.stops.finish()
        origins = self._origins(report, len(kept))
        self.tokens += kept
        self.origins += origins
        logprobs = None if report.logprobs is None else report.logprobs[: len(kept)]
        self.logprobs += logprobs or []
        self.text += shown
        self._count(report, len(kept), speculating=speculating)
        return Delta(shown, kept, self.finish, origins, self.metrics if self.finish else None, logprobs)

    @staticmethod
    def _origins(report: RoundReport, count: int) -> list[str]:
        if report.source == "prefill":
            return ["prefill"] * count
        accepted = report.source if report.source in ("hit", "forced") else "fallback"
        return [accepted if i < report.accepted else "bonus" for i in range(count)]

    def _count(self, report: RoundReport, kept: int, *, speculating: bool) -> None:
        m = self.metrics
        if report.source == "prefill":
            self.first_token = report.time
            m.time_to_first_token = report.time - self.submitted
            m.prefill_tokens, m.prefill_seconds = len(self.prompt), report.verify_seconds
            return
        m.rounds += 1
        m.round_tokens.append(kept)
        m.round_seconds.append(report.time - self.first_token - m.decode_seconds)
        m.decode_seconds = report.time - self.first_token
        m.drafted += report.proposed
        m.accepted += kept - 1
        tried = min(report.accepted + 1, report.proposed)
        m.verified += tried
        for counts, upto in ((m.accepted_per_position, report.accepted), (m.verified_per_position, tried)):
            counts.extend([0] * (upto - len(counts)))
            for position in range(upto):
                counts[position] += 1
        m.target_wait_seconds += report.wait_seconds
        m.verify_seconds += report.verify_seconds
        m.draw_seconds += report.draw_seconds
        if speculating:
            m.hits += report.source == "hit"
            m.misses += report.source != "hit"
            m.hit_depth_sum += report.depth if report.source == "hit" else 0

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
        )


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
        config = EngineConfig.from_options(str(target), None if draft is None else str(draft), **options)
        cache = Path(cache_dir) if cache_dir is not None else Path.home() / ".cache" / "saguaro" / "packed"
        hub = Path(hub_cache) if hub_cache is not None else Path.home() / ".cache" / "huggingface" / "hub"
        plan = resolve(config, cache_dir=str(cache), hub_cache=str(hub))
        checkpoint = open_checkpoint(config.target, hub_cache=hub)
        self.tokenizer: TextCodec = checkpoint.tokenizer()
        self._stop_ids = frozenset(checkpoint.config.stop_ids | self.tokenizer.stop_ids)
        self._vocab = checkpoint.config.vocab
        self._grammars = Grammars(lambda: self.tokenizer, self._vocab, self._stop_ids)
        self._numbers = itertools.count(1)
        self._engine: Engine | None = open_engine(plan)

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
        several = _as_list(prompts)
        each = _params_for(several, params)
        choices = [choice for prompt, p in zip(several, each, strict=True) for choice in self._choices(prompt, p)]
        for _ in self._run(choices):
            pass
        return [choice.completion() for choice in choices]

    def stream(self, prompt: Prompt, params: SamplingParams | None = None) -> Iterator[Delta]:
        """Complete one prompt, piece by piece as rounds end. Leaving the loop early ends the request."""
        for _, delta in self._run(self._choices(prompt, _single(params))):
            yield delta

    def chat(self, messages: Sequence[Mapping[str, Any]], params: SamplingParams | None = None) -> Completion:
        """Answer a conversation, rendered by the target's chat template."""
        return self.generate(self.chat_prompt(messages), _single(params))[0]

    def chat_prompt(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Token ids of a rendered conversation with the generation prompt; BOS exactly once."""
        return list(self.tokenizer.encode_chat([dict(m) for m in messages]))

    def _choices(self, prompt: Prompt, params: SamplingParams) -> list[_Choice]:
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        limit = self._open.plan.max_model_len
        if not ids:
            raise RequestRefused("the prompt is empty; give at least one token.")
        if len(ids) >= limit:
            raise RequestRefused(
                f"the prompt has {len(ids)} tokens; with max_model_len {limit} at most {limit - 1} fit."
            )
        if any(not 0 <= token < self._vocab for token in ids):
            raise RequestRefused(f"the prompt holds a token id outside 0 ... {self._vocab - 1}.")
        if any(token >= self._vocab for token, _ in params.logit_bias):
            raise RequestRefused(f"logit_bias names a token id above {self._vocab - 1}.")
        if params.constrained:
            self._grammars.compile(grammar_text(params))
        seed = secrets.randbits(64) if params.seed is None else params.seed % 2**64
        return [
            _Choice(index, list(ids), params, seed, Detokeniser(self.tokenizer), StopStrings(params.stop))
            for index in range(params.n)
        ]

    def _run(self, choices: Sequence[_Choice]) -> Iterator[tuple[_Choice, Delta]]:
        """Submit choices and yield their pieces until all have ended."""
        engine = self._open
        speculating = engine.plan.mode == "ssd"
        open_: dict[int, _Choice] = {}
        try:
            for choice in choices:
                number = next(self._numbers)
                open_[number] = choice
                choice.submitted = time.monotonic()
                engine.submit(self._submission(number, choice))
            while open_:
                for event in engine.poll(POLL_SECONDS):
                    if isinstance(event, Failure):
                        if event.request in open_:
                            raise (
                                RequestRefused(event.message)
                                if event.error == "RequestRefused"
                                else SaguaroError(event.message)
                            )
                        continue
                    number, report = event
                    choice_ = open_.get(number)
                    if choice_ is None:
                        continue
                    delta = choice_.add(report, speculating=speculating and choice_.params.speculation != 0)
                    if choice_.finish is not None:
                        del open_[number]
                        if report.finish is None:
                            engine.abort(number)
                    yield choice_, delta
        finally:
            if self._engine is not None:
                for number in open_:
                    self._engine.abort(number)

    def _submission(self, number: int, choice: _Choice) -> Submission:
        p = choice.params
        stops = frozenset(p.stop_token_ids) | (frozenset() if p.ignore_eos else self._stop_ids)
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
                bad_words=self._bad_words(p.bad_words),
                min_tokens=p.min_tokens,
                stop_ids=tuple(sorted(stops)) if p.min_tokens or grammar else (),
                grammar=grammar,
            ),
            max_tokens=p.max_tokens,
            stop_ids=stops,
            logprobs=p.logprobs,
            lookahead=p.speculation,
        )

    def _bad_words(self, words: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Token sequences of words as they stand after a space and elsewhere."""
        found = {
            tuple(self.tokenizer.encode(text, add_special=False))
            for word in words
            for text in (word, " " + word.lstrip())
        }
        return tuple(sorted(found))

    # -- the engine -----------------------------------------------------------------------------------------------

    @property
    def _open(self) -> Engine:
        if self._engine is None:
            raise SaguaroError("this LLM is closed; make a new one.")
        return self._engine

    @property
    def mode(self) -> str:
        """`ar`, `sd` or `ssd`."""
        return self._open.plan.mode

    def configure(self, **changes: Any) -> None:
        """Change lookahead, budget, fan_out, fallback or pacing between rounds."""
        self._open.configure(**changes)

    def statistics(self) -> dict[str, Any]:
        """The resolved plan, measured step times, running estimates, waiting times and warnings."""
        return self._open.statistics()

    def close(self) -> None:
        """End the workers. The object cannot be used afterwards; closing twice is fine."""
        if self._engine is not None:
            engine, self._engine = self._engine, None
            engine.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _single(params: SamplingParams | None) -> SamplingParams:
    """Parameters of a call that returns one text."""
    params = params or SamplingParams()
    if params.n != 1:
        raise RequestRefused(f"this call returns one text, and n is {params.n}; use generate, or n=1.")
    return params


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
