"""GGUF files: container, block formats, q/k order, tied heads, scaling tensor, splits (traps 6 to 9)."""

import struct

import gguf
import numpy as np
import pytest
import torch

from saguaro.errors import ConfigError, SaguaroError, WeightsError
from saguaro.models.build import build_model, make_ops
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.config import RopeScaling
from saguaro.models.rope import frequencies
from saguaro.models.weights.gguf import dequantise, unpermute
from saguaro.models.weights.gguf_header import TENSOR_TYPES, GgufFile
from saguaro.models.weights.names import LAYER_PARTS, WHOLE_PARTS

QuantType = gguf.GGMLQuantizationType


def gguf_name(name: str) -> str:
    if name in WHOLE_PARTS:
        return WHOLE_PARTS[name]
    _, _, layer, part = name.split(".", 3)
    return f"blk.{layer}.{LAYER_PARTS[part]}"


def permute(rows: np.ndarray, heads: int) -> np.ndarray:
    """What converters of llama files do to q and k: row j of a head goes to 2j, row j + d/2 to 2j + 1."""
    out = np.empty_like(rows)
    size = rows.shape[0] // heads
    for head in range(heads):
        for j in range(size // 2):
            out[head * size + 2 * j] = rows[head * size + j]
            out[head * size + 2 * j + 1] = rows[head * size + j + size // 2]
    return out


@pytest.fixture
def write_gguf(tmp_path):
    """Write a model of transformers as a GGUF file; returns its path."""

    def write(theirs, family, *, kind=QuantType.F32, keys=None, extra=None, drop=(), name="model.gguf"):
        config, path = theirs.config, tmp_path / name
        writer = gguf.GGUFWriter(path, family)
        writer.add_block_count(config.num_hidden_layers)
        writer.add_context_length(config.max_position_embeddings)
        writer.add_embedding_length(config.hidden_size)
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count(config.num_attention_heads)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
        if family == "qwen3":
            writer.add_key_length(config.head_dim)
            writer.add_value_length(config.head_dim)
        for key, value in (keys or {}).items():
            writer.add_string(key, value)
        tensors = {key: value.detach().float().numpy() for key, value in theirs.state_dict().items()}
        if config.tie_word_embeddings:
            tensors.pop("lm_head.weight")
        for key, value in tensors.items():
            if key in drop:
                continue
            if family == "llama" and ".q_proj" in key:
                value = permute(value, config.num_attention_heads)
            if family == "llama" and ".k_proj" in key:
                value = permute(value, config.num_key_value_heads)
            stored = QuantType.F32 if value.ndim == 1 else kind
            writer.add_tensor(gguf_name(key), gguf.quants.quantize(value, stored), raw_dtype=stored)
        for key, value in (extra or {}).items():
            writer.add_tensor(key, value)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write


def load(path):
    return build_model(open_checkpoint(str(path)), make_ops("torch", "float32"))


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_model_comes_back_as_it_was(family, tied, save_tiny, write_gguf, logits_of):
    changes = {"head_dim": 32} if family == "qwen3" else {}
    theirs, _ = save_tiny(family, tie_word_embeddings=tied, **changes)
    path = write_gguf(theirs, family)
    for name, tensor in open_checkpoint(str(path)).tensors():
        assert torch.equal(tensor, theirs.state_dict()[name]), name
    with torch.no_grad():
        expected = theirs(torch.tensor([[5, 6, 7, 8, 9]])).logits[0]
    torch.testing.assert_close(logits_of(load(path), [5, 6, 7, 8, 9]), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
def test_quantised_models_equal_their_dequantised_weights(kind, save_tiny, write_gguf, logits_of):
    """Also for `llama`, whose rows are put back on the stored blocks."""
    theirs, _ = save_tiny("llama", intermediate_size=96)
    path = write_gguf(theirs, "llama", kind=QuantType[kind])
    with torch.no_grad():
        for parameter in theirs.parameters():
            if parameter.ndim == 2:
                stored = gguf.quants.quantize(parameter.numpy(), QuantType[kind])
                parameter.copy_(torch.from_numpy(gguf.quants.dequantize(stored, QuantType[kind])))
    for name, tensor in open_checkpoint(str(path)).tensors():
        assert torch.equal(tensor.float(), theirs.state_dict()[name]), name
    with torch.no_grad():
        expected = theirs(torch.tensor([[5, 6, 7, 8, 9]])).logits[0]
    torch.testing.assert_close(logits_of(load(path), [5, 6, 7, 8, 9]), expected, rtol=0, atol=1e-4)


def by_hand(kind: str, block: bytes) -> list[float]:
    """The values of one block, written from the format's description, one element after another."""
    half = lambda at: struct.unpack_from("<e", block, at)[0]  # noqa: E731
    nibble = lambda at, j, n: block[at + j % n] >> (4 * (j // n)) & 15  # noqa: E731
    if kind == "Q4_0":
        return [half(0) * (nibble(2, j, 16) - 8) for j in range(32)]
    if kind == "Q4_1":
        return [half(0) * nibble(4, j, 16) + half(2) for j in range(32)]
    if kind == "Q5_0":
        high = struct.unpack_from("<I", block, 2)[0]
        return [half(0) * ((nibble(6, j, 16) + 16 * (high >> j & 1)) - 16) for j in range(32)]
    if kind == "Q5_1":
        high = struct.unpack_from("<I", block, 4)[0]
        return [half(0) * (nibble(8, j, 16) + 16 * (high >> j & 1)) + half(2) for j in range(32)]
    if kind == "Q8_0":
        return [half(0) * q for q in struct.unpack_from("<32b", block, 2)]
    if kind == "Q6_K":
        scales, d, values = struct.unpack_from("<16b", block, 192), half(208), []
        for j in range(256):
            part, r, l = j // 128, j % 128 // 32, j % 32
            low = block[64 * part + l + 32 * (r % 2)] >> (4 * (r // 2)) & 15
            high = block[128 + 32 * part + l] >> (2 * r) & 3
            values.append(d * scales[8 * part + 2 * r + l // 16] * (low + 16 * high - 32))
        return values
    d, dmin, s12 = half(0), half(2), block[4:16]
    values = []
    for j in range(256):
        s, l = j // 32, j % 32
        if s < 4:
            scale, least = s12[s] & 63, s12[s + 4] & 63
        else:
            scale = (s12[s + 4] & 15) + 16 * (s12[s - 4] >> 6)
            least = (s12[s + 4] >> 4) + 16 * (s12[s] >> 6)
        at = (16 if kind == "Q4_K" else 48) + 32 * (s // 2) + l
        number = block[at] >> (4 * (s % 2)) & 15
        if kind == "Q5_K":
            number += 16 * (block[16 + l] >> s & 1)
        values.append(d * scale * number - dmin * least)
    return values


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"])
def test_blocks_hold_what_the_format_says(kind):
    size = next(row[2] for row in TENSOR_TYPES.values() if row[0] == kind)
    raw = np.random.default_rng(7).integers(0, 256, (6, 3 * size), dtype=np.uint8)
    for at in {"Q6_K": (208,), "Q4_0": (0,), "Q5_0": (0,), "Q8_0": (0,)}.get(kind, (0, 2)):
        for block in range(3):  # finite scales of ordinary size
            raw[:, block * size + at + 1] = 0x2C + block
    values = dequantise(raw, kind)
    expected = [[v for b in range(3) for v in by_hand(kind, row[b * size : (b + 1) * size].tobytes())] for row in raw]
    np.testing.assert_allclose(values, np.array(expected), rtol=1e-5, atol=1e-6)


def test_long_matrices_are_decoded_in_pieces(monkeypatch):
    monkeypatch.setattr("saguaro.models.weights.gguf.CHUNK_BYTES", 100)
    raw = np.random.default_rng(7).integers(0, 256, (11, 34), dtype=np.uint8)
    raw[:, 1] = 0x2C
    expected = gguf.quants.dequantize(raw, QuantType.Q8_0)
    assert np.array_equal(dequantise(raw, "Q8_0"), expected)


def test_rows_of_a_head_go_back_to_halves():
    rows = np.arange(2 * 6 * 3).reshape(12, 3)
    assert np.array_equal(unpermute(permute(rows, 2), 2), rows)
    assert not np.array_equal(permute(rows, 2), rows)


def test_a_head_that_is_stored_is_used_although_the_model_is_tied(save_tiny, write_gguf, logits_of):
    theirs, _ = save_tiny("qwen2", tie_word_embeddings=True)
    path = write_gguf(theirs, "qwen2", extra={"output.weight": np.zeros((96, 64), dtype=np.float32)})
    assert not open_checkpoint(str(path)).config.tied
    assert not logits_of(load(path), [1, 2]).any()


def test_the_scaling_tensor_of_llama_3_is_read(save_tiny, write_gguf, logits_of):
    scaling = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 512,
    }
    theirs, directory = save_tiny("llama", rope_parameters=scaling)
    ours = open_checkpoint(str(directory)).config
    assert ours.rope.kind == "llama3"
    plain = frequencies(type(ours)(**(vars(ours) | {"rope": RopeScaling()})))
    divisors = (plain / frequencies(ours)).numpy()
    path = write_gguf(theirs, "llama", extra={"rope_freqs.weight": divisors})
    positions = [0, 300, 2000, 5000]
    with torch.no_grad():
        expected = theirs(torch.tensor([[5, 6, 7, 8]]), position_ids=torch.tensor([positions])).logits[0]
    torch.testing.assert_close(logits_of(load(path), [5, 6, 7, 8], positions=positions), expected, rtol=0, atol=1e-4)


def test_missing_and_unknown_tensors_are_named(save_tiny, write_gguf):
    theirs, _ = save_tiny("llama")
    name = "model.layers.1.mlp.up_proj.weight"
    with pytest.raises(WeightsError, match=f"missing: {name}"):
        load(write_gguf(theirs, "llama", drop=(name,)))
    odd = write_gguf(theirs, "llama", extra={"blk.1.ffn_gate_inp.weight": np.zeros((2, 64), np.float32)}, name="b.gguf")
    with pytest.raises(WeightsError, match=r"unknown: blk\.1\.ffn_gate_inp\.weight"):
        load(odd)


def test_splits_are_joined_and_a_missing_one_is_named(save_tiny, tmp_path, write_gguf, logits_of):
    theirs, _ = save_tiny("llama")
    whole = write_gguf(theirs, "llama")
    expected = logits_of(load(whole), [5, 6, 7])
    tensors = {info.name: info for info in GgufFile(whole).tensors.values()}
    names = sorted(tensors)
    source = gguf.GGUFReader(whole)
    stored = {tensor.name: tensor for tensor in source.tensors}
    first, second = (tmp_path / f"part-0000{index}-of-00002.gguf" for index in (1, 2))
    for number, path in enumerate((first, second)):
        writer = gguf.GGUFWriter(path, "llama")
        if number == 0:
            for key, field in source.fields.items():
                if key.startswith("llama."):
                    writer.add_key_value(key, field.contents(), field.types[0])
        writer.add_uint16("split.no", number)
        writer.add_uint16("split.count", 2)
        writer.add_int32("split.tensors.count", len(names))
        for name in names[number::2]:
            writer.add_tensor(name, np.array(stored[name].data), raw_dtype=stored[name].tensor_type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    for path in (first, second):
        assert torch.equal(logits_of(load(path), [5, 6, 7]), expected), "either part opens the whole"
    second.unlink()
    with pytest.raises(WeightsError, match=r"part-00002-of-00002\.gguf is missing"):
        load(first)


def test_cut_and_damaged_files_are_one_sentence(save_tiny, write_gguf, tmp_path):
    whole = write_gguf(save_tiny("llama")[0], "llama").read_bytes()
    damaged = tmp_path / "damaged.gguf"
    for keep in [0, 3, 4, 8, 16, 20, 24, 60, 200, 500, 900, len(whole) // 2, len(whole) - 1]:
        damaged.write_bytes(whole[:keep])
        with pytest.raises(SaguaroError, match=r"damaged\.gguf|GGUF"):
            load(damaged)
    for version in (1, 4):
        damaged.write_bytes(whole[:4] + struct.pack("<I", version) + whole[8:])
        with pytest.raises(WeightsError, match=f"version {version}"):
            load(damaged)
    damaged.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60))
    with pytest.raises(WeightsError, match="damaged"):
        load(damaged)


def test_types_that_are_not_read_are_named(tmp_path):
    path = tmp_path / "odd.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("token_embd.weight", np.zeros((4, 110), np.uint8), raw_shape=(4, 110), raw_dtype=QuantType.Q3_K)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(WeightsError, match=r"token_embd\.weight is stored in GGUF type 11"):
        open_checkpoint(str(path))


def test_no_architecture_and_an_unknown_one(tmp_path):
    for architecture, word in (("clip", "clip"), ("lama", "did you mean 'llama'")):
        path = tmp_path / f"{architecture}.gguf"
        writer = gguf.GGUFWriter(path, architecture)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        with pytest.raises(ConfigError, match=word):
            open_checkpoint(str(path))
