"""The draft's view of one row: its tail, the proposal under verification, and a branch for each likely outcome.

Positions, with L = committed length and d = length of the proposal:

    0 ................ L-1 | L ........ L+d-1 | loose slots
    committed (tail pages)   proposal (tail)    each branch: bonus token, then its own tokens

`kv` counts the leading tail positions whose keys and values are right. `ranked[j]` holds the candidates for position
L + j, best first, so ranked[0..d] predict the outcomes (k, t*) of the round (Section 4.1); `after_hit` says whether the
proposal under verification came from the cache, and `guessed` holds what its tokens were drawn from. While the target
waits the row may grow a `tree` in loose slots; the one under verification has the `shape` that the target took of it.
Of a chain with siblings `proposal` is the trunk, and nodes `beside` it run in loose slots.

A draft that reads the target's hidden states (`taps`) has slots one position earlier, and what it ran on its own states
it runs again once the target's are there: `kv` goes back to the committed length of the round before, while `held`
counts the leading positions whose states are there to go on from, right or not yet (the paper's Figure 9). Everything
here is books: no model, no clock, no channel. Tests: tests/engine/test_draft_row.py, tests/engine/test_taps.py.
"""

from __future__ import annotations

import math

import torch

from saguaro.algorithm.odds import Guesses
from saguaro.algorithm.proposal_tree import ProposalTree, shaped
from saguaro.algorithm.suffix_index import SuffixIndex
from saguaro.config import MAX_BUDGET
from saguaro.drafting.drawer import Law
from saguaro.engine.branch import Branch
from saguaro.engine.draft_tree import RowTree
from saguaro.engine.tap_store import TapStore
from saguaro.errors import CapacityError, ProtocolError
from saguaro.execution.sampler import Draw
from saguaro.models.grammar import Follower
from saguaro.paging import PageTable, PrefixCache, SlotReserve, common_prefix
from saguaro.protocol.messages import Admit, Decided, Taken, Taps
from saguaro.transport.base import Key


