"""What a pass of the draft runs for a row with a grammar: certain tokens need no pass of their own."""

from __future__ import annotations

from saguaro.algorithm.options import Sampling
from saguaro.engine.draft_forced import fill_forced
from saguaro.engine.draft_row import DraftRow
from saguaro.engine.draft_work import branch_work, tail_work
from saguaro.models.byte_tokenizer import ByteTokenizer
from saguaro.models.grammar import Grammars, grammar_text
from saguaro.paging import PagePool, PrefixCache
from saguaro.protocol.messages import Admit, Configure, Decided
from saguaro.request import SamplingParams

VOCAB, END = 300, 256
SETTINGS = Configure(4, False, True, 1.0, 8, False, fan_out="uniform")


def row(regex: str, *, pages: int = 16, slots: int = 8) -> DraftRow:
    """A row with the prompt [1, 2, 3] whose output follows `regex`."""
    grammars = Grammars(lambda: ByteTokenizer(VOCAB), VOCAB, {END})
    sampling = Sampling(temperature=0.0, grammar=grammar_text(SamplingParams(regex=regex)), stop_ids=(END,))
    r = DraftRow(Admit(1, 0, 0, 3, sampling, (1, 2, 3)), PrefixCache(PagePool(pages, 4)), 64, grammars.follow(sampling))
    assert r.prepare_tail(3) is not None
    r.kv = 3
    r.reserve.grow(slots)
    return r


def test_certain_tokens_join_a_branch_and_run_together() -> None:
    r = row("ab(cde|cdf)g")
    branch = r.open_branch((0, ord("a")), 0.5, 4)
    assert branch is not None
    assert fill_forced(r, 4, branch)
    assert branch.tokens == list(b"bcd")
    assert [guesses.odds for guesses in branch.ranked] == [[1.0]] * 3
    spans = [work.span for work in branch_work(r, branch, PagePool(4, 4), spare=0)]
    assert [list(span.tokens) for span in spans] == [[ord(letter)] for letter in "abcd"]
    assert [span.start for span in spans] == [3, 4, 5, 6]
    assert [span.wanted for span in spans] == [0, 0, 0, 1]
    slots = [span.slots[0] for span in spans]
    assert len(set(slots)) == 4
    assert [list(span.own) for span in spans] == [slots[:i] for i in range(4)]
    assert all(span.shared == 3 for span in spans)
    branch.slots += slots
    assert branch.due() == []
    branch.tokens.append(ord("f"))
    assert not fill_forced(r, 4, branch)  # it is as deep as it may get
    assert not r.unfinished(branch, 4)


def test_a_branch_without_room_for_all_of_them_takes_nothing() -> None:
    r = row("abcdef", slots=4)
    branch = r.open_branch((0, ord("a")), 0.5, 4)
    assert branch is not None
    fill_forced(r, 4, branch)
    assert branch_work(r, branch, PagePool(1, 4), spare=1) == []
    assert r.short
    assert len({r.reserve.take() for _ in range(5)} - {None}) == 4


def test_a_hit_on_tokens_that_never_ran_runs_them_as_the_tail() -> None:
    r = row("abcd[xy]")
    branch = r.open_branch((0, ord("a")), 0.5, 4)
    assert branch is not None
    fill_forced(r, 4, branch)
    assert r.decide(Decided(1, 0, 3, 0, ord("a"), "hit", False, 4, tuple(b"bcd"))) == ([], [])
    work = tail_work(r, SETTINGS, 16)
    assert work is not None
    assert (list(work.span.tokens), work.span.wanted) == (list(b"abcd"), 4)
    assert r.draw(7).only is None
    assert not r.draw(7).allowed.banned_V[[ord("x"), ord("y")]].any()  # type: ignore[union-attr]
    assert r.draw(6).only == ord("d")


def test_while_the_target_waits_certain_tokens_join_the_proposal() -> None:
    r = row("ab(cde|cdf)g")
    r.decide(Decided(1, 0, 3, 0, ord("a"), "pending", True, 2, ()))
    assert fill_forced(r, 4)
    assert r.proposal == list(b"bc")  # as many as are wanted
    assert not fill_forced(r, 4)


def test_a_row_without_a_grammar_is_left_alone() -> None:
    r = DraftRow(Admit(1, 0, 0, 3, Sampling(temperature=0.0), (1, 2, 3)), PrefixCache(PagePool(16, 4)), 64)
    branch = r.open_branch((0, 5), 0.5, 4)
    assert branch is not None
    assert not fill_forced(r, 4, branch)
    assert branch.due() == [5]
    assert r.draw(4, branch).allowed is None


def test_a_row_that_joins_late_stands_where_its_output_is() -> None:
    grammars = Grammars(lambda: ByteTokenizer(VOCAB), VOCAB, {END})
    sampling = Sampling(temperature=0.0, grammar=grammar_text(SamplingParams(regex="abcdef")), stop_ids=(END,))
    follower = grammars.follow(sampling, list(b"abc"))
    assert follower is not None
    assert follower.forced() == (*b"def", END)
