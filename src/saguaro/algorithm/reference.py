"""Algorithm 1 executed for one sequence over two functions from a prefix to logits: the oracle.

No pages, batches, processes or clocks: the target waits until every branch has all its tokens (lockstep). It has a
sampler, a verifier and an outcome prediction of its own, written apart from the engine's on purpose: the two share
only the hash of `noise.py`, the fan-out policy that is passed in, and the definition of an outcome. Under
`shared_noise` the engine must give these very tokens for any settings of its own; under `rejection` it must when it
runs in lockstep with the same policy.

Comments "line n" are the lines of Algorithm 1 as docs/paper-map.md numbers them. Speculator and verifier take turns
here, so what the paper sends and receives are plain variables. Prefill is round 0: an empty proposal whose outcome is
(0, first token). Must not know: sampling.py, verify.py, outcomes.py. Tests: tests/algorithm/test_reference.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from saguaro.algorithm.fan_out.base import FanOutPolicy
from saguaro.algorithm.fan_out.none import NoBranches
from saguaro.algorithm.noise import Purpose, draw_bits, hash_tokens, row_key
from saguaro.algorithm.terms import Outcome, Source
from saguaro.errors import ConfigError
from saguaro.theory.evidence import assumed

Logits = Callable[[Sequence[int]], Any]  # prefix -> V numbers: a tensor, an array or a list


@dataclass(frozen=True)
class Options:
    """What a run depends on. `lookahead=0` is AR; `fan_out=NoBranches(), fallback="neural"` is SD.

    Args:
        fallback: `none`, `random` or `neural`.
        verification: `shared_noise` or `rejection`.
        saguaro_c: C of Section 4.2; None or 1 leaves the draft's law alone. For `rejection` only.
        acceptance: what the policy is told about acceptance; constant here.
        branches_at_prefill: whether round 0 prepares guesses of the first token.
    """

    lookahead: int = 0
    budget: int = 0
    fan_out: FanOutPolicy = field(default_factory=NoBranches)
    fallback: str = "neural"
    verification: str = "shared_noise"
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    choice: int = 0
    saguaro_c: float | None = None
    acceptance: float = 0.8
    branches_at_prefill: bool = True
    max_tokens: int = 16
    stop_token_ids: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.fallback not in ("none", "random", "neural") or self.verification not in ("shared_noise", "rejection"):
            raise ConfigError("the reference knows the fallbacks none, random, neural and both verifications.")


@dataclass(frozen=True)
class Round:
    """One verification: what was proposed, where it came from, what came out. Prefill is not among them."""

    source: Source
    tokens: tuple[int, ...]
    outcome: Outcome


@dataclass(frozen=True)
class Result:
    """`token_ids` ends with the stop id, or after `max_tokens`; then 1 + the tokens of all rounds, cut there."""

    token_ids: list[int]
    rounds: list[Round]

    @property
    def hits(self) -> int:
        """Rounds whose proposal came from the cache."""
        return sum(one.source == "hit" for one in self.rounds)


@dataclass(frozen=True)
class Speculation:
    """Drafted tokens, and under `rejection` the law each was drawn from (entry i for token i)."""

    source: Source = "none"
    branch: Outcome | None = None
    tokens: tuple[int, ...] = ()
    laws: tuple[np.ndarray, ...] = ()


class KeyedDraws:
    """The random choices of `rejection`, each from a key of its own. Replaced where every choice is enumerated."""

    def __init__(self, seed: int, choice: int) -> None:
        self._seed, self._choice = seed, choice

    def number(self, *, position: int, round_number: int, branch: Outcome | None, purpose: Purpose) -> float:
        """The number in (0, 1) of this key."""
        bits = draw_bits(
            self._seed, self._choice, position=position, round_number=round_number, branch=branch, purpose=purpose
        )
        return ((bits >> 12) + 0.5) / 2**52

    def accepts(self, p: float, q: float, **key: Any) -> bool:
        """True with probability min(1, p / q)."""
        return p > 0 and (p >= q or self.number(**key) * q < p)

    def pick(self, law_V: np.ndarray, **key: Any) -> int:
        """A token from the law: the first whose cumulative probability exceeds the number."""
        aim, reached, last = self.number(**key) * float(law_V.sum()), 0.0, 0
        for token, mass in enumerate(law_V.tolist()):
            reached += mass
            if mass > 0:
                last = token
                if reached > aim:
                    break
        return last


def decode(
    target_logits: Logits,
    draft_logits: Logits | None,
    prompt: Sequence[int],
    *,
    options: Options,
    draws: KeyedDraws | None = None,
) -> Result:
    """Generate from `prompt` by speculative speculative decoding.

    Args:
        target_logits: prefix to V logits.
        draft_logits: the same for the draft; None when lookahead is 0.
        prompt: at least one token.
        options: everything else that the result depends on.
        draws: replaces the keyed draws of `rejection`.
    """
    run = _Run(target_logits, draft_logits or target_logits, options, draws or KeyedDraws(options.seed, options.choice))
    prefix, generated, rounds = list(prompt), list[int](), list[Round]()  # lines 1, 4, 6 and 14
    spec, round_number = Speculation(), 0  # line 15, as round 0
    while True:  # lines 7 and 16
        outcomes = run.predict_outcomes(prefix, spec, round_number)  # line 18
        cache = {}  # line 19
        for v in outcomes:
            cache[v] = run.speculate([*prefix, *spec.tokens[: v.accepted], v.bonus], round_number + 1, v)
        outcome = run.verify(prefix, spec, round_number)  # lines 5, 8, 13 and 17
        if round_number > 0:
            rounds.append(Round(spec.source, spec.tokens, outcome))
        for token in (*spec.tokens[: outcome.accepted], outcome.bonus):  # line 9
            prefix.append(token)
            generated.append(token)
            if token in options.stop_token_ids or len(generated) == options.max_tokens:  # lines 11 and 21
                return Result(generated, rounds)  # lines 2, 3, 12 and 22
        round_number += 1
        if outcome in cache:  # lines 10, 20 and 23
            spec = cache[outcome]  # line 24
        else:
            spec = run.fall_back(prefix, round_number)  # lines 25 and 26


class _Run:
    """One generation: the two models, the options and the draws, with a function for each verb of Algorithm 1."""

    def __init__(self, target: Logits, draft: Logits, options: Options, draws: KeyedDraws) -> None:
        self._target, self._draft, self._options, self._draws = target, draft, options, draws
        self._shared = options.verification == "shared_noise"

    def predict_outcomes(self, prefix: list[int], spec: Speculation, round_number: int) -> list[Outcome]:
        """Section 4.1: after each number k of accepted tokens the F_k best guesses, the sent token excluded."""
        if self._options.lookahead == 0 or (round_number == 0 and not self._options.branches_at_prefill):
            return []
        outcomes = []
        for k, count in enumerate(self._counts(len(spec.tokens), spec.source == "hit" or round_number == 0)):
            ranking = self._ranking([*prefix, *spec.tokens[:k]]) if count else []
            guesses = [t for t in ranking if k == len(spec.tokens) or t != spec.tokens[k]]
            outcomes += [Outcome(k, token) for token in guesses[:count]]
        return outcomes

    def speculate(self, prefix: list[int], round_number: int, branch: Outcome | None) -> Speculation:
        """Draw K tokens one after another from the draft, for an outcome (a branch) or after a miss."""
        tokens: list[int] = []
        laws: list[np.ndarray] = []
        counts = self._counts(self._options.lookahead, branch is not None)
        for i in range(self._options.lookahead):
            here = [*prefix, *tokens]
            scores_V = self._scores(self._draft, here)
            if self._shared:
                tokens.append(self._noisy_best(scores_V, len(here)))
                continue
            laws.append(self._saguaro(_law(scores_V, self._options.temperature), counts[i]))
            key: dict[str, Any] = {"position": len(here), "round_number": round_number, "branch": branch}
            tokens.append(self._draws.pick(laws[-1], purpose="draft", **key))
        return Speculation("neural" if branch is None else "hit", branch, tuple(tokens), tuple(laws))

    def fall_back(self, prefix: list[int], round_number: int) -> Speculation:
        """Section 4.3: the answer to a miss."""
        if self._options.lookahead == 0 or self._options.fallback == "none":
            return Speculation()
        if self._options.fallback == "neural":
            return self.speculate(prefix, round_number, None)
        vocab = len(_array(self._target(prefix)))
        same_V = np.full(vocab, 1 / vocab)
        key: dict[str, Any] = {"round_number": round_number, "branch": None, "purpose": "draft"}
        positions = range(len(prefix), len(prefix) + self._options.lookahead)
        tokens = tuple(self._draws.pick(same_V, position=position, **key) for position in positions)
        return Speculation("random", None, tokens, (same_V,) * len(tokens))

    def verify(self, prefix: list[int], spec: Speculation, round_number: int) -> Outcome:
        """One token after another: accept it, or stop there; then the bonus token."""
        for k, token in enumerate(spec.tokens):
            here = [*prefix, *spec.tokens[:k]]
            scores_V = self._scores(self._target, here)
            if self._shared:
                own = self._noisy_best(scores_V, len(here))
                if own != token:
                    return Outcome(k, own)
                continue
            p_V, q_V = _law(scores_V, self._options.temperature), spec.laws[k]
            key: dict[str, Any] = {"position": len(here), "round_number": round_number, "branch": spec.branch}
            if not self._draws.accepts(float(p_V[token]), float(q_V[token]), purpose="accept", **key):
                rest_V = np.maximum(p_V - q_V, 0)
                rest_V = rest_V if rest_V.sum() > 0 else p_V
                return Outcome(k, self._draws.pick(rest_V, purpose="residual", **key))
        here = [*prefix, *spec.tokens]
        scores_V = self._scores(self._target, here)
        if self._shared:
            return Outcome(len(spec.tokens), self._noisy_best(scores_V, len(here)))
        key = {"position": len(here), "round_number": round_number, "branch": spec.branch}
        p_V = _law(scores_V, self._options.temperature)
        return Outcome(len(spec.tokens), self._draws.pick(p_V, purpose="residual", **key))

    def _counts(self, lookahead: int, last_hit: bool) -> Sequence[int]:
        options = self._options
        return options.fan_out.counts(lookahead, options.budget, assumed(options.acceptance), after_hit=last_hit)

    def _ranking(self, prefix: list[int]) -> list[int]:
        """All ids, likeliest bonus token first: by noisy scores when the noise is shared, else by logits."""
        scores_V = _array(self._draft(prefix))
        if self._shared and self._options.temperature > 0:
            scores_V = (scores_V - scores_V.max()) / self._options.temperature + self._noise(len(scores_V), len(prefix))
        order: list[int] = np.argsort(-scores_V, kind="stable").tolist()
        return order

    def _scores(self, model: Logits, prefix: list[int]) -> np.ndarray:
        """Logits / T, then top-k, then top-p, by sorting everything."""
        options = self._options
        scores_V: np.ndarray = _array(model(prefix))
        if options.temperature == 0:
            return scores_V
        scores_V = ((scores_V - scores_V.max()) / scores_V.dtype.type(options.temperature)).astype(scores_V.dtype)
        if options.top_k:
            order = np.argsort(-scores_V, kind="stable")
            scores_V[order[options.top_k :]] = -np.inf
        if options.top_p < 1:
            order = np.argsort(-scores_V, kind="stable")
            weights = np.exp(scores_V[order], dtype=np.float64)
            before = np.cumsum(weights) - weights
            scores_V[order[before >= options.top_p * weights.sum()]] = -np.inf
        return scores_V

    def _noisy_best(self, scores_V: np.ndarray, position: int) -> int:
        if self._options.temperature > 0:
            scores_V = scores_V + self._noise(len(scores_V), position)
        return int(np.argmax(scores_V))

    def _noise(self, vocab: int, position: int) -> np.ndarray:
        """-log E with E = -log(1 - u), u = (hash + 1/2) / 2^32, for the token at an absolute position."""
        key = row_key(self._options.seed, self._options.choice, position)
        words = hash_tokens(key, torch.arange(vocab)).numpy().astype(np.float32)
        u = ((words + np.float32(0.5)) * np.float32(2.0**-32)).astype(np.float64)
        with np.errstate(divide="ignore"):
            return -np.log(-np.log1p(-u)).astype(np.float32)

    def _saguaro(self, q_V: np.ndarray, count: int) -> np.ndarray:
        """sigma_{F,C}: the `count` likeliest tokens are weighted by C, unless nothing else has mass."""
        c = 1.0 if self._options.saguaro_c is None else self._options.saguaro_c
        top = np.argsort(-q_V, kind="stable")[:count]
        if c == 1 or np.count_nonzero(np.delete(q_V, top)) == 0:
            return q_V
        scaled_V = q_V.copy()
        scaled_V[top] *= c
        scaled_V /= scaled_V.sum()
        return scaled_V


def _array(logits: Any) -> np.ndarray:
    """The logits as a fresh array: float64 stays, everything else becomes float32."""
    if isinstance(logits, torch.Tensor):
        return (logits if logits.dtype == torch.float64 else logits.float()).detach().numpy().copy()
    values = np.asarray(logits)
    return values.copy() if values.dtype == np.float64 else values.astype(np.float32)


def _law(scores_V: np.ndarray, temperature: float) -> np.ndarray:
    """The law that scores stand for: softmax, or all mass on the best token at temperature 0."""
    if temperature == 0:
        only_V = np.zeros_like(scores_V)
        only_V[int(np.argmax(scores_V))] = 1
        return only_V
    p_V: np.ndarray = np.exp(scores_V - scores_V.max())
    p_V /= p_V.sum()
    return p_V
