"""One request on the target's side: its tokens, its pages, the proposal that its next round verifies.

`commit` is the only way tokens are added; a sampled token is committed, or it never existed. Must not know: models,
channels, the draft. Tests: tests/engine/test_sequence.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter

from saguaro.algorithm.options import Sampling
from saguaro.algorithm.proposal_tree import ProposalTree
from saguaro.algorithm.suffix_index import SuffixIndex
from saguaro.algorithm.terms import DraftLaw
from saguaro.engine.misses import NO_LOOKUP, Lookup
from saguaro.execution.sampler import Draw
from saguaro.models.grammar import Follower
from saguaro.paging import PageTable
from saguaro.request import TokenLogprob
from saguaro.transport.base import Key


@dataclass(frozen=True, slots=True)
class Submission:
    """A request as the workers see it: token ids and numbers only. `stop_ids` end the generation.

    `lookahead` is the most tokens that may be proposed at a time; None leaves it to the engine.
    """

    request: int
    prompt: tuple[int, ...]
    sampling: Sampling
    max_tokens: int
    stop_ids: frozenset[int]
    logprobs: int | None = None
    lookahead: int | None = None
    prompt_logprobs: int | None = None


@dataclass(slots=True)
class Proposed:
    """The proposal of the next round: tokens, where they came from, and how deep the entry was that gave them.

    The first `forced` of them are the only ones that a grammar allows; `grade` tells kinds within a source apart.
    `lookup` is the look-up before it, `waits` the parts of `wait_seconds`: for depth, for a pending proposal, for
    handing over. With a `tree` the tokens are its nodes, and `node` is the one where its verification ended.
    """

    tokens: tuple[int, ...] = ()
    source: str = "none"
    depth: int = 0
    law: DraftLaw | None = None
    wait_seconds: float = 0.0
    pending: bool = False
    forced: int = 0
    lookup: Lookup = NO_LOOKUP
    waits: tuple[float, float, float] = (0.0, 0.0, 0.0)
    grade: int = 0
    tree: ProposalTree | None = None
    node: int = 0

    @property
    def parents(self) -> tuple[int, ...]:
        """Those of a tree's tokens; none of a chain's."""
        return () if self.tree is None else self.tree.parents

    @property
    def beside_trunk(self) -> bool:
        """Whether the verification ended at a node beside the trunk."""
        return self.tree is not None and self.node > self.tree.trunk

    def rejected(self, node: int) -> tuple[int, ...]:
        """What the chain, or the trunk, had from the first token that was rejected on; `node` as in an outcome."""
        if self.tree is None:
            return self.tokens[node:]
        return self.tokens[node : self.tree.trunk] if node <= self.tree.trunk else ()

    @property
    def levels(self) -> int:
        """Tokens that may be accepted at most."""
        return len(self.tokens) if self.tree is None else self.tree.levels

    def tried(self, accepted: int) -> int:
        """Positions at which the target's token was compared with the draft's, when so many tokens were accepted."""
        if self.tree is None:
            return min(accepted + 1, len(self.tokens))
        return accepted + bool(self.tree.children[self.node])

    def on_trunk(self, accepted: int) -> tuple[int, int]:
        """`tried` and `accepted` of the trunk alone."""
        if self.tree is None:
            return self.tried(accepted), accepted
        along = self.tree.along(self.node)
        return min(along + 1, self.tree.trunk), along


@dataclass(slots=True)
class RoundReport:
    """What one round of one row did; the parent adds these up (`counting.py`).

    `lookup` and `waits` are those of the proposal that the round verified, which was a hit or a miss where it was
    `looked` up; `rows` is how many requests its pass ran. `tried` positions were compared with the draft's (None: as
    many as a chain of `proposed` tokens has).
    """

    tokens: list[int]
    proposed: int
    accepted: int
    source: str
    depth: int
    wait_seconds: float
    verify_seconds: float
    draw_seconds: float
    time: float
    finish: str | None = None
    looked: bool = False
    logprobs: list[TokenLogprob] | None = None
    prompt_logprobs: list[TokenLogprob] | None = None
    cached_tokens: int = 0
    preemptions: int = 0
    round: int = 0
    lookup: Lookup = NO_LOOKUP
    waits: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rows: int = 1
    tried: int | None = None

    def __reduce__(self) -> tuple[type[RoundReport], tuple[object, ...]]:
        """Values without their names: a report crosses to the parent every round, in half of the time and bytes."""
        return RoundReport, _values(self)


_values = attrgetter(*(each.name for each in fields(RoundReport)))


@dataclass(slots=True)
class Sequence:
    """A row, waiting or running.

    `kv` counts the leading positions whose keys and values the target holds; in all but the last it is *filling*.
    `row` is its place among the running rows, -1 while it waits. `filed` pages can be found by other rows, `fits`
    tokens of a proposal have room, and a draft at work has seen `drafted` tokens. `grammar` is where its output stands
    in the request's grammar, `failure` why no token could be drawn when none could. `text` is for look-ups, and may lag
    behind `tokens`.
    """

    submission: Submission
    table: PageTable
    max_model_len: int
    row: int = -1
    tokens: list[int] = field(default_factory=list)
    kv: int = 0
    filed: int = 0
    fits: int = 0
    drafted: int = 0
    round: int = 0
    proposed: Proposed = field(default_factory=Proposed)
    admitted: bool = False
    finish: str | None = None
    prefill_seconds: float = 0.0
    cached_tokens: int = 0
    preemptions: int = 0
    prompt_logprobs: list[TokenLogprob] = field(default_factory=list)
    grammar: Follower | None = None
    text: SuffixIndex = field(default_factory=SuffixIndex)
    failure: str = "the model returned a value that is not a number for this request."

    def __post_init__(self) -> None:
        self.tokens = self.tokens or list(self.submission.prompt)

    @property
    def request(self) -> int:
        """The request's number."""
        return self.submission.request

    @property
    def prompt_length(self) -> int:
        """Tokens of the prompt."""
        return len(self.submission.prompt)

    @property
    def prefilled(self) -> bool:
        """Whether the first token has been drawn."""
        return len(self.tokens) > self.prompt_length

    @property
    def filling(self) -> bool:
        """Whether more than the last token has no keys and values yet, or the first token is still to be drawn."""
        return self.kv < len(self.tokens) - 1 or not self.prefilled

    @property
    def reuses_prefix(self) -> bool:
        """Whether known keys and values may be used: log probabilities of a prompt need its logits."""
        return self.submission.prompt_logprobs is None or self.prefilled

    def restart(self) -> None:
        """The pages are gone: compute keys and values again. The next round has a new number, so that nothing that was
        prepared for this one is ever taken.
        """
        self.kv = self.filed = self.fits = self.drafted = 0
        self.proposed = Proposed()
        self.round += 1
        self.preemptions += 1

    @property
    def room(self) -> int:
        """Tokens that may still be generated."""
        generated = len(self.tokens) - self.prompt_length
        return min(self.submission.max_tokens - generated, self.max_model_len - len(self.tokens))

    def limit(self, lookahead: int) -> int:
        """Tokens of the next proposal at most: K, what the request allows, and what there is room for."""
        own = self.submission.lookahead
        return min(lookahead if own is None else min(lookahead, own), self.room - 1, self.fits)

    def forced(self, most: int) -> tuple[int, ...]:
        """The tokens that the grammar makes certain after the committed ones, as far as the request and its room go."""
        return () if self.grammar is None else self.grammar.forced(most=self.limit(most))

    def draws(self) -> list[Draw]:
        """How the tokens of this round are drawn: after the last token, and after each token of the proposal."""
        options, start = self.submission.sampling, len(self.tokens)
        tree, proposed = self.proposed.tree, self.proposed.tokens
        if not options.edited:
            depths = range(len(proposed) + 1) if tree is None else (0, *tree.depths)
            return [Draw(options, start + depth) for depth in depths]
        count = len(proposed) + 1
        tails = [proposed[:j] if tree is None else tree.tokens_to(j) for j in range(count)]
        prompt, output, grammar = self.submission.prompt, self.tokens[self.prompt_length :], self.grammar
        allowed = [None if grammar is None else grammar.allowed(tail) for tail in tails]
        return [
            Draw(options, start + len(tail), prompt, [*output, *tail], one)
            for tail, one in zip(tails, allowed, strict=True)
        ]

    def commit(self, tokens: list[int]) -> list[int]:
        """Append tokens up to the first that ends the request; return those kept and set `finish` if it ended."""
        kept: list[int] = []
        for token in tokens:
            kept.append(token)
            self.tokens.append(token)
            if self.grammar is not None:
                self.grammar.commit((token,))
            if token in self.submission.stop_ids or (self.grammar is not None and self.grammar.over):
                self.finish = "stop"
            elif self.room <= 0:
                self.finish = "length"
            if self.finish is not None:
                break
        return kept

    def key(self, base: int, accepted: int, bonus: int) -> Key:
        """The tag under which the answer to this round's outcome is looked up."""
        return Key(self.request, self.round, base, accepted, bonus)
