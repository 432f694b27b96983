"""The one decoder as trainable torch modules: what `models/decoder.py` computes, with gradients.

Modules are called as tensors are in a checkpoint, so that a state dict is one. Rows of a batch hold several texts, one
behind the other: a token sees the earlier ones of its own text only, and nothing is computed for padding. Letters:
B rows, T tokens of a row, C tokens of all texts, R wanted tokens, H hidden size, N head rows (the vocabulary, or the
draft's), A heads, D head size, E half of it. Must not know: laws, files.
Tests: tests/training/test_student.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn import functional

from saguaro.models.config import ModelConfig
from saguaro.models.rope import rope_tables
from saguaro.models.weights.names import EMBEDDING, HEAD


class Dense(nn.Linear):
    """A linear layer with float32 weights whose product is computed in `compute`."""

    compute = torch.float32
    _converted: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.compute is torch.float32:
            return super().forward(x)
        bias = None if self.bias is None else self.bias.to(self.compute)
        weight = self.weight.to(self.compute) if self._converted is None else self._converted
        return functional.linear(x.to(self.compute), weight, bias).float()


@contextmanager
def converted(module: nn.Module) -> Iterator[None]:
    """Within it, every linear layer converts its weight once, however often it is used."""
    layers = [layer for layer in module.modules() if isinstance(layer, Dense) and layer.compute is not torch.float32]
    for layer in layers:
        layer._converted = layer.weight.to(layer.compute)
    try:
        yield
    finally:
        for layer in layers:
            layer._converted = None


class Norm(nn.Module):
    """RMS norm over the last dimension."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


