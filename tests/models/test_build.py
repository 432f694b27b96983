"""From a checkpoint to a model: members of the operations table, kinds, roles, table models."""

import pytest
import torch

from saguaro.errors import ConfigError
from saguaro.models.build import build_model, make_ops
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.layers.native_ops import NativeOps


@pytest.mark.parametrize(
    ("name", "kind", "options", "word"),
    [
        ("nativ", "int8", {}, "did you mean 'native'"),
        ("torch", "int8", {}, "'torch' operations compute in float32 or bfloat16"),
        ("native", "int9", {}, "int9"),
        ("native", "int8", {"kinds": {"hed": "float32"}}, "did you mean 'head'"),
    ],
)
def test_refusals(name, kind, options, word):
    with pytest.raises(ConfigError, match=word):
        make_ops(name, kind, **options)


def test_a_dotted_path_is_a_member(logits_of):
    ops = make_ops("saguaro.models.layers.torch_ops:TorchOps", "float32")
    assert logits_of(build_model(open_checkpoint("toy:llama"), ops), [1, 2]).shape == (2, 512)


def test_single_roles_may_be_kept_in_another_kind(logits_of):
    checkpoint = open_checkpoint("toy:llama")
    exact = logits_of(build_model(checkpoint, NativeOps("float32")), list(range(20)))
    errors = {}
    for name, kinds in {"all": {}, "no head": {"head": "float32"}}.items():
        model = build_model(checkpoint, NativeOps("int8", kinds=kinds))
        errors[name] = (logits_of(model, list(range(20))) - exact).std().item()
    assert 0 < errors["no head"] < errors["all"]
    assert NativeOps("int8").layout != NativeOps("int8", kinds={"head": "float32"}).layout


def test_pools_are_wide_only_for_float32():
    kinds = ("float32", "bfloat16", "int8", "int4")
    assert [NativeOps(kind).pool_dtype for kind in kinds] == [torch.float32, *([torch.bfloat16] * 3)]


def test_a_table_model_takes_no_shortlist():
    with pytest.raises(ConfigError, match="shortlist"):
        build_model(open_checkpoint("toy:markov"), make_ops("native", "int8"), head_ids=[1])


def test_bytes_a_pass_reads():
    checkpoint = open_checkpoint("toy:llama?vocab=512&hidden=64&layers=2&ffn=128")
    sizes = {kind: build_model(checkpoint, NativeOps(kind)).weight_bytes for kind in ("float32", "bfloat16", "int8")}
    matrices = 512 * 64 + 2 * (128 * 64 + 64 * 64 + 256 * 64 + 64 * 128)
    assert sizes["float32"] == 4 * matrices
    assert sizes["bfloat16"] == 2 * matrices
    assert matrices < sizes["int8"] < 1.1 * matrices
