"""An EAGLE-3 head as trainable torch modules, run on its own states for as many steps as a proposal has tokens.

What `models/eagle3.py` computes, with gradients, and under the authors' names. Step 1 pairs each token with the taps of
the token before; step s pairs it with the state that step s - 1 gave there, and sees the keys of step 1 up to the place
where its chain of s pairs began, then those of the chain. So one pass has every proposal that could begin anywhere in
the text (the paper's training-time test). Letters: B rows, T tokens of a row or a text, C of all rows, S steps before
this one, W numbers of a token's taps, I numbers of a pair, H hidden size, A heads, D head size, R learnt places. Must
not know: laws, files. Tests: tests/training/test_eagle3.py.
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
        self, pairs_CI: torch.Tensor, turn: Turn, lengths: list[int], chain: list[tuple[torch.Tensor, torch.Tensor]]
    ) -> torch.Tensor:
        """Attend, text by text; this step's keys and values join `chain`, whose first entry is step 1."""
        pairs_CI = pairs_CI.to(self.q_proj.compute)  # once for all three
        group = self.heads // self.kv_heads
        q_ACD = rotate(self.q_proj(pairs_CI).view(-1, self.heads, self.size), *turn).transpose(0, 1)
        k = rotate(self.k_proj(pairs_CI).view(-1, self.kv_heads, self.size), *turn)
        v = self.v_proj(pairs_CI).view(-1, self.kv_heads, self.size)
        k_ACD, v_ACD = (x.transpose(0, 1).repeat_interleave(group, dim=0) for x in (k, v))
        chain.append((k_ACD, v_ACD))
        step = len(chain) - 1
        q_ACD = q_ACD / math.sqrt(self.size)
        back = [[x.roll(step - number, dims=1) for x in own] for number, own in enumerate(chain[1:], start=1)]
        own_ACS = q_ACD.new_zeros(*q_ACD.shape[:2], step)
        if back:
            own_ACS = torch.cat([(q_ACD * own_k).sum(-1, keepdim=True) for own_k, _ in back], dim=-1)
        of_texts = zip(*(x.split(lengths, dim=1) for x in (q_ACD, *chain[0], own_ACS)), strict=True)
        attended = [_attend(q, k, v, own, step) for q, k, v, own in of_texts]
        mixed, shares = zip(*attended, strict=True)
        mixed_ACD, share_ACS = torch.cat(mixed, dim=1), torch.cat(shares, dim=1)
        for number, (_, own_v) in enumerate(back):
            mixed_ACD = mixed_ACD + share_ACS[..., number, None] * own_v
        out: torch.Tensor = self.o_proj(mixed_ACD.transpose(0, 1).reshape(len(pairs_CI), -1))
        return out


def _attend(
    q_ATD: torch.Tensor, k_ATD: torch.Tensor, v_ATD: torch.Tensor, own_ATS: torch.Tensor, step: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """One text: what its places take from keys of step 1, and the weights of the chain's keys, whose scores are given.

    A place sees keys of step 1 as far as `step` places before it; the first place of a text has none.
    """
    tokens = q_ATD.shape[1]
    seen_TT = torch.ones(tokens, tokens, dtype=torch.bool, device=q_ATD.device).tril(-step)
    seen_TT[:, 0] = False
    scores = (q_ATD @ k_ATD.transpose(1, 2)).masked_fill(~seen_TT, HIDDEN)
    weights = torch.cat([scores, own_ATS], dim=-1).softmax(-1)
    return weights[..., :tokens] @ v_ATD, weights[..., tokens:]


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
        layer, shape = self.midlayer, tokens_BT.shape
        cos_PE, sin_PE = rope_tables(self.config, int(positions_BT.max()) + 1)
        pairs_C = (positions_BT - 1).clamp(min=0).flatten()
        turn = (cos_PE.to(tokens_BT.device)[pairs_C].unsqueeze(1), sin_PE.to(tokens_BT.device)[pairs_C].unsqueeze(1))
        lengths = [length for text_T in text_BT for length in text_T.unique_consecutive(return_counts=True)[1].tolist()]
        embedded_CH = layer.input_layernorm(self.embedding_VH[tokens_BT.flatten()])
        hidden_CH = self.fc(taps_BTW.float()).flatten(0, 1).roll(1, dims=0)
        chain: list[tuple[torch.Tensor, torch.Tensor]] = []
        found = []
        for _ in range(steps):
            pairs_CI = torch.cat([embedded_CH, layer.hidden_norm(hidden_CH)], dim=-1)
            x_CH = hidden_CH + layer.self_attn(pairs_CI, turn, lengths, chain)
            x_CH = x_CH + layer.mlp(layer.post_attention_layernorm(x_CH))
            found.append(self.norm(x_CH).view(*shape, -1))
            hidden_CH = x_CH.roll(1, dims=0)
        return found

    def logits(self, hidden_RH: torch.Tensor) -> torch.Tensor:
        """Logits (R, N) float32 of normed states."""
        return head_logits(hidden_RH, self.head_weight.to(self.compute))


def places_before(text_BT: torch.Tensor) -> torch.Tensor:
    """How many places of its text each place has before it (B, T)."""
    same_BTT = text_BT[:, :, None] == text_BT[:, None, :]
    return same_BTT.tril(-1).sum(-1)
