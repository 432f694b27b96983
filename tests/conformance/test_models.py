"""Every model family with every set of operations: near the oracle, the same for any chunking, batch and tree path.

The oracle is plain PyTorch in float32 (itself compared with transformers in tests/models/test_decoder.py). The native
operations must give a row bit for bit, whatever runs beside it (D2).
"""

from dataclasses import dataclass

import pytest
import torch

from saguaro.attention.base import AttentionPlan
from saguaro.models.build import build_model, make_ops
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.families import FAMILIES
from saguaro.models.layers import LAYER_OPS

PAGE = 8
PAGES = 16
MEMBERS = {
    ("torch", "float32"): 1e-5,
    ("torch", "bfloat16"): 0.06,
    ("native", "float32"): 1e-4,
    ("native", "bfloat16"): 0.06,
    ("native", "int8"): 0.12,
    ("native", "int4"): 0.8,
}
MODELS = [f"toy:{family}?layers=2&vocab=300" for family in FAMILIES] + [
    "toy:markov?vocab=300&order=3",
    "toy:markov?order=all",
]


@dataclass
class Token:
    """One token of a call: its row, its position, and the slots of its branch when it is in a tree."""

    id: int
    row: int
    position: int
    own: tuple[int, ...] | None = None  # slots behind `shared` positions, the token's own last
    shared: int = 0