class DraftRow:
    """One request on the draft's side."""

    def __init__(
        self,
        admit: Admit,
        cache: PrefixCache,
        max_positions: int,
        grammar: Follower | None = None,
        tap_width: int = 0,
    ) -> None:
        self.request = admit.request
        self.row = admit.row
        self.round = admit.round
        self.admit = admit
        self.grammar = grammar
        self.tokens = list(admit.tokens)
        self.text = SuffixIndex()
        self.proposal: list[int] = []
        self.shape: ProposalTree | None = None
        self.tree: RowTree | None = None
        self.beside: dict[int, Branch] = {}
        self.guessed: list[Guesses] = []
        self.laws: list[Law] = []
        self.ranked: list[Guesses] = []
        self.predicted = -1
        self.after_hit = True
        self.branches: dict[tuple[int, int], Branch] = {}
        self.used = 0  # records of the channel that branches of this round have had
        self.waiting: Key | None = None
        self.given_up: Key | None = None
        self.wanted = 0
        self.covered = False
        self.drawn_for: tuple[int, int] | None = None
        self.kv = self.held = 0
        self.taps = TapStore(tap_width) if tap_width else None
        self.shift = int(tap_width > 0)
        self.caught_up = False
        self.exhausted = False
        self.short = False
        self.max_positions = max_positions
        self.cache = cache
        self.filed = 0
        self.table = PageTable(cache.pool)
        self.reserve = SlotReserve(cache.pool)

    @property
    def length(self) -> int:
        """Committed length L."""
        return len(self.tokens)

    @property
    def mute(self) -> bool:
        """Whether the draft can say nothing yet: one that reads the target's states has none before the first token."""
        return self.taps is not None and self.length == 1

    @property
    def all_accepted(self) -> float:
        """The draft's probability that the whole proposal under verification is accepted."""
        pairs = zip(self.ranked, self.proposal, strict=False)
        return math.prod(guesses.of(token) for guesses, token in pairs)

    @property
    def growing(self) -> list[Branch]:
        """Branches, and nodes beside the trunk that give branches their beginning."""
        return [*self.beside.values(), *self.branches.values()]

    def on_trunk(self, node: int) -> int:
        """Tokens of the proposal on the way to a node of what is under verification; of a chain all of them."""
        return node if self.shape is None else self.shape.along(node)

    def after(self, branch: Branch) -> list[int]:
        """The tokens of a branch and those between them and the committed ones."""
        return [*self.proposal[: branch.shared], *branch.path, branch.bonus, *branch.tokens]

    def draw(self, position: int, branch: Branch | None = None) -> Draw:
        """How the token at an absolute position is drawn, after the tail or after a branch."""
        options, prompt = self.admit.sampling, self.admit.prompt_length
        if not options.edited:
            return Draw(options, position)
        tail = self.proposal if branch is None else self.after(branch)
        tokens = [*self.tokens, *tail]
        allowed = None if self.grammar is None else self.grammar.allowed(tail[: position - self.length])
        return Draw(options, position, tokens[:prompt], tokens[prompt:position], allowed)

    def unfinished(self, branch: Branch, deepest: int) -> bool:
        """Whether a branch may still grow."""
        depth = len(branch.tokens)
        fits = self.length + branch.before + depth < self.max_positions
        return depth < deepest and fits and not branch.ended

    def key(self, accepted: int, bonus: int) -> Key:
        """The tag of an entry for an outcome of the round under verification."""
        return Key(self.request, self.round, self.length, accepted, bonus)

    def missing(self) -> list[int]:
        """Tokens of tail and proposal that have no keys and values yet."""
        known = self.kv - self.length
        if known >= 0:
            return self.proposal[known:]
        return self.tokens[self.kv :] + self.proposal

    def due(self) -> list[int]:
        """The missing tokens that can run now: all, or as far as there are taps or states of the tokens before."""
        tokens = self.missing()
        if self.taps is None:
            return tokens
        if not self.kv:  # it has not begun
            return []
        last = self.length - 1
        end = self.taps.end if self.taps.end < last else max(self.taps.end, self.held)
        return tokens[: max(0, end + 1 - self.kv)]

    def tapped(self, count: int) -> torch.Tensor | None:
        """Taps for the next `count` tokens of the tail, as far as there are any."""
        if self.taps is None:
            return None
        first = self.kv - 1
        return self.taps.rows(first, max(first, min(first + count, self.taps.end)))

    def hear(self, message: Taps, *, soon: int) -> tuple[list[int], list[int]]:
        """Taps have come. A row that lacks no more than `soon` tokens of its prompt then may be asked already.

        Returns:
            Slots to copy, sources and targets.

        Raises:
            ProtocolError: taps for a draft that reads none, or of another width.
        """
        if self.taps is None:
            raise ProtocolError("taps arrived for a draft that reads none.")
        self.taps.add(message)
        if self.caught_up or self.exhausted or self.taps.end < self.length - 1:
            return [], []
        sources, targets = self.begin()
        self.caught_up = not self.exhausted and len(self.missing()) <= soon
        return list(sources), list(targets)

    def ran(self, count: int) -> None:
        """The next `count` tokens of the tail have run."""
        self.kv += count
        self.held = max(self.held, self.kv)
        self.caught_up = self.caught_up or self.kv >= self.length
        if self.taps is not None:
            self.taps.forget(min(self.kv, self.length) - 1)
        self.file()

    def decide(self, message: Decided) -> tuple[list[int], list[int]]:
        """Apply the outcome of the round: commit, keep what a matching branch prepared, drop the rest.

        Returns:
            Slots to copy, sources and targets.

        Raises:
            ProtocolError: when the message speaks of another length than ours, or of more tokens than were proposed.
        """
        nodes = len(self.proposal) if self.shape is None else len(self.shape)
        if message.base != self.length or message.accepted > nodes:
            raise ProtocolError(
                f"outcome ({message.accepted}, {message.bonus}) at length {message.base} does not fit a row of length "
                f"{self.length} with {nodes} proposed tokens."
            )
        key = self.key(message.accepted, message.bonus)
        path, start, ran = self._accepted(message.accepted)
        end = self.length + len(path)
        branch = self.branches.pop((message.accepted, message.bonus), None)
        self.drop_branches()
        self.kv, self.held = min(self.kv, start), min(self.held, start)
        moved = self._move_in(start, ran)
        committed = [*path, message.bonus]
        self.tokens += committed
        if self.grammar is not None:
            self.grammar.commit(committed)
        self.proposal, self.guessed, self.laws, self.ranked, self.shape = [], [], [], [], None
        self.predicted = -1
        self.short = False
        self.covered = branch is not None and bool(branch.tokens)
        self.drawn_for = None
        shape, proposal = shaped(message.tokens, message.parents)
        if branch is not None:
            more = self._adopt(branch, branch.tokens[: message.wanted] if message.pending else proposal, end)
            moved = moved[0] + more[0], moved[1] + more[1]
        elif not message.pending:
            self.proposal = proposal
        self.shape = shape
        if self.taps is not None:
            self._refresh(message.base, end)
        self.after_hit = message.source == "hit"
        self.waiting = key if message.pending else None
        self.wanted = message.wanted
        if not message.pending:
            self.round += 1
        return moved

    def _adopt(self, branch: Branch, proposal: list[int], end: int) -> tuple[list[int], list[int]]:
        """Make a branch the row's tail: at most K + 1 slots move (DESIGN D5)."""
        common = common_prefix(proposal, branch.tokens)
        self.proposal = proposal
        self.laws = branch.laws[:common]
        self.guessed = branch.ranked[: len(proposal)]
        self.drawn_for = (branch.accepted, branch.bonus)
        reach = self.kv if self.taps is None else self.held
        usable = min(len(branch.slots), common + 1) if reach == end else 0
        self.ranked = branch.ranked[:usable]
        sources = branch.slots[:usable]
        if usable and not self._room(end + usable):
            sources = []
        targets = self.table.slots(end - self.shift, end + len(sources) - self.shift)
        if reach == end and (sources or self.taps is None):
            self.kv = self.held = end + len(sources)
        self.ranked = self.ranked[: len(sources)]
        self.reserve.give_back(branch.slots)
        return sources, targets

    def _refresh(self, base: int, end: int) -> None:
        """The target's states of the committed tokens are there as far as they ever will be: run again what ran without
        them, and rank anew. The proposal's tokens run with them, from the states that they have.
        """
        assert self.taps is not None
        self.taps.settle(end)
        self.kv = min(self.kv, base)
        self.ranked = []

    def _accepted(self, node: int) -> tuple[list[int], int, list[int]]:
        """The tokens of an accepted path, the position from which on it is not in the tail, and the slots of what ran
        there.
        """
        if self.shape is None:
            return self.proposal[:node], self.length + node, []
        path, nodes, along = list(self.shape.tokens_to(node)), self.shape.path(node), self.shape.along(node)
        if self.tree is not None:
            return path, self.length, self.tree.slots_of(path)
        ran = [self.beside[each].slots[0] for each in nodes[along:] if each in self.beside and self.beside[each].slots]
        return path, self.length + along, ran

    def _move_in(self, start: int, ran: list[int]) -> tuple[list[int], list[int]]:
        """Nodes of a tree that ran and were accepted become the row's tail from `start` on. Returns slots to copy."""
        if not ran or self.kv != start or not self._room(start + len(ran)):
            return [], []
        self.kv = self.held = start + len(ran)
        return ran, self.table.slots(start, self.kv)

    def take(self, message: Taken) -> None:
        """The end of a pending wait: `message.tokens` is the proposal."""
        self.shape, proposal = shaped(message.tokens, message.parents)
        if self.tree is not None:
            proposal = []  # what is kept of a tree that was grown has run in slots of its own
        common = common_prefix(proposal, self.proposal)
        self.after_hit = message.source == "hit"
        self.proposal = proposal
        self.laws = self.laws[:common]
        self.kv, self.held = min(self.kv, self.length + common), min(self.held, self.length + common)
        self.ranked = self.ranked[: common + 1]
        self.predicted = -1
        self.waiting = None
        self.round += 1

    def drop_branches(self) -> None:
        """Give the slots of all branches back, and those of a tree."""
        for branch in self.growing:
            self.reserve.give_back(branch.slots)
        if self.tree is not None:
            self.reserve.give_back(list(self.tree.slots.values()))
        self.branches, self.beside, self.tree = {}, {}, None
        self.used = 0
        self.predicted = -1

    def open_branch(self, outcome: tuple[int, int], odds: float, most: int, *, withdraw: bool = False) -> Branch | None:
        """A new branch for an outcome; with `most` branches open, it takes the place of the least likely if it is
        likelier. None where there is one already, or none likely enough.

        Tokens of a branch that gives way stay in their record, where the target may still take them, unless `withdraw`
        keeps the records to the budget.
        """
        if outcome in self.branches:
            return None
        index = self.used + 1
        if len(self.branches) >= most:
            last = min(self.branches.values(), key=lambda branch: branch.odds, default=None)
            if last is None or last.odds >= odds:
                return None
            del self.branches[last.accepted, last.bonus]
            self.reserve.give_back(last.slots)
            if withdraw or not last.tokens or index > MAX_BUDGET:
                index = last.index
        self.used = max(self.used, index)
        branch = self.branches[outcome] = Branch(*outcome, index=index, odds=odds, worth=odds)
        return branch

    def _room(self, length: int) -> bool:
        """Own pages for `length` positions, or be exhausted: the row goes on without the draft (DESIGN D5)."""
        try:
            if length <= self.max_positions:
                self.table.ensure(length)
                return True
        except CapacityError:
            pass
        self.exhausted = True
        self.caught_up = False
        return False

    def recover(self, spare: int) -> None:
        """Go on with the draft once there are pages for the whole row again, and `spare` more."""
        pool = self.cache.pool
        needed = pool.pages_for(self.length + 1) - len(self.table.pages)
        if self.length < self.max_positions and needed + spare <= pool.available:
            self.exhausted = False

    def let_go(self) -> None:
        """Hold no pages while there is no room; what was computed may still be found when there is."""
        self.drop_branches()
        self.file(whole=True)
        self.table.release()
        self.reserve.release()
        self.kv = self.held = self.filed = 0

    def begin(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Before the first pass: reuse what other rows have left of this row's beginning. Returns slots to copy."""
        if self.kv or self.table.pages:
            return (), ()
        fits = self.length < self.max_positions
        reused = self.cache.begin(self.table, self._filed_under(), room=self.length) if fits else None
        if reused is None:
            self.exhausted = True
            return (), ()
        self.kv, self.filed = reused.length + self.shift, reused.length // self.cache.pool.page_size
        self.held = self.kv
        return reused.sources, reused.targets

    def file(self, *, whole: bool = False) -> None:
        """Let other rows find the committed part."""
        final = max(0, min(self.kv, self.length) - self.shift)
        if whole or final // self.cache.pool.page_size > self.filed:
            self.filed = self.cache.file(self.table, self._filed_under()[:final], self.filed, whole=whole)

    def _filed_under(self) -> list[int]:
        """What the slots of the committed part depend on, one by one. With taps a slot belongs to two tokens: all but
        the first slot are known by the second of theirs.
        """
        if self.taps is None:
            return self.tokens
        return [self.tokens[0] << 32 | token for token in self.tokens[1:2]] + self.tokens[2:]

    def prepare_tail(self, count: int) -> list[int] | None:
        """Slots for the next `count` tail tokens, or None when there is no room."""
        if not self._room(self.kv + count):
            return None
        return self.table.slots(self.kv - self.shift, self.kv + count - self.shift)

    def release(self) -> None:
        """Give everything back."""
        self.branches, self.beside = {}, {}
        self.file(whole=True)
        self.table.release()
        self.reserve.release()
