"""A head over some tokens gives their logits to the bit, also after columns have changed."""

import pytest
import torch

from saguaro.models.build import build_model, make_ops
from saguaro.models.checkpoint import open_checkpoint

IDS = [5, 6, 7]
KEPT = [300, 7, 3, 511, 0, 64]
MEMBERS = [("native", kind) for kind in ("float32", "bfloat16", "int8", "int4")] + [("torch", "float32")]


@pytest.mark.parametrize(("name", "kind"), MEMBERS)
@pytest.mark.parametrize("source", ["toy:llama", "toy:qwen2?tied=1"])
def test_columns_are_those_of_the_whole_head(name, kind, source, logits_of, tmp_path):
    checkpoint = open_checkpoint(source)
    whole = logits_of(build_model(checkpoint, make_ops(name, kind)), IDS)
    folders = (None, tmp_path, tmp_path) if name == "native" else (None,)  # packed now, written, mapped
    for folder in folders:
        model = build_model(checkpoint, make_ops(name, kind), cache_dir=folder, head_ids=KEPT, fixed=2)
        head = model.short_head
        assert (head.ids_S.tolist(), head.fixed) == (KEPT, 2)
        compare(logits_of(model, IDS), whole[:, KEPT], exact=name == "native")
        before = head.ids_S
        head.replace([5, 2], [65, 300])
        assert before.tolist() == KEPT, "a law may hold on to it"
        now = [300, 7, 300, 511, 0, 65]
        assert head.ids_S.tolist() == now
        compare(logits_of(model, IDS), whole[:, now], exact=name == "native")


def compare(found, wanted, *, exact):
    torch.testing.assert_close(found, wanted, rtol=0, atol=0 if exact else 1e-4)


def test_a_token_or_a_column_that_there_is_not():
    head = build_model(open_checkpoint("toy:llama"), make_ops("native", "int8"), head_ids=KEPT).short_head
    for columns, ids in (([0], [512]), ([6], [0])):
        with pytest.raises(IndexError):
            head.replace(columns, ids)
    assert head.ids_S.tolist() == KEPT


def test_a_pass_reads_the_short_head_only():
    checkpoint = open_checkpoint("toy:llama?vocab=512&hidden=64&layers=2&ffn=128")
    whole, short = (
        build_model(checkpoint, make_ops("native", "float32"), head_ids=ids) for ids in (None, list(range(64)))
    )
    assert whole.weight_bytes - short.weight_bytes == 4 * (512 - 64) * 64
