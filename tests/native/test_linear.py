"""Packed linear layers: against float64, and bitwise row independence (D2)."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saguaro.errors import ConfigError
from saguaro.native import KINDS, Team, linear_add, mlp_add, norm_linear, pack

# Relative error of one product of random matrices; int8 and int4 are bounded by their rounding.
TOLERANCE = {"float32": 1e-6, "bfloat16": 4e-3, "int8": 1.5e-2, "int4": 0.1}
EPS = 1e-6
SHAPES = [(64, 64), (1, 1), (33, 65), (100, 130), (96, 448)]


def random(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def relative_error(found, wanted):
    return float((found.double() - wanted).norm() / wanted.norm())


def normalised(x_TH, norm_H):
    x = x_TH.double()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * norm_H.double()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("outputs", "inputs"), SHAPES)
@pytest.mark.parametrize("rows", [1, 5, 13])
def test_norm_linear(kind, outputs, inputs, rows):
    weight, bias, norm = random(1, outputs, inputs), random(2, outputs), random(3, inputs).abs() + 0.5
    x, out = random(4, rows, inputs), torch.full((rows, outputs), math.nan)
    norm_linear(x, norm, EPS, pack(weight, kind, bias_N=bias), out)
    wanted = normalised(x, norm) @ weight.double().T
    assert relative_error(out - bias, wanted) < TOLERANCE[kind] * (2 if inputs < 8 else 1)


@pytest.mark.parametrize("kind", KINDS)
def test_linear_add(kind):
    weight, bias, a, x = random(1, 70, 96), random(2, 70), random(3, 9, 96), random(4, 9, 70)
    before = x.clone()
    linear_add(x, a, pack(weight, kind, bias_N=bias))
    assert relative_error(x - before - bias, a.double() @ weight.double().T) < TOLERANCE[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 3, 17])
def test_mlp_add(kind, rows):
    hidden, width = 96, 160
    gate_up, down = random(1, 2 * width, hidden) / 8, random(2, hidden, width) / 12
    norm, x = random(3, hidden).abs() + 0.5, random(4, rows, hidden)
    before = x.clone()
    mlp_add(x, norm, EPS, pack(gate_up, kind), pack(down, kind))
    gate, up = (normalised(before, norm) @ gate_up.double().T).chunk(2, dim=-1)
    wanted = torch.nn.functional.silu(gate) * up @ down.double().T
    assert relative_error(x - before, wanted) < 2 * TOLERANCE[kind]


def test_kinds_may_differ_within_an_mlp():
    gate_up, down, norm = random(1, 256, 64) / 8, random(2, 64, 128) / 12, torch.ones(64)
    x = random(3, 4, 64)
    before = x.clone()
    mlp_add(x, norm, EPS, pack(gate_up, "int4"), pack(down, "float32"))
    gate, up = (normalised(before, norm) @ gate_up.double().T).chunk(2, dim=-1)
    assert relative_error(x - before, torch.nn.functional.silu(gate) * up @ down.double().T) < 0.2


LAYERS = {
    kind: (
        pack(random(1, 112, 128), kind, bias_N=random(2, 112)),
        pack(random(3, 2 * 96, 128) / 8, kind),
        pack(random(4, 128, 96) / 8, kind),
    )
    for kind in KINDS
}
NORM = random(5, 128).abs() + 0.5
POOL = random(6, 40, 128) * torch.logspace(-3, 3, 40)[:, None]


def every_op(kind, x_TH, team=None):
    linear, gate_up, down = LAYERS[kind]
    out, after_mlp, after_add = torch.empty(len(x_TH), 112), x_TH.clone(), torch.zeros(len(x_TH), 112)
    norm_linear(x_TH, NORM, EPS, linear, out, team=team)
    mlp_add(after_mlp, NORM, EPS, gate_up, down, team=team)
    linear_add(after_add, x_TH, linear, team=team)
    return torch.cat((out, after_mlp, after_add), dim=1)


ALONE = {kind: torch.cat([every_op(kind, POOL[i : i + 1]) for i in range(len(POOL))]) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(chosen=st.lists(st.integers(0, 39), min_size=1, max_size=64))
def test_a_row_is_the_same_in_any_company(kind, chosen):
    """Any number of rows (1 ... 64), any order, repeated rows: bitwise what each row gives alone."""
    assert torch.equal(every_op(kind, POOL[chosen]), ALONE[kind][chosen])


# One tile of rows, the first that need two, whole and ragged tiles of the sizes in use, and a large chunk.
MANY = (11, 12, 13, 16, 17, 23, 24, 25, 96, 97, 127, 128, 129, 300)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_the_same_among_very_many(kind):
    """Prefill's numbers of rows, at the edges of the tiles: bitwise what each row gives alone."""
    for rows in MANY:
        chosen = [(7 * i + rows) % len(POOL) for i in range(rows)]
        assert torch.equal(every_op(kind, POOL[chosen]), ALONE[kind][chosen]), rows


