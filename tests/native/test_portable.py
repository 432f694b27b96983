"""Kernels built for lesser processors give the same numbers: exactly where sums are exact or the steps are the same."""

import pytest
import torch

from saguaro.algorithm.noise import row_key
from saguaro.attention import ATTENTION, AttentionPlan, AttentionWeights
from saguaro.native import KINDS, cpu_features, gumbel, library, mlp_add, norm_linear, pack, top_noisy


def random(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def results():
    """Everything the kernels compute, on fixed inputs."""
    found = {}
    x, norm = random(1, 7, 192), random(2, 192).abs() + 0.5
    for kind in KINDS:
        out, hidden = torch.empty(7, 100), x.clone()
        norm_linear(x, norm, 1e-6, pack(random(3, 100, 192), kind, bias_N=random(4, 100)), out)
        mlp_add(hidden, norm, 1e-6, pack(random(5, 640, 192) / 12, kind), pack(random(6, 192, 320) / 12, kind))
        found[f"{kind} linear"], found[f"{kind} mlp"] = out, hidden
    angle = random(7, 300, 32)
    for dtype in (torch.float32, torch.bfloat16):
        member = ATTENTION.get("cpu")(AttentionWeights(6, 2, 64, angle.cos(), angle.sin(), norm[:64], norm[64:128]))
        out, pools = torch.empty(5, 6 * 64), [random(8 + i, 320, 2, 64).to(dtype) for i in range(2)]
        positions = torch.arange(97, 102, dtype=torch.int32)
        none = torch.zeros(5, 0, dtype=torch.int32)
        tables = torch.tensor([[3, 1, 4, 0, 2]], dtype=torch.int32)
        slots = tables[0, (positions // 64).long()] * 64 + positions % 64
        zeros = torch.zeros(5, dtype=torch.int32)
        plan = AttentionPlan(positions, slots, zeros, tables, positions + 1, none, zeros, 64)
        member.attend(random(10, 5, 10 * 64), plan, k_pool_SGD=pools[0], v_pool_SGD=pools[1], out_TA=out)
        found[f"{dtype} attention"] = out
    ids, scores, noise = torch.empty(3, 9, dtype=torch.int32), torch.empty(3, 9), torch.empty(1000)
    keys = torch.tensor([row_key(1, 0, p) for p in range(3)])
    top_noisy(random(11, 3, 1000), keys, torch.tensor([0.0, 1.0, 0.4]), ids, scores)
    gumbel(row_key(1, 0, 5), noise)
    return found | {"ids": ids, "scores": scores, "noise": noise}


HERE = results()


def compare(found, exact):
    for name, wanted in HERE.items():
        if any(word in name for word in exact):
            assert torch.equal(found[name], wanted), name
        loose = 4e-3 if "bfloat16" in name else 2e-2 if "mlp" in name else 2e-5  # one int8 rounding may fall otherwise
        assert float((found[name] - wanted).double().norm() / wanted.double().norm()) < loose, name


def test_the_baseline_of_the_architecture(portable_kernels):
    assert not library().sgr_features()
    compare(results(), exact=("ids", "scores", "noise"))


@pytest.mark.slow
def test_without_avx512(avx2_kernels):
    """Steps are the same as with AVX-512 (fused multiply-add is there), so all but bfloat16 products agree bitwise."""
    assert not cpu_features()["avx512f"]
    compare(results(), exact=("ids", "scores", "noise", "float32", "int8", "int4"))
