"""Packing: what the packed bytes stand for, saving and restoring, refusals, quality of the rounding."""

import math

import pytest
import torch

from saguaro.errors import WeightsError
from saguaro.native import KINDS, PackedLinear, norm_linear, pack


def random(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def unpacked_int8(packed):
    """(outputs, inputs) from the documented order: [blocks][inputs/4][32 outputs][4 inputs]."""
    blocks, groups = -(-packed.out_features // 32), -(-packed.in_features // 64)
    values = packed.tensors["weights"].view(blocks, groups * 16, 32, 4).to(torch.float64) - 128
    rows = values.permute(0, 2, 1, 3).reshape(blocks * 32, groups * 64)
    return (rows * packed.tensors["scales"].double()[:, None])[: packed.out_features, : packed.in_features]


def unpacked_int4(packed):
    """From runs of 576 bytes: 2 x 4 x 64 bytes of halves, 32 steps, 32 minima."""
    blocks, runs = -(-packed.out_features // 32), -(-packed.in_features // 64) * 2
    data = packed.tensors["weights"].view(blocks, runs, 576)
    halves = data[:, :, :512].view(blocks, runs, 4, 2, 16, 4)  # pair of quads, half block, output, input
    quads = torch.stack((halves & 15, halves >> 4), dim=3)  # pair, half block, quad, output, input
    values = quads.permute(0, 4, 5, 1, 2, 3, 6).reshape(blocks * 32, runs, 32).double()
    steps, minima = (
        data[:, :, at : at + 32].permute(0, 2, 1).reshape(blocks * 32, runs, 1).double() for at in (512, 544)
    )
    scale, ratio = (packed.tensors[name].double()[:, None, None] for name in ("scales", "mins"))
    rows = (scale * (steps * values + ratio * minima)).reshape(blocks * 32, runs * 32)
    return rows[: packed.out_features, : packed.in_features]


@pytest.mark.parametrize("shape", [(64, 64), (33, 70), (5, 200)])
def test_int8_is_within_half_a_step(shape):
    weight = random(1, *shape) * torch.logspace(-4, 4, shape[0])[:, None]
    step = weight.abs().amax(dim=1, keepdim=True) / 127
    assert ((unpacked_int8(pack(weight, "int8")) - weight).abs() <= step * 0.5001).all()


@pytest.mark.parametrize("shape", [(64, 64), (33, 70), (5, 200)])
def test_int4_reads_back_and_is_close(shape):
    weight = random(1, *shape) * torch.logspace(-4, 4, shape[0])[:, None]
    found = unpacked_int4(pack(weight, "int4"))
    error = (found - weight).norm(dim=1) / weight.norm(dim=1)
    assert (error < 0.12).all()


def test_kernels_compute_with_the_unpacked_weights():
    """Up to the rounding of activations, which a row of few distinct values does not suffer."""
    x = torch.randint(-3, 4, (4, 128), generator=torch.Generator().manual_seed(2)).float() * 127 / 3
    x[:, ::64] = 127.0
    for kind, unpack in (("int8", unpacked_int8), ("int4", unpacked_int4)):
        packed = pack(random(1, 64, 128), kind)
        out = torch.empty(4, 64)
        norm_linear(x.round(), None, 0.0, packed, out)
        wanted = x.round().double() @ unpack(packed).T
        assert torch.allclose(out.double(), wanted, rtol=1e-5, atol=1e-3 * float(wanted.abs().mean()))


def test_int4_keeps_what_is_already_four_bits():
    """Runs on a grid of 16 steps, as a Q4 checkpoint has them, lose next to nothing."""
    steps = random(1, 32, 4, 1).abs() + 0.1
    weight = (torch.randint(0, 16, (32, 4, 32), generator=torch.Generator().manual_seed(3)) - 7) * steps
    weight[:, :, 0], weight[:, :, 1] = -7 * steps[:, :, 0], 8 * steps[:, :, 0]
    weight = weight.reshape(32, 128)
    assert float((unpacked_int4(pack(weight, "int4")) - weight).norm() / weight.norm()) < 0.01


def test_int4_searches_for_a_better_grid_than_the_extremes():
    weight = random(5, 256, 512)
    error = float((unpacked_int4(pack(weight, "int4")) - weight).norm() / weight.norm())
    runs = weight.view(256, 16, 32)
    low, high = runs.amin(-1, keepdim=True), runs.amax(-1, keepdim=True)
    step = (high - low) / 15
    plain = float((((runs - low) / step).round() * step + low - runs).norm() / weight.norm())
    assert error < 0.94 * plain


@pytest.mark.parametrize("kind", KINDS)
def test_restore_gives_the_same_layer(kind, tmp_path):
    packed = pack(random(1, 50, 100).bfloat16(), kind, bias_N=random(2, 50))
    torch.save(packed.tensors, tmp_path / "packed.pt")
    again = PackedLinear.restore(kind, 50, 100, torch.load(tmp_path / "packed.pt", weights_only=True))
    x, outs = random(3, 3, 100), [torch.empty(3, 50), torch.empty(3, 50)]
    for one, out in zip((packed, again), outs, strict=True):
        norm_linear(x, None, 0.0, one, out)
        assert all(tensor.data_ptr() % 64 == 0 for tensor in one.tensors.values())
    assert torch.equal(*outs)
    assert packed.nbytes == again.nbytes


def test_restore_refuses_what_does_not_fit():
    packed = pack(random(1, 50, 100), "int8")
    for tensors in (
        {"weights": packed.tensors["weights"]},
        packed.tensors | {"weights": packed.tensors["weights"][:-64]},
        packed.tensors | {"other": packed.tensors["scales"]},
    ):
        with pytest.raises(WeightsError, match="do not fit"):
            PackedLinear.restore("int8", 50, 100, tensors)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_are_not_finite_are_refused(kind):
    weight = random(1, 20, 30)
    weight[3, 7] = math.nan
    with pytest.raises(WeightsError, match="1 weights"):
        pack(weight, kind)
    with pytest.raises(WeightsError, match="matrix"):
        pack(random(1, 20, 30).double(), kind)
    with pytest.raises(WeightsError, match="bias"):
        pack(random(1, 20, 30), kind, bias_N=torch.zeros(19))


def test_bytes_read_by_a_call():
    sizes = {kind: pack(random(1, 64, 128), kind).nbytes for kind in KINDS}
    assert sizes == {
        "float32": 64 * 128 * 4,
        "bfloat16": 64 * 128 * 2,
        "int8": 64 * 128 + 256,
        "int4": 64 * 128 * 9 // 16 + 512,
    }
