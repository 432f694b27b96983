"""An EAGLE-3 head as trainable torch modules, run on its own states for as many steps as a proposal has tokens.

What `models/eagle3.py` computes, with gradients, and under the authors' names. Step 1 pairs each token with the taps of
the token before; step s pairs it with the state that step s - 1 gave there, and sees the keys of step 1 up to the place
where its chain of s pairs began, then those of the chain. So one pass has every proposal that could begin anywhere in
the text (the paper's training-time test). Letters: B rows, T tokens of a row, W numbers of a token's taps, H hidden
size, A heads, D head size, R learnt places. Must not know: laws, files. Tests: tests/training/test_eagle3.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import nn

from saguaro.models.config import ModelConfig
from saguaro.models.rope import rope_tables
from saguaro.training.student import Dense, Mlp, Norm, head_logits, rotate

Turn = tuple[torch.Tensor, torch.Tensor]
HIDDEN = -1e9
"""Score of a key that is not seen: finite, so that a place without any has no NaN."""


class HeadAttention(nn.Module):
    """Attention over pairs: twice the width in, keys of step 1 and of the chain."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = config.num_heads, config.num_kv_heads, config.head_dim
        query, value = self.heads * self.size, self.kv_heads * self.size
        self.q_proj = Dense(2 * config.hidden, query, bias=False)
        self.k_proj = Dense(2 * config.hidden, value, bias=False)
        self.v_proj = Dense(2 * config.hidden, value, bias=False)
        self.o_proj = Dense(query, config.hidden, bias=False)

    def forward(
        self,
        pairs_BTI: torch.Tensor,
        turn: Turn,
        seen_B1TT: torch.Tensor,
        chain: list[tuple[torch.Tensor, torch.Tensor]],
    ) -> torch.Tensor:
        """Attend; this step's keys and values join `chain`, whose first entry is step 1."""
        rows, tokens, _ = pairs_BTI.shape
        group = self.heads // self.kv_heads
        q = rotate(self.q_proj(pairs_BTI).view(rows, tokens, self.heads, self.size), *turn).transpose(1, 2)
        k = rotate(self.k_proj(pairs_BTI).view(rows, tokens, self.kv_heads, self.size), *turn)
        v = self.v_proj(pairs_BTI).view(rows, tokens, self.kv_heads, self.size)
        k, v = (x.transpose(1, 2).repeat_interleave(group, dim=1) for x in (k, v))
        chain.append((k, v))
        first_k, first_v = chain[0]
        scores = [(q @ first_k.transpose(2, 3)).masked_fill(~seen_B1TT, HIDDEN)]
        back = [
            (own_k.roll(len(chain) - step, dims=2), own_v.roll(len(chain) - step, dims=2))
            for step, (own_k, own_v) in enumerate(chain[1:], start=2)
        ]
        scores += [(q * own_k).sum(-1, keepdim=True) for own_k, _ in back]
        weights = (torch.cat(scores, dim=-1) / math.sqrt(self.size)).softmax(-1)
        mixed = weights[..., :tokens] @ first_v
        for place, (_, own_v) in enumerate(back):
            mixed = mixed + weights[..., tokens + place, None] * own_v
        out: torch.Tensor = self.o_proj(mixed.transpose(1, 2).reshape(rows, tokens, -1))
        return out


