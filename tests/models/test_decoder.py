"""The decoder against transformers: tiny random checkpoints written by them, read by us (B73-B75, R06)."""

import pytest
import torch

from saguaro.errors import WeightsError
from saguaro.models.build import build_model, make_ops
from saguaro.models.checkpoint import open_checkpoint

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 512,
}
CASES = {
    "llama, scaling by 8": ("llama", {"rope_parameters": LLAMA3 | {"factor": 8.0}}),
    "llama, scaling by 32, tied": (
        "llama",
        {"rope_parameters": LLAMA3 | {"factor": 32.0}, "tie_word_embeddings": True},
    ),
    "llama 2, one kv head a head": ("llama", {"num_key_value_heads": 4}),
    "smollm, three heads a kv head": ("llama", {"hidden_size": 96, "num_attention_heads": 6, "num_key_value_heads": 2}),
    "qwen2": ("qwen2", {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}),
    "qwen2, tied, seven heads a kv head": (
        "qwen2",
        {"hidden_size": 112, "num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": True},
    ),
    "qwen3, own head size": ("qwen3", {"head_dim": 32}),
    "qwen3, tied": ("qwen3", {"head_dim": 16, "tie_word_embeddings": True}),
}
# Neighbours and far jumps: every pair of them is a distance that attention must get right.
POSITIONS = [0, 1, 2, 3, 100, 101, 511, 512, 1023, 2048, 3000, 4095, 4096, 4998, 4999, 5000]


@pytest.mark.parametrize("name", CASES)
def test_logits_equal_transformers(name, save_tiny, logits_of):
    family, changes = CASES[name]
    theirs, directory = save_tiny(family, **changes)
    model = build_model(open_checkpoint(str(directory)), make_ops("torch", "float32"))
    ids = torch.randint(0, 96, (len(POSITIONS),), generator=torch.Generator().manual_seed(1)).tolist()
    with torch.no_grad():
        expected = theirs(torch.tensor([ids]), position_ids=torch.tensor([POSITIONS])).logits[0]
    assert expected.std() > 0.5, "flat logits would agree with anything"
    torch.testing.assert_close(logits_of(model, ids, positions=POSITIONS), expected, rtol=0, atol=1e-4)


def test_scaling_matters_at_these_positions(save_tiny, logits_of, edit_config):
    """The same weights without scaling must differ, or the test above would not see it being ignored."""
    _, directory = save_tiny("llama", rope_parameters=LLAMA3 | {"factor": 8.0})
    ids = list(range(len(POSITIONS)))
    scaled = logits_of(
        build_model(open_checkpoint(str(directory)), make_ops("torch", "float32")), ids, positions=POSITIONS
    )
    edit_config(directory, rope_parameters={"rope_type": "default", "rope_theta": 500000.0})
    plain = logits_of(
        build_model(open_checkpoint(str(directory)), make_ops("torch", "float32")), ids, positions=POSITIONS
    )
    assert (scaled - plain).abs().max() > 1e-2


def test_old_spelling_of_the_same_config_gives_the_same_logits(save_tiny, logits_of, edit_config):
    _, directory = save_tiny("llama", rope_parameters=LLAMA3 | {"factor": 8.0})
    new = logits_of(
        build_model(open_checkpoint(str(directory)), make_ops("torch", "float32")), [1, 2], positions=[0, 5000]
    )
    scaling = {("type" if k == "rope_type" else k): v for k, v in LLAMA3.items() if k != "rope_theta"} | {"factor": 8.0}
    edit_config(
        directory, rope_parameters=None, rope_theta=500000, rope_scaling=scaling, dtype=None, torch_dtype="float32"
    )
    old = logits_of(
        build_model(open_checkpoint(str(directory)), make_ops("torch", "float32")), [1, 2], positions=[0, 5000]
    )
    assert torch.equal(old, new)


def test_bfloat16_is_near_float32(save_tiny, logits_of):
    _, directory = save_tiny("qwen2")
    checkpoint = open_checkpoint(str(directory))
    exact = logits_of(build_model(checkpoint, make_ops("torch", "float32")), list(range(20)))
    rounded = logits_of(build_model(checkpoint, make_ops("torch", "bfloat16")), list(range(20)))
    assert 0 < (exact - rounded).abs().max() < 0.1 * exact.abs().max()


def test_a_tied_head_beside_a_stored_copy_uses_the_embedding(save_tiny, logits_of):
    """The stated rule: where config.json says tied, a stored `lm_head.weight` is ignored."""
    from safetensors.torch import load_file, save_file

    theirs, directory = save_tiny("qwen3", head_dim=16, tie_word_embeddings=True)
    tensors = load_file(directory / "model.safetensors")
    save_file(tensors | {"lm_head.weight": torch.zeros(96, 64)}, directory / "model.safetensors")
    model = build_model(open_checkpoint(str(directory)), make_ops("torch", "float32"))
    with torch.no_grad():
        expected = theirs(torch.tensor([[1, 2, 3]])).logits[0]
    torch.testing.assert_close(logits_of(model, [1, 2, 3]), expected, rtol=0, atol=1e-4)


def test_an_untied_model_without_a_head_is_refused_by_name(save_tiny, edit_config):
    _, directory = save_tiny("qwen2", tie_word_embeddings=True)
    edit_config(directory, tie_word_embeddings=False)
    with pytest.raises(WeightsError, match=r"missing: lm_head\.weight"):
        build_model(open_checkpoint(str(directory)), make_ops("torch", "float32"))


def test_a_shortlist_keeps_columns_of_the_head(save_tiny, logits_of):
    _, directory = save_tiny("llama")
    checkpoint, ops = open_checkpoint(str(directory)), make_ops("torch", "float32")
    whole = logits_of(build_model(checkpoint, ops), [5, 6, 7])
    model = build_model(checkpoint, ops, head_ids=[3, 90, 7])
    assert model.short_head.ids_S.tolist() == [3, 90, 7]
    torch.testing.assert_close(logits_of(model, [5, 6, 7]), whole[:, [3, 90, 7]])


def test_an_interrupt_between_layers_gives_the_pass_up(save_tiny, run_row):
    _, directory = save_tiny("llama", num_hidden_layers=4)
    model = build_model(open_checkpoint(str(directory)), make_ops("torch", "float32"))
    asked = []

    def after_two_layers() -> bool:
        asked.append(1)
        return len(asked) > 2

    assert run_row(model, [1, 2, 3], interrupt=after_two_layers) is None
    assert len(asked) == 3
    assert run_row(model, [1, 2, 3], interrupt=lambda: False).shape == (3, 64)


def test_positions_and_tokens_out_of_range_are_errors_and_not_reads_of_foreign_memory(save_tiny, logits_of):
    _, directory = save_tiny("llama")
    model = build_model(open_checkpoint(str(directory)), make_ops("torch", "float32"), max_positions=16)
    with pytest.raises(IndexError, match="position 16"):
        logits_of(model, [1, 2], positions=[0, 16])
    with pytest.raises(IndexError):
        logits_of(model, [1, 96])
