"""Which tensors a decoder has, by canonical (safetensors) name, and how GGUF files call them.

Shapes are rows first: a linear is (outputs, inputs). Must not know: files. Tests: tests/models/test_names.py.
"""

from __future__ import annotations

from saguaro.models.config import ModelConfig

EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"
HEAD = "lm_head.weight"
DRAFT_TO_TARGET, TARGET_TO_DRAFT = "d2t", "t2d"
"""The map of a head that has some of the vocabulary only (target id = row + d2t[row]), and its inverse as a mask."""

FUSE, INPUT_NORM = "fc.weight", "input_norm.weight"
"""Of an EAGLE-3 head: what makes one hidden state of all taps, and their norm before that."""

# canonical part inside a layer -> part of the GGUF name
LAYER_PARTS = {
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.q_proj.bias": "attn_q.bias",
    "self_attn.k_proj.bias": "attn_k.bias",
    "self_attn.v_proj.bias": "attn_v.bias",
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}
WHOLE_PARTS = {EMBEDDING: "token_embd.weight", FINAL_NORM: "output_norm.weight", HEAD: "output.weight"}
GGUF_ROPE = "rope_freqs.weight"


def layer_name(layer: int, part: str) -> str:
    """Canonical name of `part` in layer `layer`."""
    return f"model.layers.{layer}.{part}"


def hidden_norm() -> str:
    """Of an EAGLE-3 head: the norm of the hidden state beside the embedding's."""
    return layer_name(0, "hidden_norm.weight")


def tap_norm(index: int) -> str:
    """Of an EAGLE-3 head: the norm of one tap."""
    return f"fc_norm.{index}.weight"


def parameters(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every parameter of the model, head left out when it is tied."""
    names = _decoder_parameters(config)
    shape = config.eagle3
    if shape is None:
        return names
    if not shape.own_embedding:
        del names[EMBEDDING]
    for which in "qkv":
        name = layer_name(0, f"self_attn.{which}_proj.weight")
        names[name] = (names[name][0], 2 * config.hidden)
    names[hidden_norm()] = (config.hidden,)
    if shape.fused:
        names[FUSE] = (config.hidden, shape.tap_width)
    if shape.tap_norms:
        names |= {tap_norm(index): (shape.target_hidden,) for index in range(shape.num_taps)}
    if shape.input_norm:
        names[INPUT_NORM] = (shape.tap_width,)
    return names


def _decoder_parameters(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    hidden, query, value = config.hidden, config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (query, hidden),
        "self_attn.k_proj.weight": (value, hidden),
        "self_attn.v_proj.weight": (value, hidden),
        "self_attn.o_proj.weight": (hidden, query),
        "post_attention_layernorm.weight": (hidden,),
        "mlp.gate_proj.weight": (config.ffn, hidden),
        "mlp.up_proj.weight": (config.ffn, hidden),
        "mlp.down_proj.weight": (hidden, config.ffn),
    }
    if config.qkv_bias:
        layer |= {f"self_attn.{p}_proj.bias": (rows,) for p, rows in (("q", query), ("k", value), ("v", value))}
    if config.qk_norm:
        layer |= {f"self_attn.{p}_norm.weight": (config.head_dim,) for p in ("q", "k")}
    names: dict[str, tuple[int, ...]] = {EMBEDDING: (config.vocab, hidden)}
    for index in range(config.num_layers):
        names |= {layer_name(index, part): shape for part, shape in layer.items()}
    names[FINAL_NORM] = (hidden,)
    if not config.tied:
        names[HEAD] = (config.head_rows, hidden)
    return names


def from_gguf_name(name: str) -> str:
    """Canonical name of a GGUF tensor; an unknown one keeps its own name."""
    for canonical, gguf in WHOLE_PARTS.items():
        if name == gguf:
            return canonical
    if name.startswith("blk."):
        index, _, part = name[4:].partition(".")
        for canonical, gguf in LAYER_PARTS.items():
            if part == gguf and index.isdigit():
                return layer_name(int(index), canonical)
    return name


def is_harmless(name: str, *, tied: bool) -> bool:
    """Surplus tensors that mean nothing: a stored copy of a tied head, and frequency buffers of old files."""
    return (tied and name == HEAD) or name.endswith("rotary_emb.inv_freq") or name == GGUF_ROPE
