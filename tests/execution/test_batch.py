"""Packing: what each token sees, against the definition, for hypothesis-made mixtures of spans."""

from hypothesis import given
from hypothesis import strategies as st
from tests.algorithm.test_proposal_tree import trees

from saguaro.algorithm.proposal_tree import ProposalTree
from saguaro.attention.base import KEY_BLOCK
from saguaro.execution.batch import Span, pack

PAGE = 4


@st.composite
def spans(draw: st.DrawFn) -> list[Span]:
    made, page = [], 0
    for _ in range(draw(st.integers(1, 5))):
        start, length = draw(st.integers(0, 9)), draw(st.integers(1, 6))
        pages = list(range(page, page + 5))
        page += 5
        tokens = draw(st.lists(st.integers(0, 99), min_size=length, max_size=length))
        if draw(st.booleans()):
            own = draw(st.lists(st.integers(200, 299), max_size=4, unique=True))
            made.append(Span(tokens[:1], start + len(own), pages, [300 + page], 1, shared=start, own=tuple(own)))
        else:
            slots = [pages[p // PAGE] * PAGE + p % PAGE for p in range(start, start + length)]
            made.append(Span(tokens, start, pages, slots, wanted=draw(st.integers(0, length))))
    return made


@given(spans())
def test_each_token_sees_what_its_span_says(made: list[Span]) -> None:
    batch = pack(made, PAGE)
    at, wanted = 0, []
    for span in made:
        for i, token in enumerate(span.tokens):
            position = span.start + i
            shared = position + 1 if span.shared is None else span.shared
            seen = [span.pages[p // PAGE] * PAGE + p % PAGE for p in range(shared)]
            if span.shared is not None:
                seen += [*span.own, span.slots[0]]
            assert batch.plan.slots_seen(at) == seen
            assert int(batch.tokens_T[at]) == token
            assert int(batch.plan.positions_T[at]) == position
            assert int(batch.plan.slots_T[at]) == span.slots[i]
            if i >= len(span.tokens) - span.wanted:
                wanted.append(at)
            at += 1
    assert batch.wanted_W.tolist() == wanted


@given(trees(), st.integers(0, 140), st.integers(1, 3))
def test_a_node_sees_the_text_and_its_path(tree: ProposalTree, start: int, known: int) -> None:
    pages = list(range(100, 0, -2))
    slots = [pages[p // PAGE] * PAGE + p % PAGE for p in range(start, start + known + len(tree))]
    span = Span([*range(50, 50 + known), *tree.tokens], start, pages, slots, len(tree) + 1, parents=tree.parents)
    plan = pack([span], PAGE).plan
    text = [pages[p // PAGE] * PAGE + p % PAGE for p in range(start + known)]
    for node in range(1, len(tree) + 1):
        index, path = known + node - 1, tree.path(node)
        seen = [*text, *(slots[known + each - 1] for each in path)]
        assert plan.slots_seen(index) == seen
        assert int(plan.positions_T[index]) == start + known + len(path) - 1
        assert int(plan.slots_T[index]) == slots[index]
        if node > tree.trunk:
            assert int(plan.shared_T[index]) % KEY_BLOCK == 0
            assert int(plan.own_count_T[index]) <= KEY_BLOCK + len(path)
    for index in range(known):
        assert plan.slots_seen(index) == text[: start + index + 1]