class HeadLayer(nn.Module):
    """The one layer."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.input_layernorm = Norm(config.hidden, config.rms_eps)
        self.hidden_norm = Norm(config.hidden, config.rms_eps)
        self.self_attn = HeadAttention(config)
        self.post_attention_layernorm = Norm(config.hidden, config.rms_eps)
        self.mlp = Mlp(config)


class HeadStudent(nn.Module):
    """A head that learns.

    Args:
        config: of the head (`eagle3` is set), with one layer.
        tensors: every parameter by the authors' names.
        embedding_VH: the target's; it does not learn and is not stored.
        compute: dtype of matrix products.
        device: where everything lies.
    """

    def __init__(
        self,
        config: ModelConfig,
        tensors: Mapping[str, torch.Tensor],
        embedding_VH: torch.Tensor,
        *,
        compute: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        assert config.eagle3 is not None
        self.config = config
        with torch.device("meta"):
            self.fc = Dense(config.eagle3.tap_width, config.hidden, bias=False)
            self.midlayer = HeadLayer(config)
            self.norm = Norm(config.hidden, config.rms_eps)
            self.lm_head = Dense(config.hidden, config.head_rows, bias=False)
        copies = {name: value.to(device, torch.float32, copy=True) for name, value in tensors.items()}
        self.load_state_dict(copies, assign=True, strict=True)
        for parameter in self.parameters():
            parameter.requires_grad_(True)
        self.embedding_VH = embedding_VH.to(device, torch.float32)
        self.compute = compute
        for module in self.modules():
            if isinstance(module, Dense):
                module.compute = compute

    @property
    def head_weight(self) -> torch.Tensor:
        """The head (N, H)."""
        return self.lm_head.weight

    def trained(self) -> dict[str, torch.Tensor]:
        """Parameters with gradients, in a fixed order."""
        return dict(self.named_parameters())

    def forward(
        self,
        tokens_BT: torch.Tensor,
        positions_BT: torch.Tensor,
        text_BT: torch.Tensor,
        taps_BTW: torch.Tensor,
        *,
        steps: int,
    ) -> list[torch.Tensor]:
        """Normed states (B, T, H) of each step, ready for the head; step s means nothing at the first s places of a
        text (`places_before`).

        Args:
            tokens_BT: int64 ids.
            positions_BT: position of each token in its text.
            text_BT: number of the text that each token belongs to; padding has -1.
            taps_BTW: the target's hidden states at each token.
            steps: how long a chain gets.
        """
        layer, width = self.midlayer, tokens_BT.shape[1]
        cos_PE, sin_PE = rope_tables(self.config, int(positions_BT.max()) + 1)
        pairs_BT = (positions_BT - 1).clamp(min=0)
        turn = (
            cos_PE.to(tokens_BT.device)[pairs_BT].unsqueeze(2),
            sin_PE.to(tokens_BT.device)[pairs_BT].unsqueeze(2),
        )
        same_BTT = text_BT[:, :, None] == text_BT[:, None, :]
        exists_B1T = (places_before(text_BT) > 0)[:, None, :]
        embedded_BTH = layer.input_layernorm(self.embedding_VH[tokens_BT])
        hidden_BTH = self.fc(taps_BTW.float()).roll(1, dims=1)
        chain: list[tuple[torch.Tensor, torch.Tensor]] = []
        found = []
        ones_TT = torch.ones(width, width, dtype=torch.bool, device=tokens_BT.device)
        for step in range(steps):
            seen_B1TT = (same_BTT & exists_B1T & ones_TT.tril(-step))[:, None]
            pairs_BTI = torch.cat([embedded_BTH, layer.hidden_norm(hidden_BTH)], dim=-1)
            x_BTH = hidden_BTH + layer.self_attn(pairs_BTI, turn, seen_B1TT, chain)
            x_BTH = x_BTH + layer.mlp(layer.post_attention_layernorm(x_BTH))
            found.append(self.norm(x_BTH))
            hidden_BTH = x_BTH.roll(1, dims=1)
        return found

    def logits(self, hidden_RH: torch.Tensor) -> torch.Tensor:
        """Logits (R, N) float32 of normed states."""
        return head_logits(hidden_RH, self.head_weight.to(self.compute))


def places_before(text_BT: torch.Tensor) -> torch.Tensor:
    """How many places of its text each place has before it (B, T)."""
    same_BTT = text_BT[:, :, None] == text_BT[:, None, :]
    return same_BTT.tril(-1).sum(-1)