class Attention(nn.Module):
    """Grouped heads with rotated halves."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = config.num_heads, config.num_kv_heads, config.head_dim
        query, value = self.heads * self.size, self.kv_heads * self.size
        self.q_proj = Dense(config.hidden, query, bias=config.qkv_bias)
        self.k_proj = Dense(config.hidden, value, bias=config.qkv_bias)
        self.v_proj = Dense(config.hidden, value, bias=config.qkv_bias)
        self.o_proj = Dense(query, config.hidden, bias=False)
        if config.qk_norm:
            self.q_norm = Norm(self.size, config.rms_eps)
            self.k_norm = Norm(self.size, config.rms_eps)
        self.normed = config.qk_norm

    def forward(self, x_CH: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor], lengths: list[int]) -> torch.Tensor:
        x_CH = x_CH.to(self.q_proj.compute)  # once for all three
        q = self.q_proj(x_CH).view(-1, self.heads, self.size)
        k = self.k_proj(x_CH).view(-1, self.kv_heads, self.size)
        v = self.v_proj(x_CH).view(-1, self.kv_heads, self.size)
        if self.normed:
            q, k = self.q_norm(q), self.k_norm(k)
        group = self.heads // self.kv_heads
        q_ACD = rotate(q, *turn).transpose(0, 1)
        k_ACD = rotate(k, *turn).transpose(0, 1).repeat_interleave(group, dim=0)
        v_ACD = v.transpose(0, 1).repeat_interleave(group, dim=0)
        # Text by text without a mask: keys to the right of a query are not computed at all.
        parts = [
            functional.scaled_dot_product_attention(q_ATD[None], k_ATD[None], v_ATD[None], is_causal=True)[0]
            for q_ATD, k_ATD, v_ATD in zip(*(each.split(lengths, dim=1) for each in (q_ACD, k_ACD, v_ACD)), strict=True)
        ]
        out: torch.Tensor = self.o_proj(torch.cat(parts, dim=1).transpose(0, 1).reshape(x_CH.shape[0], -1))
        return out


class Mlp(nn.Module):
    """Gated SiLU."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_proj = Dense(config.hidden, config.ffn, bias=False)
        self.up_proj = Dense(config.hidden, config.ffn, bias=False)
        self.down_proj = Dense(config.ffn, config.hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.to(self.gate_proj.compute)
        out: torch.Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """One pre-norm block."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.input_layernorm = Norm(config.hidden, config.rms_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = Norm(config.hidden, config.rms_eps)
        self.mlp = Mlp(config)

    def forward(self, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor], lengths: list[int]) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), turn, lengths)
        out: torch.Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Trunk(nn.Module):
    """Embedding, layers and final norm."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab, config.hidden)
        self.layers = nn.ModuleList([Layer(config) for _ in range(config.num_layers)])
        self.norm = Norm(config.hidden, config.rms_eps)


class Student(nn.Module):
    """A draft that learns.

    Args:
        config: sizes; `tied` makes the embedding the head.
        tensors: every parameter by canonical name, kept as float32 copies.
        head_rows: rows of the head, `config.vocab` unless it has some of the vocabulary only.
        trained: which parameters have gradients: `layers`, `head` or `all` (`settings.py`).
        compute: dtype of matrix products.
        device: where everything lies.
    """

    def __init__(
        self,
        config: ModelConfig,
        tensors: Mapping[str, torch.Tensor],
        *,
        head_rows: int | None = None,
        trained: str = "layers",
        compute: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        self.config = config
        with torch.device("meta"):
            self.model = Trunk(config)
            self.lm_head = None if config.tied else Dense(config.hidden, head_rows or config.vocab, bias=False)
        copies = {name: value.to(device, torch.float32, copy=True) for name, value in tensors.items()}
        self.load_state_dict(copies, assign=True, strict=True)
        for name, parameter in self.named_parameters():
            parameter.requires_grad_(trained == "all" or (name != EMBEDDING and (trained == "head" or name != HEAD)))
        self.compute = compute
        for module in self.modules():
            if isinstance(module, Dense):
                module.compute = compute
        self._tables: tuple[torch.Tensor, torch.Tensor] | None = None

    @property
    def head_weight(self) -> torch.Tensor:
        """The head (N, H)."""
        return self.model.embed_tokens.weight if self.lm_head is None else self.lm_head.weight

    def trained(self) -> dict[str, torch.Tensor]:
        """Parameters with gradients, in a fixed order."""
        return {name: value for name, value in self.named_parameters() if value.requires_grad}

    def forward(self, tokens_BT: torch.Tensor, positions_BT: torch.Tensor, text_BT: torch.Tensor) -> torch.Tensor:
        """Normed hidden states (B, T, H), ready for the head.

        Args:
            tokens_BT: int64 ids.
            positions_BT: position of each token in its text.
            text_BT: number of the text that each token belongs to; padding has -1.
        """
        real_BT = text_BT >= 0
        rows = torch.arange(text_BT.shape[0], device=text_BT.device)[:, None]
        numbers_C = (text_BT + rows * (text_BT.shape[1] + 1))[real_BT]
        lengths = torch.unique_consecutive(numbers_C, return_counts=True)[1].tolist()
        turn = self._turn(positions_BT[real_BT])
        x_CH = self.model.embed_tokens(tokens_BT[real_BT])
        for layer in self.model.layers:
            x_CH = layer(x_CH, turn, lengths)
        x_CH = self.model.norm(x_CH)
        out = x_CH.new_zeros(*text_BT.shape, x_CH.shape[-1])
        out[real_BT] = x_CH
        return out

    def logits(self, hidden_RH: torch.Tensor) -> torch.Tensor:
        """Logits (R, N) float32 of normed hidden states."""
        return head_logits(hidden_RH, self.head_weight.to(self.compute))

    def _turn(self, positions_C: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        needed = int(positions_C.max()) + 1
        if self._tables is None or self._tables[0].shape[0] < needed:
            cos_PE, sin_PE = rope_tables(self.config, needed)
            self._tables = (cos_PE.to(positions_C.device), sin_PE.to(positions_C.device))
        cos_PE, sin_PE = self._tables
        return cos_PE[positions_C].unsqueeze(1), sin_PE[positions_C].unsqueeze(1)


def head_logits(hidden_RH: torch.Tensor, weight_NH: torch.Tensor) -> torch.Tensor:
    """Logits (R, N) float32; the product is computed in the dtype of the weight."""
    return functional.linear(hidden_RH.to(weight_NH.dtype), weight_NH).float()


def rotate(x_CAD: torch.Tensor, cos_C1E: torch.Tensor, sin_C1E: torch.Tensor) -> torch.Tensor:
    """Rotate the pairs (x[i], x[i + D/2])."""
    a, b = x_CAD.chunk(2, dim=-1)
    return torch.cat((a * cos_C1E - b * sin_C1E, b * cos_C1E + a * sin_C1E), dim=-1)
