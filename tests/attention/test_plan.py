"""The plan: which slots a token sees, in which order; the table of back-ends."""

import pytest
import torch

from saguaro.attention import ATTENTION, AttentionPlan
from saguaro.errors import ConfigError


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


def test_slots_are_pages_then_own():
    tables = torch.tensor([[5, 2, 0], [7, 1, 3]], dtype=torch.int32)
    own = torch.tensor([[0, 0], [90, 91]], dtype=torch.int32)
    plan = AttentionPlan(ints(4, 5), ints(0, 0), ints(0, 1), tables, ints(5, 4), own, ints(0, 2), 3)
    assert plan.slots_seen(0) == [15, 16, 17, 6, 7]
    assert plan.slots_seen(1) == [21, 22, 23, 3, 90, 91]


def test_an_unknown_backend_names_the_nearest():
    with pytest.raises(ConfigError, match="'cpu'"):
        ATTENTION.get("cpuu")
