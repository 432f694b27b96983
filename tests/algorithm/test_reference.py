"""The oracle itself: exact by enumeration, and equal to the functions that the engine is made of."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saguaro.algorithm import ranking, sampling
from saguaro.algorithm.cache import SpeculationCache
from saguaro.algorithm.fallbacks import propose_nothing, propose_random
from saguaro.algorithm.fan_out import open_fan_out
from saguaro.algorithm.noise import gumbel, row_key
from saguaro.algorithm.outcomes import candidates_needed, predict
from saguaro.algorithm.reference import KeyedDraws, Options, decode
from saguaro.algorithm.saguaro_sampling import scale
from saguaro.algorithm.terms import NOTHING, DenseLaw, Outcome, Proposal
from saguaro.algorithm.verify import rejection_uniforms, verify_rejection, verify_shared_noise
from saguaro.errors import ConfigError
from saguaro.theory.evidence import assumed


def model(vocab, seed, *, sharpness=2.0, like=None, share=0.0):
    """Logits as a function of the whole prefix; `like` mixes another model in."""
    known = {}

    def logits(prefix):
        key = tuple(prefix)
        if key not in known:
            state = seed
            for token in key:
                state = (state * 1_000_003 + token + 1) % 2**63
            row = sharpness * torch.randn(vocab, generator=torch.Generator().manual_seed(state), dtype=torch.float64)
            known[key] = row if like is None else share * torch.as_tensor(like(prefix)) + (1 - share) * row
        return known[key]

    return logits


TARGET = model(16, 1)
DRAFT = model(16, 2, like=TARGET, share=0.6)


def run(**changes):
    options = {
        "lookahead": 3,
        "budget": 6,
        "fan_out": open_fan_out("geometric"),
        "max_tokens": 24,
        "seed": 0,
        **changes,
    }
    draft = None if options["lookahead"] == 0 else DRAFT
    return decode(TARGET, draft, [3, 1, 4], options=Options(**options))


def alone(**changes):
    return run(lookahead=0, **changes).token_ids


factors = list(itertools.product(["none", "uniform", "geometric", [1, 0, 0, 2]], ["none", "random", "neural"]))


@pytest.mark.parametrize(("policy", "fallback"), factors)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_shared_noise_equals_the_target_alone(policy, fallback, temperature):
    changes = {"temperature": temperature, "top_k": 9, "top_p": 0.95}
    result = run(fan_out=open_fan_out(policy), fallback=fallback, **changes)
    assert result.token_ids == alone(**changes)
    assert len(result.token_ids) <= 1 + sum(r.outcome.accepted + 1 for r in result.rounds)


def test_rejection_at_temperature_0_equals_the_target_alone():
    for fallback in ("none", "random", "neural"):
        assert run(verification="rejection", fallback=fallback, temperature=0.0).token_ids == alone(temperature=0.0)


def test_the_run_has_hits_misses_and_both_kinds_of_outcome():
    result = run()
    assert {r.source for r in result.rounds} == {"hit", "neural"}
    assert {r.outcome.accepted for r in result.rounds} >= {0, 3}
    assert 0 < result.hits < len(result.rounds)


def test_sd_and_ar_are_settings():
    sd = run(fan_out=open_fan_out("none"))
    assert {r.source for r in sd.rounds} == {"neural"}
    ar = run(lookahead=0)
    assert all(r.tokens == () and r.outcome.accepted == 0 for r in ar.rounds)
    assert len(ar.rounds) == 23
    assert sd.token_ids == ar.token_ids


def test_a_draft_equal_to_the_target_is_always_accepted():
    for verification in ("shared_noise", "rejection"):
        options = Options(lookahead=4, budget=5, max_tokens=26, verification=verification, seed=3)
        result = decode(TARGET, TARGET, [1], options=options)
        assert [r.outcome.accepted for r in result.rounds] == [4] * 5


def test_stop_ids_end_it_also_inside_a_proposal():
    whole = run(temperature=0.7).token_ids
    stop = whole[10]
    first = whole.index(stop)
    assert run(temperature=0.7, stop_token_ids=frozenset({stop})).token_ids == whole[: first + 1]


def test_seeds_and_choices_differ():
    first = run().token_ids
    assert run().token_ids == first
    assert run(seed=6).token_ids != first
    assert run(choice=1).token_ids != first


def test_unknown_settings_are_refused():
    with pytest.raises(ConfigError):
        Options(fallback="own_row")


class Enumerated(KeyedDraws):
    """Follows one path of choices; `weights` says how likely it is, `counts` how many ways each choice had."""

    def __init__(self, script):
        super().__init__(0, 0)
        self.script, self.trail, self.weight = script, [], 1.0

    def choose(self, masses):
        ways = [way for way, mass in enumerate(masses) if mass > 0]
        index = self.script[len(self.trail)] if len(self.trail) < len(self.script) else 0
        self.trail.append((index, len(ways)))
        self.weight *= masses[ways[index]] / sum(masses)
        return ways[index]

    def accepts(self, p, q, **key):
        rate = min(1.0, p / q)
        return self.choose([1 - rate, rate]) == 1

    def pick(self, law_V, **key):
        return self.choose(law_V.tolist())


def law_of_paths(tokens_of):
    """The law of what `tokens_of` (draws to tokens) gives, over every path of its choices, by depth-first replay; and
    how many paths there are.
    """
    found, script, paths = {}, [], 0
    while True:
        draws = Enumerated(script)
        tokens = tuple(tokens_of(draws))
        found[tokens] = found.get(tokens, 0.0) + draws.weight
        paths += 1
        trail = draws.trail
        while trail and trail[-1][0] + 1 == trail[-1][1]:
            trail.pop()
        if not trail:
            return found, paths
        script = [index for index, _ in trail[:-1]] + [trail[-1][0] + 1]


def law_of_tokens(target, draft, options):
    """Algorithm 1, all branches of the cache drawn."""
    return law_of_paths(lambda draws: decode(target, draft, [0], options=options, draws=draws).token_ids)


@pytest.mark.parametrize(
    ("lookahead", "counts", "fallback", "c"),
    [
        (1, (1, 1), "neural", None),
        (1, (1, 1), "random", 0.3),
        (1, (0, 1), "none", 0.5),
        (2, (1, 0, 0), "neural", 0.2),
        (2, (0, 0, 1), "random", None),
    ],
)
def test_rejection_is_lossless_over_every_path(lookahead, counts, fallback, c):
    target, draft = model(2, 11, sharpness=1.0), model(2, 12, sharpness=1.0)
    options = Options(
        lookahead=lookahead,
        budget=2,
        fan_out=open_fan_out(counts),
        fallback=fallback,
        verification="rejection",
        saguaro_c=c,
        max_tokens=5 - lookahead,
    )
    found, paths = law_of_tokens(target, draft, options)
    assert paths > 100
    for tokens in itertools.product(range(2), repeat=5 - lookahead):
        exact = math.prod(float(torch.softmax(target([0, *tokens[:i]]), 0)[t]) for i, t in enumerate(tokens))
        assert found.get(tokens, 0.0) == pytest.approx(exact, abs=1e-12)


def test_no_number_is_used_twice():
    class Watching(KeyedDraws):
        def number(self, **key):
            keys.append(tuple(sorted(key.items(), key=str)))
            return super().number(**key)

    for fallback in ("random", "neural"):
        keys = []
        options = Options(
            lookahead=3, budget=8, fan_out=open_fan_out("geometric"), fallback=fallback, verification="rejection",
            saguaro_c=0.5, max_tokens=40,
        )  # fmt: skip
        decode(TARGET, DRAFT, [2], options=options, draws=Watching(1, 0))
        assert len(keys) > 200
        assert len(set(keys)) == len(keys)


class EngineFunctions:
    """One sequence run by sampling, verify, outcomes, cache and fallbacks: the functions of the real engine."""

    def __init__(self, options):
        self.o = options
        self.filters = (options.temperature, options.top_k, options.top_p)

    def rows(self, logits, prefix, tokens):
        return torch.stack([torch.as_tensor(logits([*prefix, *tokens[:i]])) for i in range(len(tokens) + 1)]).float()

    def draw(self, logits_RV, position):
        keys = [row_key(self.o.seed, self.o.choice, position + i) for i in range(len(logits_RV))]
        return sampling.draw_shared_noise(logits_RV, *self.filters, keys=keys)

    def counts(self, depth, last_hit):
        o = self.o
        return o.fan_out.counts(depth, o.budget, assumed(o.acceptance), after_hit=last_hit)

    def speculate(self, prefix, round_number, branch):
        tokens, laws = [], []
        counts = self.counts(self.o.lookahead, branch is not None)
        for i in range(self.o.lookahead):
            logits_RV = self.rows(DRAFT, [*prefix, *tokens], [])
            position = len(prefix) + i
            if self.o.verification == "shared_noise":
                tokens += self.draw(logits_RV, position)
                continue
            laws.append(scale(sampling.law(logits_RV, *self.filters), counts[i], self.o.saguaro_c or 1.0))
            key = {"position": position, "round_number": round_number, "branch": branch, "purpose": "draft"}
            tokens += sampling.draw_from_law(laws[-1], [sampling.uniform(self.o.seed, self.o.choice, **key)])
        return Proposal(tuple(tokens), DenseLaw(torch.cat(laws)) if laws else None)

    def fill(self, cache, prefix, proposal, last_hit, round_number):
        logits_JV = self.rows(DRAFT, prefix, proposal.tokens)
        if self.o.verification == "shared_noise" and self.o.temperature > 0:
            for i, row_V in enumerate(logits_JV):
                noise_V = gumbel(row_key(self.o.seed, self.o.choice, len(prefix) + i), len(row_V))
                row_V.sub_(row_V.max()).div_(self.o.temperature).add_(noise_V)
        counts = self.counts(proposal.depth, last_hit)
        candidates = ranking.top_ids(logits_JV, candidates_needed(counts))
        for outcome in predict(candidates, proposal.tokens, counts):
            here = [*prefix, *proposal.tokens[: outcome.accepted], outcome.bonus]
            cache.write(outcome, self.speculate(here, round_number + 1, outcome))

    def verify(self, prefix, proposal, round_number, branch):
        logits_JV = self.rows(TARGET, prefix, proposal.tokens)
        if self.o.verification == "shared_noise":
            return verify_shared_noise(self.draw(logits_JV, len(prefix)), proposal.tokens)
        accept, rest = rejection_uniforms(
            self.o.seed, self.o.choice,
            position=len(prefix), round_number=round_number, branch=branch, depth=proposal.depth,
        )  # fmt: skip
        p_JV = sampling.law(logits_JV, *self.filters)
        return verify_rejection(p_JV, proposal, accept_uniforms=accept, residual_uniforms=rest)

    def fall_back(self, prefix, round_number):
        if self.o.fallback == "neural":
            return self.speculate(prefix, round_number, None)
        if self.o.fallback == "none":
            return propose_nothing()
        where = {"position": len(prefix), "round_number": round_number}
        return propose_random(self.o.seed, self.o.choice, depth=self.o.lookahead, vocab=16, **where)

    def decode(self, prompt):
        prefix, proposal, branch, hit, sources, outcomes = list(prompt), NOTHING, None, True, [], []
        for round_number in itertools.count():
            cache = SpeculationCache()
            self.fill(cache, prefix, proposal, hit, round_number)
            outcome = self.verify(prefix, proposal, round_number, branch)
            prefix += [*proposal.tokens[: outcome.accepted], outcome.bonus]
            outcomes.append(outcome)
            if len(prefix) >= len(prompt) + self.o.max_tokens:
                return prefix[len(prompt) : len(prompt) + self.o.max_tokens], sources, outcomes[1:]
            found = cache.look_up(outcome)
            hit, branch = found is not None, outcome if found else None
            proposal = found or self.fall_back(prefix, round_number + 1)
            sources.append("hit" if hit else self.o.fallback)


settings_of_runs = st.fixed_dictionaries(
    {
        "lookahead": st.integers(1, 4),
        "budget": st.integers(0, 8),
        "fan_out": st.sampled_from(["none", "uniform", "geometric", (2, 0, 1)]).map(open_fan_out),
        "fallback": st.sampled_from(["none", "random", "neural"]),
        "verification": st.sampled_from(["shared_noise", "rejection"]),
        "temperature": st.sampled_from([0.0, 0.6, 1.0, 1.8]),
        "top_k": st.sampled_from([0, 0, 1, 5]),
        "top_p": st.sampled_from([1.0, 1.0, 0.9, 0.5]),
        "saguaro_c": st.sampled_from([None, 0.4, 0.0001]),
        "seed": st.integers(-(2**63), 2**64 - 1),
    }
)


@given(settings_of_runs)
@settings(max_examples=40)
def test_the_engines_functions_give_the_same_run(changes):
    """Tokens, outcomes and hits, token for token, under both verifications: two separately written samplers agree."""
    options = Options(max_tokens=14, **changes)
    result = decode(as_float32(TARGET), as_float32(DRAFT), [3, 1, 4], options=options)
    tokens, sources, outcomes = EngineFunctions(options).decode([3, 1, 4])
    assert result.token_ids == tokens
    assert [r.source for r in result.rounds] == sources
    assert [r.outcome for r in result.rounds] == outcomes


def as_float32(logits):
    return lambda prefix: torch.as_tensor(logits(prefix)).float()


def test_outcomes_of_rounds_account_for_every_token():
    result = run(max_tokens=25)
    whole = [t for r in result.rounds for t in (*r.tokens[: r.outcome.accepted], r.outcome.bonus)]
    assert result.token_ids == [result.token_ids[0], *whole][:25]
    assert all(isinstance(r.outcome, Outcome) for r in result.rounds)
