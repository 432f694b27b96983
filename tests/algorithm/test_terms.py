import pytest
import torch

from saguaro.algorithm.terms import NOTHING, SOURCES, DenseLaw, Outcome, PointMassLaw, Proposal, UniformLaw
from saguaro.errors import ProtocolError


def test_an_outcome_is_the_pair_of_the_paper():
    outcome = Outcome(accepted=2, bonus=7)
    assert outcome == (2, 7)
    assert {outcome: "kept"}[2, 7] == "kept"


def test_a_dense_law_has_a_row_for_each_token():
    with pytest.raises(ProtocolError, match="1 rows for 2 tokens"):
        Proposal((1, 2), DenseLaw(torch.ones(1, 4) / 4))


def test_cut_keeps_tokens_and_law_together():
    proposal = Proposal((3, 1, 2), DenseLaw(torch.arange(12.0).view(3, 4)))
    assert proposal.depth == 3
    shorter = proposal.cut(2)
    assert shorter.tokens == (3, 1)
    assert torch.equal(shorter.law.q_KV, torch.arange(8.0).view(2, 4))
    assert Proposal((3, 1), UniformLaw(4)).cut(1) == Proposal((3,), UniformLaw(4))
    assert Proposal((3, 1)).cut(0) == NOTHING


def test_values_are_frozen():
    with pytest.raises(AttributeError):
        Proposal((1,), PointMassLaw()).tokens = ()


def test_sources():
    assert SOURCES == ("hit", "none", "random", "ngram", "own_row", "neural", "forced")