class Harness:
    """A model with a pool in which every row has scattered pages."""

    def __init__(self, source: str, member: tuple[str, str]) -> None:
        self.model = build_model(open_checkpoint(source), make_ops(*member))
        self.exact = member[0] == "native" or source.startswith("toy:markov")
        config = self.model.config
        shape = (PAGES * PAGE, config.num_kv_heads, config.head_dim)
        self.k, self.v = (
            [torch.zeros(shape, dtype=self.model.pool_dtype) for _ in range(config.num_layers)] for _ in "kv"
        )
        self.tables = [[5, 2, 9, 0], [7, 1, 3, 11], [4, 10, 6, 8]]

    def slot(self, row: int, position: int) -> int:
        return self.tables[row][position // PAGE] * PAGE + position % PAGE

    def run(self, tokens: list[Token]) -> torch.Tensor:
        int32 = lambda values: torch.tensor(values, dtype=torch.int32)  # noqa: E731
        deepest = max(len(token.own or ()) for token in tokens) or 1
        own = [list(token.own or ()) + [0] * (deepest - len(token.own or ())) for token in tokens]
        plan = AttentionPlan(
            positions_T=int32([token.position for token in tokens]),
            slots_T=int32([self.slot(t.row, t.position) if t.own is None else t.own[-1] for t in tokens]),
            row_T=int32([token.row for token in tokens]),
            tables_RP=int32(self.tables),
            shared_T=int32([t.position + 1 if t.own is None else t.shared for t in tokens]),
            own_TS=int32(own),
            own_count_T=int32([len(token.own or ()) for token in tokens]),
            page_size=PAGE,
        )
        hidden = self.model.forward(torch.tensor([token.id for token in tokens]), plan, self)
        return self.model.logits(hidden)

    def equal(self, a: torch.Tensor, b: torch.Tensor) -> None:
        if self.exact:
            assert torch.equal(a, b)
        else:
            torch.testing.assert_close(a, b, rtol=0, atol=0.05 if self.model.pool_dtype == torch.bfloat16 else 1e-4)


def sentence(row: int, count: int, *, start: int = 0, seed: int = 0) -> list[Token]:
    generator = torch.Generator().manual_seed(100 * seed + row)
    ids = torch.randint(0, 300, (start + count,), generator=generator).tolist()[start:]
    return [Token(token, row, start + index) for index, token in enumerate(ids)]


@pytest.fixture(params=[*MEMBERS], ids="-".join)
def member(request):
    return request.param


@pytest.fixture(params=MODELS)
def source(request):
    return request.param


@pytest.fixture
def harness(source, member):
    return Harness(source, member)


def test_near_the_oracle(harness, source, member):
    oracle = Harness(source, ("torch", "float32"))
    expected, got = oracle.run(sentence(0, 20)), harness.run(sentence(0, 20))
    assert got.dtype == torch.float32
    spread = expected.std()
    assert spread > 1, "flat logits would be near anything"
    error = (got - expected).std() / spread
    assert error < (MEMBERS[member] if not source.startswith("toy:markov") else 1e-9)


@pytest.mark.parametrize("chunks", [[1] * 20, [7, 13], [1, 5, 6, 8]], ids=str)
def test_a_prompt_may_be_cut_anywhere(harness, chunks):
    whole = harness.run(sentence(0, 20))
    parts, start = [], 0
    for count in chunks:
        parts.append(harness.run(sentence(0, count, start=start)))
        start += count
    harness.equal(torch.cat(parts), whole)


def test_rows_do_not_see_one_another(harness):
    """A prefill, a verification of five tokens and a single decode in one call, against each alone."""
    for row, count in ((1, 12), (2, 17)):
        harness.run(sentence(row, count))
    pieces = [sentence(0, 20), sentence(1, 5, start=12), sentence(2, 1, start=17)]
    alone = [harness.run(piece) for piece in pieces]
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        together = harness.run([token for index in order for token in pieces[index]])
        harness.equal(together, torch.cat([alone[index] for index in order]))


def test_a_branch_of_a_tree_is_the_sentence_that_it_spells(harness):
    """Tokens 10 ... 13 in loose slots behind ten shared positions; two branches part after the second token."""
    line = sentence(0, 14)
    expected = harness.run(line)
    scratch = [12 * PAGE + index for index in range(8)]
    harness.run(line[:10])
    other = [Token(299, 0, 12), Token(17, 0, 13)]
    changed = harness.run(sentence(1, 0) + [Token(t.id, 1, t.position) for t in [*line[:12], *other]])[12:]
    got = []
    for depth in range(2):
        place = 10 + depth
        got.append(harness.run([Token(line[place].id, 0, place, tuple(scratch[: depth + 1]), 10)]))
    for depth in range(2, 4):
        place = 10 + depth
        kept = Token(line[place].id, 0, place, tuple(scratch[: depth + 1]), 10)
        slots = (*scratch[:2], *scratch[4 : 4 + depth - 1])
        split = Token(other[depth - 2].id, 0, place, slots, 10)
        both = harness.run([split, kept])
        got.append(both[1:])
        torch.testing.assert_close(both[:1], changed[depth - 2 : depth - 1], rtol=0, atol=tolerance(harness))
    torch.testing.assert_close(torch.cat(got), expected[10:], rtol=0, atol=tolerance(harness))


def tolerance(harness) -> float:
    """Keys and values are the same numbers and only the order of sums differs; rounding to few bits may amplify that.

    A wrong slot or a wrong count shows in the float32 members, where it cannot hide.
    """
    if harness.model.config.architecture == "markov":
        return 0.0
    return 0.6 if harness.model.pool_dtype == torch.bfloat16 else 1e-4


def test_what_is_returned_is_not_overwritten_by_the_next_call(harness):
    hidden = harness.run(sentence(0, 3))
    copy = hidden.clone()
    harness.run(sentence(1, 3))
    assert torch.equal(hidden, copy)


def test_the_pool_says_what_it_needs(harness):
    config = harness.model.config
    assert harness.model.max_positions == min(config.max_position, 8192)
    assert harness.model.short_head is None
    assert harness.run(sentence(0, 2)).shape == (2, config.vocab)


def test_every_member_and_family_is_tested():
    assert {name for name, _ in MEMBERS} == set(LAYER_OPS)
    assert {source.partition("?")[0] for source in MODELS} >= {f"toy:{family}" for family in FAMILIES}
