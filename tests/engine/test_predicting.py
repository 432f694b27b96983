"""The draft's choice of outcomes: which policy, how many guesses are listed, and what is learnt from rounds."""

from saguaro.algorithm.odds import Guesses
from saguaro.algorithm.options import Sampling
from saguaro.algorithm.terms import Outcome
from saguaro.engine.draft_row import DraftRow
from saguaro.engine.predicting import Predictor
from saguaro.paging import PagePool, PrefixCache
from saguaro.protocol.messages import Admit, Configure, Decided, Taken
from saguaro.theory.evidence import RunningEvidence, assumed


def settings(fan_out: str, *, budget: int = 4, c: float = 1.0, tokens: tuple[int, ...] = ()) -> Configure:
    return Configure(2, False, True, c, budget, False, listed=3 if tokens else 0, fan_out=fan_out, tokens=tokens)


def row() -> DraftRow:
    """A row whose proposal [5, 6] answers a hit."""
    r = DraftRow(Admit(1, 0, 0, 3, Sampling(temperature=0.0), (1, 2, 3)), PrefixCache(PagePool(8, 4)), 64)
    r.decide(Decided(1, 0, 3, 0, 4, "hit", False, 2, (5, 6)))
    r.ranked = [Guesses([5, 7], [0.9, 0.1]), Guesses([6, 8], [0.5, 0.4]), Guesses([9, 3], [0.6, 0.2])]
    return r


def predictor(message: Configure) -> Predictor:
    p = Predictor(RunningEvidence())
    p.configure(message)
    return p


def test_lists_for_rounds_after_hits_and_after_misses() -> None:
    p, r = predictor(settings("listed", tokens=(1, 0, 1, 0, 2, 0))), row()
    assert (p.full_counts(True), p.full_counts(False)) == ((1, 0, 1), (0, 2, 0))
    most, likely = p.outcomes(r, dict(enumerate(r.ranked)))
    assert (most, [outcome for _, outcome in likely]) == (2, [Outcome(2, 9), Outcome(0, 7)])
    r.decide(Decided(1, 1, 4, 1, 8, "ngram", False, 2, (5, 6)))
    r.ranked = [Guesses([5, 7], [0.9, 0.1]), Guesses([6, 8], [0.5, 0.4])]
    assert [outcome for _, outcome in p.outcomes(r, dict(enumerate(r.ranked)))[1]] == [Outcome(1, 8)]


def test_how_many_guesses_are_listed() -> None:
    assert predictor(settings("uniform", budget=6)).candidates == 7  # an empty proposal has one position for all
    assert predictor(settings("ranked", budget=6)).candidates == 7
    assert predictor(settings("optimal", budget=6)).candidates == 7
    assert predictor(settings("none")).candidates == 1


def test_saguaro_sampling_must_know_the_counts_before_the_draw() -> None:
    r = row()
    free, bound = predictor(settings("ranked")), predictor(settings("ranked", c=0.5))
    assert len(free.outcomes(r, dict(enumerate(r.ranked)))[1]) == 4
    most, likely = bound.outcomes(r, dict(enumerate(r.ranked)))
    by_position = [sum(outcome.accepted == k for _, outcome in likely) for k in range(3)]
    assert most == sum(bound.full_counts(True))
    assert all(found <= count for found, count in zip(by_position, bound.full_counts(True), strict=True))


def test_a_round_is_learnt_by_its_kind() -> None:
    p = predictor(settings("optimal"))
    for _ in range(64):
        p.learn(row(), Decided(1, 1, 4, 1, 8, "none", False, 0, ()))
    assert p.evidence.of(after_hit=False) == assumed()
    assert p.evidence.of(after_hit=True).rates(2)[1] < 0.3


def test_rounds_without_branches_say_nothing() -> None:
    """In the gears of AR and SD nothing is prepared, and what was learnt of hits and misses stays."""
    for message in (Configure(0, False, False, 1.0, 0, False), Configure(2, False, False, 1.0, 0, False)):
        p = predictor(message)
        for _ in range(64):
            p.learn(row(), Decided(1, 1, 4, 1, 8, "none", False, 0, ()))
        assert p.evidence.of(after_hit=True) == assumed()


def test_the_kind_of_a_pending_proposal_is_known_when_it_is_taken() -> None:
    r = row()
    assert r.after_hit
    r.decide(Decided(1, 1, 4, 0, 7, "pending", True, 2, ()))
    r.take(Taken(1, 1, "neural", (5,)))
    assert not r.after_hit
    r.decide(Decided(1, 2, 5, 0, 7, "hit", True, 2, ()))
    r.take(Taken(1, 2, "hit", (5,)))
    assert r.after_hit
