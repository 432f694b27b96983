"""Every attention back-end: dense masked softmax, scattered pages, tree mode, row independence, untouched slots."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saguaro.attention import ATTENTION, AttentionPlan, AttentionWeights
from saguaro.attention.base import KEY_BLOCK

BACKENDS = list(ATTENTION)
SHAPES = [(12, 2, 128), (14, 2, 64), (3, 3, 64), (4, 1, 48), (2, 1, 6)]
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 6e-3}


def weights(heads, kv_heads, size, *, norms=False, positions=700, scale=None):
    generator = torch.Generator().manual_seed(size)
    angle = torch.arange(positions)[:, None] * 1e4 ** -(torch.arange(0, size, 2) / size)
    q_norm, k_norm = ((torch.rand(size, generator=generator) + 0.5) if norms else None for _ in range(2))
    return AttentionWeights(heads, kv_heads, size, angle.cos(), angle.sin(), q_norm, k_norm, 1e-6, scale)


class Case:
    """Rows with scattered pages whose earlier positions are filled; tokens are added to them and run in one call."""

    def __init__(self, shape, dtype, lengths, *, page_size=16, seed=0, norms=False, scale=None):
        self.heads, self.kv_heads, self.size = shape
        self.generator = torch.Generator().manual_seed(seed)
        self.page_size, self.dtype = page_size, dtype
        self.weights = weights(*shape, norms=norms, scale=scale, positions=max(lengths) + 64)
        pages = -(-(max(lengths) + 64) // page_size)
        order = torch.randperm(len(lengths) * pages, generator=self.generator) + 1
        self.tables_RP = order.view(len(lengths), pages).int()
        self.slots = (len(lengths) * pages + 1) * page_size + 256  # page 0 is nobody's; 256 own slots behind the pages
        self.k_pool, self.v_pool = (self.random(self.slots, self.kv_heads, self.size).to(dtype) for _ in range(2))
        self.tokens = []

    def random(self, *shape):
        return torch.randn(*shape, generator=self.generator)

    def slot(self, row, position):
        return int(self.tables_RP[row, position // self.page_size]) * self.page_size + position % self.page_size

    def extend(self, row, position):
        self.tokens.append((position, self.slot(row, position), row, position + 1, []))

    def branch(self, row, shared, own):
        """A tree token: sees the first `shared` positions of its row and its own slots; the last is its own."""
        base = self.slots - 256
        self.tokens.append((shared + len(own) - 1, base + own[-1], row, shared, [base + i for i in own]))

    def plan(self, chosen=None):
        tokens = self.tokens if chosen is None else [self.tokens[i] for i in chosen]
        width = max(len(own) for *_, own in tokens)
        columns = [torch.tensor([token[i] for token in tokens], dtype=torch.int32) for i in range(4)]
        own_TS = torch.tensor([own + [0] * (width - len(own)) for *_, own in tokens], dtype=torch.int32)
        counts = torch.tensor([len(own) for *_, own in tokens], dtype=torch.int32)
        positions, slots, rows, shared = columns
        own_TS = own_TS.reshape(len(tokens), width)
        return AttentionPlan(positions, slots, rows, self.tables_RP, shared, own_TS, counts, self.page_size)

    def qkv(self):
        return self.random(len(self.tokens), (self.heads + 2 * self.kv_heads) * self.size)

    def run(self, backend, qkv, chosen=None, *, pools=None):
        k_pool, v_pool = pools or (self.k_pool.clone(), self.v_pool.clone())
        rows = qkv if chosen is None else qkv[chosen].contiguous()
        out = torch.full((len(rows), self.heads * self.size), math.nan)
        member = ATTENTION.get(backend)(self.weights)
        member.attend(rows, self.plan(chosen), k_pool_SGD=k_pool, v_pool_SGD=v_pool, out_TA=out)
        return out, k_pool, v_pool


def dense(case, qkv, k_pool, v_pool):
    """Softmax over all slots of the pool with a mask, from the pools as they are after the call."""
    w, tokens = case.weights, len(case.tokens)
    q = qkv[:, : w.num_heads * w.head_dim].reshape(tokens, w.num_heads, w.head_dim).double()
    if w.q_norm_D is not None:
        q = q / (q.square().mean(-1, keepdim=True) + w.eps).sqrt() * w.q_norm_D.double()
    positions = torch.tensor([position for position, *_ in case.tokens])
    cos, sin = (torch.cat((t[positions],) * 2, -1).double()[:, None] for t in (w.cos_PE, w.sin_PE))
    a, b = q.chunk(2, -1)
    q = q * cos + torch.cat((-b, a), -1) * sin
    group = w.num_heads // w.num_kv_heads
    k, v = (pool.double().repeat_interleave(group, 1) for pool in (k_pool, v_pool))
    mask = torch.full((tokens, 1, len(k)), -math.inf, dtype=torch.float64)
    for token, (_, _, row, shared, own) in enumerate(case.tokens):
        mask[token, 0, [case.slot(row, p) for p in range(shared)] + own] = 0.0
    scale = w.head_dim**-0.5 if w.scale is None else w.scale
    law = torch.softmax(torch.einsum("thd,shd->ths", q, k) * scale + mask, -1)
    return torch.einsum("ths,shd->thd", law, v).reshape(tokens, -1)


def mixed_case(shape, dtype, **options):
    """Two rows that extend by several tokens, one that decodes, and branches of a tree on a fourth."""
    case = Case(shape, dtype, [5, 130, 64, 200], **options)
    for position in range(5):
        case.extend(0, position)
    for position in range(125, 131):
        case.extend(1, position)
    case.extend(2, 63)
    for number, length in enumerate((1, 2, 3, 1)):
        case.branch(3, 197, [8 * number + i for i in range(length)])
    return case


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("norms", [False, True], ids=["plain", "qk_norm"])
def test_equals_a_dense_masked_softmax(backend, shape, dtype, norms):
    case = mixed_case(shape, dtype, norms=norms)
    qkv = case.qkv()
    out, k_pool, v_pool = case.run(backend, qkv)
    wanted = dense(case, qkv, k_pool, v_pool)
    assert float((out - wanted).norm() / wanted.norm()) < TOLERANCE[dtype]
    assert float((out - wanted).abs().max()) < 20 * TOLERANCE[dtype]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_scale_of_its_own(backend):
    case = mixed_case((4, 2, 64), torch.float32, scale=0.3)
    qkv = case.qkv()
    out, k_pool, v_pool = case.run(backend, qkv)
    assert torch.allclose(out.double(), dense(case, qkv, k_pool, v_pool), atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("page_size", [1, 7, 64, 256])
def test_any_page_size(backend, page_size):
    case = mixed_case((4, 2, 64), torch.float32, page_size=page_size)
    qkv = case.qkv()
    out, k_pool, v_pool = case.run(backend, qkv)
    assert torch.allclose(out.double(), dense(case, qkv, k_pool, v_pool), atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_only_the_slots_of_the_plan_are_written(backend):
    case = mixed_case((4, 2, 64), torch.float32)
    qkv = case.qkv()
    _, k_pool, v_pool = case.run(backend, qkv)
    written = [slot for _, slot, *_ in case.tokens]
    untouched = [slot for slot in range(case.slots) if slot not in written]
    assert torch.equal(k_pool[untouched], case.k_pool[untouched])
    assert torch.equal(v_pool[untouched], case.v_pool[untouched])
    heads = qkv.view(len(qkv), -1, 64)
    assert torch.equal(v_pool[written], heads[:, -2:])
    first = [token[0] for token in case.tokens].index(0)  # position 0 is not rotated
    assert torch.equal(k_pool[written[first]], heads[first, 4:6])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_what_a_token_does_not_see_cannot_reach_it(backend, dtype):
    """All unseen slots hold NaN, the neighbours in a block and in a pair of keys included."""
    case = mixed_case((4, 2, 64), dtype)
    qkv = case.qkv()
    out, *_ = case.run(backend, qkv)
    plan = case.plan()
    for token in range(len(case.tokens)):
        seen = plan.slots_seen(token)
        pools = [pool.clone() for pool in (case.k_pool, case.v_pool)]
        unseen = [slot for slot in range(case.slots) if slot not in seen]
        for pool in pools:
            pool[unseen] = math.nan
        before = [i for i in range(len(case.tokens)) if case.tokens[i][1] in seen]
        found, *_ = case.run(backend, qkv, before, pools=pools)
        assert torch.equal(found[before.index(token)], out[token])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_broken_token_breaks_only_those_that_see_it(backend):
    case = mixed_case((4, 2, 64), torch.bfloat16)
    qkv = case.qkv()
    good, *_ = case.run(backend, qkv)
    broken = qkv.clone()
    broken[7] = math.nan  # position 127 of row 1; tokens 5 and 6 are before it, 8 to 10 after it
    found, *_ = case.run(backend, broken)
    assert found[7:11].isnan().all()
    others = [i for i in range(len(case.tokens)) if i not in (7, 8, 9, 10)]
    assert torch.equal(found[others], good[others])


MIXED = {dtype: mixed_case((6, 2, 64), dtype) for dtype in (torch.float32, torch.bfloat16)}
MIXED_QKV = MIXED[torch.float32].qkv()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@settings(max_examples=40)
@given(order=st.permutations(range(16)), count=st.integers(1, 16))
def test_a_token_is_the_same_in_any_company(backend, dtype, order, count):
    """Any subset in any order, over pools that already hold all keys: bitwise the same rows."""
    case = MIXED[dtype]
    whole, *pools = case.run(backend, MIXED_QKV)
    found, *_ = case.run(backend, MIXED_QKV, order[:count], pools=[pool.clone() for pool in pools])
    assert torch.equal(found, whole[order[:count]])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_long_prompt_in_chunks_or_token_by_token(backend):
    """Positions up to 6,000; the last rows are the same whether they came in one call, in chunks or alone."""
    length, tail = 6000, 40
    case = Case((2, 1, 64), torch.bfloat16, [length], page_size=64)
    for position in range(length - tail, length):
        case.extend(0, position)
    qkv = case.qkv()
    whole, k_pool, v_pool = case.run(backend, qkv)
    wanted = dense(case, qkv, k_pool, v_pool)
    assert float((whole - wanted).norm() / wanted.norm()) < TOLERANCE[torch.bfloat16]
    pools = (case.k_pool.clone(), case.v_pool.clone())
    parts = [list(range(at, min(at + size, tail))) for at, size in ((0, 17), (17, 1), (18, 22))]
    found = torch.cat([case.run(backend, qkv, part, pools=pools)[0] for part in parts])
    assert torch.equal(found, whole)
    assert torch.equal(pools[0], k_pool)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("shape", [(2, 2, 32), (5, 1, 32), (12, 2, 64), (7, 1, 16)], ids=str)
def test_a_prompt_is_the_same_in_any_chunks(backend, dtype, shape):
    """211 tokens of one row and 40 of another in one call, in pieces of many sizes, and with the rows interleaved."""
    case = Case(shape, dtype, [230, 70])
    for position in range(9, 220):
        case.extend(0, position)
    for position in range(30, 70):
        case.extend(1, position)
    qkv = case.qkv()
    whole, *pools = case.run(backend, qkv)
    for sizes in ((1, 31, 32, 33, 64, 90), (128, 83, 40), (10, 11, 130, 100), (5, 6, 240)):
        assert sum(sizes) == len(case.tokens)
        mine, at = (case.k_pool.clone(), case.v_pool.clone()), 0
        for size in sizes:
            part = list(range(at, at + size))
            found, *_ = case.run(backend, qkv, part, pools=mine)
            assert torch.equal(found, whole[part]), (sizes, at)
            at += size
        assert torch.equal(mine[0], pools[0])
        assert torch.equal(mine[1], pools[1])
    order = [i for pair in zip(range(171, 211), range(211, 251), strict=True) for i in pair]
    found, *_ = case.run(backend, qkv, order, pools=[pool.clone() for pool in pools])
    assert torch.equal(found, whole[order])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("known", [1, 5, 62, 63, 64, 65, 150])
def test_a_path_in_own_slots_is_the_text_bit_for_bit(backend, dtype, known):
    """Where own slots begin as a block of keys does, a path of a proposal tree is computed as if it were the text."""
    text, aside = (Case((6, 2, 64), dtype, [known + 3], page_size=16) for _ in range(2))
    for position in range(known - 1, known + 3):
        text.extend(0, position)
    aside.extend(0, known - 1)
    shared = known - known % KEY_BLOCK
    own = [aside.slot(0, position) for position in range(shared, known)]
    for step in range(3):
        own = [*own, aside.slots - 200 + 7 * step]
        aside.tokens.append((known + step, own[-1], 0, shared, own))
    aside.extend(0, known)  # another token at the first position, in the table
    qkv = text.qkv()
    other = torch.cat([qkv, text.random(1, qkv.shape[1])])
    out, *_ = text.run(backend, qkv)
    found, *_ = aside.run(backend, other)
    assert torch.equal(found[:4], out)
    assert not torch.equal(found[4], out[1])
