"""What is the kernel's own: threads, checks of plans, kept pointers. Its arithmetic: tests/conformance/."""

import pytest
import torch

from saguaro.attention import AttentionPlan, AttentionWeights
from saguaro.attention.cpu import CpuAttention, plan_view
from saguaro.errors import ConfigError
from saguaro.native import AttentionLayer, PlanView, Team, rope_write_attend

HEADS, KV_HEADS, SIZE, SLOTS, PAGE = 6, 2, 64, 640, 32


def random(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def layer(dtype=torch.bfloat16, heads=HEADS, size=SIZE, **options):
    angle = random(1, 400, size // 2)
    pools = {name: random(i, SLOTS, KV_HEADS, size).to(dtype) for i, name in enumerate(("k_pool_SGD", "v_pool_SGD"))}
    return AttentionLayer(num_heads=heads, cos_PE=angle.cos(), sin_PE=angle.sin(), **pools, **options)


def plan(tokens=5, first=100, **changes):
    positions = torch.arange(first, first + tokens, dtype=torch.int32)
    values = {
        "positions_T": positions,
        "slots_T": positions.clone(),
        "row_T": torch.zeros(tokens, dtype=torch.int32),
        "tables_RP": torch.arange(10, dtype=torch.int32).view(1, 10).clone(),
        "shared_T": positions + 1,
        "own_TS": torch.zeros(tokens, 2, dtype=torch.int32),
        "own_count_T": torch.zeros(tokens, dtype=torch.int32),
        "page_size": PAGE,
    }
    return values | changes


def attend(one, values, team=None):
    tokens = len(values["positions_T"])
    out = torch.empty(tokens, HEADS * SIZE)
    rope_write_attend(random(7, tokens, (HEADS + 2 * KV_HEADS) * SIZE), one, PlanView(**values), out, team=team)
    return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("members", [2, 3])
@pytest.mark.parametrize("tokens", [1, 5, 130])
def test_threads_change_nothing(dtype, members, tokens):
    team = Team([-1] * members)
    try:
        for _ in range(5):
            assert torch.equal(attend(layer(dtype), plan(tokens), team), attend(layer(dtype), plan(tokens)))
    finally:
        team.close()


def changed(name, index, value):
    values = plan()
    values[name] = values[name].clone()
    values[name][index] = value
    return values


@pytest.mark.parametrize(
    "values",
    [
        changed("positions_T", 2, 400),
        changed("positions_T", 2, -1),
        changed("slots_T", 2, SLOTS),
        changed("slots_T", 2, -1),
        changed("row_T", 4, 1),
        changed("shared_T", 4, 10 * PAGE + 1),
        changed("shared_T", 0, 0),
        changed("shared_T", 0, -3),
        changed("tables_RP", (0, 3), SLOTS // PAGE),
        changed("tables_RP", (0, 1), -1),
        changed("own_count_T", 1, 3),
        changed("own_count_T", 1, -1),
        changed("own_TS", (1, 0), SLOTS) | {"own_count_T": torch.ones(5, dtype=torch.int32)},
    ],
)
def test_a_plan_that_points_outside_is_refused(values):
    with pytest.raises(ValueError, match="points outside"):
        attend(layer(), values)


def test_pages_that_no_token_sees_are_not_looked_at():
    attend(layer(), changed("tables_RP", (0, 9), 10**6))


def test_tensors_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="positions_T"):
        PlanView(**plan(positions_T=torch.zeros(5, dtype=torch.int64)))
    with pytest.raises(ValueError, match="own_TS"):
        PlanView(**plan(own_TS=torch.zeros(4, 2, dtype=torch.int32)))
    with pytest.raises(ValueError, match="qkv_TN"):
        rope_write_attend(torch.zeros(5, 7), layer(), PlanView(**plan()), torch.empty(5, HEADS * SIZE))
    with pytest.raises(ConfigError, match="multiple"):
        layer(heads=5)
    with pytest.raises(ConfigError, match="even"):
        layer(size=63)
    with pytest.raises(ValueError, match="q_norm_D"):
        layer(q_norm_D=torch.ones(SIZE - 1))


def test_pointers_are_kept_with_the_plan_and_follow_the_pools():
    """One view a plan; a new pool is noticed although the layer stays."""
    values = plan()
    shared_plan = AttentionPlan(**values)
    assert plan_view(shared_plan) is plan_view(shared_plan)
    angle = random(1, 400, SIZE // 2)
    member = CpuAttention(AttentionWeights(HEADS, KV_HEADS, SIZE, angle.cos(), angle.sin()))
    qkv, outs = random(7, 5, (HEADS + 2 * KV_HEADS) * SIZE), []
    for seed in (1, 2, 1):
        pools = {n: random(seed, SLOTS, KV_HEADS, SIZE).bfloat16() for n in ("k_pool_SGD", "v_pool_SGD")}
        outs.append(torch.empty(5, HEADS * SIZE))
        member.attend(qkv, shared_plan, out_TA=outs[-1], **pools)
    assert torch.equal(outs[0], outs[2])
    assert not torch.equal(outs[0], outs[1])
    pool = torch.zeros(SLOTS, KV_HEADS, 32)
    with pytest.raises(ValueError, match="pools hold heads"):
        member.attend(qkv, shared_plan, k_pool_SGD=pool, v_pool_SGD=pool, out_TA=outs[0])
