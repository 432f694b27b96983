"""Outputs moved between packed layers keep their bits, whatever block and lane they come from and go to."""

import pytest
import torch

from saguaro.native import KINDS, copy_rows, norm_linear, pack, select_rows


def random(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def outputs_of(packed, x):
    out = torch.empty(x.shape[0], packed.out_features)
    norm_linear(x, None, 0.0, packed, out)
    return out


def places(seed, high, count):
    return torch.randint(0, high, (count,), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "inputs"), [(1, 64), (33, 70), (100, 200)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_selection_computes_what_the_whole_does(kind, count, inputs, bias):
    whole = pack(random(1, 130, inputs), kind, bias_N=random(2, 130) if bias else None)
    rows, x = places(3, 130, count), random(4, 3, inputs)
    chosen = select_rows(whole, rows)
    assert (chosen.out_features, chosen.in_features, chosen.kind) == (count, inputs, kind)
    assert torch.equal(outputs_of(chosen, x), outputs_of(whole, x)[:, rows])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_change_in_place_and_no_other_does(kind):
    whole, part = pack(random(1, 130, 96), kind), pack(random(5, 70, 96), kind)
    source, target = torch.tensor([129, 0, 64, 17]), torch.tensor([0, 69, 33, 31])
    x = random(4, 2, 96)
    wanted = outputs_of(part, x)
    wanted[:, target] = outputs_of(whole, x)[:, source]
    address = part.tensors["weights"].data_ptr()
    copy_rows(whole, source, part, target)
    assert torch.equal(outputs_of(part, x), wanted)
    assert part.tensors["weights"].data_ptr() == address
    copy_rows(whole, torch.empty(0, dtype=torch.int64), part, torch.empty(0, dtype=torch.int64))
    assert torch.equal(outputs_of(part, x), wanted)


def test_what_does_not_fit_is_refused():
    whole, part = pack(random(1, 40, 64), "int8"), pack(random(2, 40, 64), "int8")
    one = torch.tensor([0])
    for rows in ([40], [-1]):
        with pytest.raises(IndexError, match=r"0 \.\.\. 39"):
            copy_rows(whole, torch.tensor(rows), part, one)
        with pytest.raises(IndexError, match=r"0 \.\.\. 39"):
            copy_rows(whole, one, part, torch.tensor(rows))
    for other in (pack(random(1, 40, 64), "int4"), pack(random(1, 40, 128), "int8")):
        with pytest.raises(ValueError, match="do not fit"):
            copy_rows(whole, one, other, one)
    with pytest.raises(ValueError, match="do not fit"):
        copy_rows(whole, one, pack(random(1, 40, 64), "int8", bias_N=random(2, 40)), one)