@pytest.mark.parametrize("kinds", [("int8", "int8"), ("int4", "bfloat16"), ("float32", "int8")], ids=str)
@pytest.mark.parametrize("width", [1, 31, 33, 64, 96, 150, 193])
def test_hidden_widths_that_fill_no_block(kinds, width):
    """The ups begin within a block of outputs; many rows make the hidden values in several steps."""
    gate_up, down, norm = random(1, 2 * width, 64) / 8, random(2, 64, width) / width**0.5, torch.ones(64)
    packed, pool = (pack(gate_up, kinds[0]), pack(down, kinds[1])), random(3, 40, 64)
    alone = pool.clone()
    for i in range(len(alone)):
        mlp_add(alone[i : i + 1], norm, EPS, *packed)
    gate, up = (normalised(pool, norm) @ gate_up.double().T).chunk(2, dim=-1)
    wanted = torch.nn.functional.silu(gate) * up @ down.double().T
    assert relative_error(alone - pool, wanted) < 2 * max(TOLERANCE[kind] for kind in kinds)
    for rows in (2, 12, 13, 97, 300):
        chosen = [(3 * i + rows) % len(pool) for i in range(rows)]
        x = pool[chosen].clone()
        mlp_add(x, norm, EPS, *packed)
        assert torch.equal(x, alone[chosen]), rows


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows_are_no_work(kind):
    assert every_op(kind, POOL[:0]).shape == (0, 112 + 128 + 112)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("members", [2, 3])
def test_threads_change_nothing(kind, members):
    team = Team([-1] * members)
    try:
        for rows in (1, 2, 7, 12, 13, 29, 130):
            chosen = [i % len(POOL) for i in range(rows)]
            assert torch.equal(every_op(kind, POOL[chosen], team), ALONE[kind][chosen])
    finally:
        team.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_broken_row_breaks_no_other(kind, bad):
    x = POOL[:5].clone()
    x[2, 70] = bad
    found = every_op(kind, x)
    assert not torch.isfinite(found[2]).any(dim=-1) or not torch.isfinite(found[2]).all()
    assert found[2, :112].isnan().any() or found[2, :112].isinf().any()
    others = [0, 1, 3, 4]
    assert torch.equal(found[others], ALONE[kind][others])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_zeros_give_the_bias(kind):
    linear = LAYERS[kind][0]
    out = torch.empty(3, 112)
    norm_linear(torch.zeros(3, 128), None, EPS, linear, out)
    assert torch.equal(out, linear.tensors["bias"][:112].expand(3, -1))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_outside_the_output_is_written(kind):
    """Guard values around the rows, with a number of outputs that fills no block."""
    linear = pack(random(1, 37, 64), kind)
    guarded = torch.full((2 * 64 + 5 * 37,), 7.5)
    norm_linear(random(2, 5, 64), None, EPS, linear, guarded[64:-64].view(5, 37))
    assert (guarded[:64] == 7.5).all()
    assert (guarded[-64:] == 7.5).all()
    assert not (guarded[64:-64] == 7.5).any()


def test_tensors_that_do_not_fit_are_refused():
    linear = pack(random(1, 32, 64), "int8")
    x, out = random(2, 3, 64), torch.empty(3, 32)
    for bad_x, bad_out in (
        (x[:, :63], out),
        (x, torch.empty(2, 32)),
        (x.double(), out),
        (x, torch.empty(3, 31)),
        (x.T.contiguous().T, out),
    ):
        with pytest.raises(ValueError, match=r"contiguous|rows"):
            norm_linear(bad_x, None, EPS, linear, bad_out)
    with pytest.raises(ValueError, match="norm must be"):
        norm_linear(x, torch.ones(63), EPS, linear, out)
    with pytest.raises(ValueError, match="twice the inputs"):
        mlp_add(x, torch.ones(64), EPS, linear, linear)


def test_an_unknown_kind_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="int8"):
        pack(random(1, 32, 64), "int")
