"""Sizes by hand for a model that is small enough."""

import pytest

from saguaro.bench.sizes import WEIGHT_BYTES, sizes

SMALL = "toy:llama?layers=2&hidden=64&heads=4&kv_heads=2&ffn=128&vocab=512"
LAYER = 64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 64 * 128 + 2 * 64


@pytest.mark.parametrize("dtype", WEIGHT_BYTES)
def test_by_hand(dtype):
    found = sizes(SMALL, dtype)
    assert (found.streamed, found.table) == (2 * LAYER + 64 + 512 * 64, 512 * 64)
    assert found.streamed_bytes == int(found.streamed * WEIGHT_BYTES[dtype])
    wide = 4 if dtype == "float32" else 2
    assert (found.table_bytes, found.slot_bytes) == (512 * 64 * wide, 2 * 2 * 2 * 16 * wide)


def test_a_tied_head_is_read_all_the_same():
    assert sizes(SMALL + "&tied=1", "int8") == sizes(SMALL, "int8")
