"""An EAGLE-3 head as trainable torch modules, run on its own states for as many steps as a proposal has tokens.

What `models/eagle3.py` computes, with gradients, and under the authors' names. Step 1 pairs each token with the taps of
the token before; step s pairs it with the state that step s - 1 gave there, and sees the keys of step 1 up to the place
where its chain of s pairs began, then those of the chain. So one pass has every proposal that could begin anywhere in
the text (the paper's training-time test); steps after the first may be taken in some windows of the texts only.
Letters: B rows, T tokens of a row, C places that a step is taken for, Q of one window, K of its text up to the window's
end, S steps before this one, W numbers of a token's taps, I numbers of a pair, H hidden size, A heads, D head size,
R learnt places. Must not know: laws, files. Tests: tests/training/test_eagle3.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import nn

from saguaro.models.config import ModelConfig
from saguaro.models.rope import rope_tables
from saguaro.training.student import Dense, Mlp, Norm, converted, head_logits, rotate

Turn = tuple[torch.Tensor, torch.Tensor]
HIDDEN = -1e9
"""Score of a key that is not seen: finite, so that a place without any has no NaN."""


class Window(NamedTuple):
    """Places begin ... end - 1 of the flattened (B * T), all of the text (or padding) that begins at place `text`."""

    text: int
    begin: int
    end: int


class Step(NamedTuple):
    """A step of all chains: places in the flattened (B * T) where it was taken, normed states there, ready for the
    head, and whether the place is far enough from the beginning of its text and window for a chain of that length.
    """

    places_C: torch.Tensor
    normed_CH: torch.Tensor
    exists_C: torch.Tensor


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
        pairs_CI: torch.Tensor,
        turn: Turn,
        windows: Sequence[Window],
        chain: list[tuple[torch.Tensor, torch.Tensor]],
    ) -> torch.Tensor:
        """Attend, window by window; this step's keys and values join `chain`, whose first entry is step 1, of all
        places.
        """
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
        lengths = [each.end - each.begin for each in windows]
        of_windows = zip(windows, q_ACD.split(lengths, dim=1), own_ACS.split(lengths, dim=1), strict=True)
        first_k, first_v = chain[0]
        attended = [
            _attend(q, first_k[:, each.text : each.end], first_v[:, each.text : each.end], own, step)
            for each, q, own in of_windows
        ]
        mixed, shares = zip(*attended, strict=True)
        mixed_ACD, share_ACS = torch.cat(mixed, dim=1), torch.cat(shares, dim=1)
        for number, (_, own_v) in enumerate(back):
            mixed_ACD = mixed_ACD + share_ACS[..., number, None] * own_v
        out: torch.Tensor = self.o_proj(mixed_ACD.transpose(0, 1).reshape(len(pairs_CI), -1))
        return out


def _attend(
    q_AQD: torch.Tensor, k_AKD: torch.Tensor, v_AKD: torch.Tensor, own_AQS: torch.Tensor, step: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """One window: what its places take from keys of step 1, and the weights of the chain's keys, whose scores are
    given.

    A place sees keys of step 1 as far as `step` places before it; the first place of a text has none.
    """
    places, keys = q_AQD.shape[1], k_AKD.shape[1]
    seen_QK = torch.ones(places, keys, dtype=torch.bool, device=q_AQD.device).tril(keys - places - step)
    seen_QK[:, 0] = False
    scores = (q_AQD @ k_AKD.transpose(1, 2)).masked_fill(~seen_QK, HIDDEN)
    weights = torch.cat([scores, own_AQS], dim=-1).softmax(-1)
    return weights[..., :keys] @ v_AKD, weights[..., keys:]


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
        going_on: Sequence[Window] | None = None,
    ) -> list[Step]:
        """Every step of all chains.

        Args:
            tokens_BT: int64 ids.
            positions_BT: position of each token in its text.
            text_BT: number of the text that each token belongs to; padding has -1.
            taps_BTW: the target's hidden states at each token.
            steps: how long a chain gets.
            going_on: where chains go beyond step 1; None lets all.
        """
        layer = self.midlayer
        cos_PE, sin_PE = rope_tables(self.config, int(positions_BT.max()) + 1)
        pairs_C = (positions_BT - 1).clamp(min=0).flatten()
        cos_CE, sin_CE = (table.to(pairs_C.device)[pairs_C].unsqueeze(1) for table in (cos_PE, sin_PE))
        windows: Sequence[Window] = texts_of(text_BT)
        places_C, before_C = _places(windows).to(text_BT.device)
        inside_C = torch.full_like(places_C, steps)  # places of the window before it, where that limits a chain
        embedded_CH = layer.input_layernorm(self.embedding_VH[tokens_BT.flatten()])
        hidden_CH = self.fc(taps_BTW.float()).flatten(0, 1).roll(1, dims=0)
        chain: list[tuple[torch.Tensor, torch.Tensor]] = []
        found = []
        with converted(layer):
            for step in range(1, steps + 1):
                if step == 2 and going_on is not None:
                    windows = going_on
                    places_C, before_C = _places(windows).to(text_BT.device)
                    inside_C = torch.cat([torch.arange(each.end - each.begin) for each in windows]).to(text_BT.device)
                    cos_CE, sin_CE, embedded_CH, hidden_CH = (
                        x[places_C] for x in (cos_CE, sin_CE, embedded_CH, hidden_CH)
                    )
                pairs_CI = torch.cat([embedded_CH, layer.hidden_norm(hidden_CH)], dim=-1)
                x_CH = hidden_CH + layer.self_attn(pairs_CI, (cos_CE, sin_CE), windows, chain)
                x_CH = x_CH + layer.mlp(layer.post_attention_layernorm(x_CH))
                found.append(Step(places_C, self.norm(x_CH), (before_C >= step) & (inside_C >= step - 2)))
                hidden_CH = x_CH.roll(1, dims=0)
        return found

    def logits(self, hidden_RH: torch.Tensor) -> torch.Tensor:
        """Logits (R, N) float32 of normed states."""
        return head_logits(hidden_RH, self.head_weight.to(self.compute))


def texts_of(text_BT: torch.Tensor) -> list[Window]:
    """Every text and padding of the flattened rows, whole."""
    lengths = [length for text_T in text_BT for length in text_T.unique_consecutive(return_counts=True)[1].tolist()]
    ends = list(accumulate(lengths))
    return [Window(end - length, end - length, end) for length, end in zip(lengths, ends, strict=True)]


def _places(windows: Sequence[Window]) -> torch.Tensor:
    """(2, C): the places of some windows, and how many places of its text each has before it."""
    places = [torch.arange(each.begin, each.end) for each in windows]
    before = [part - each.text for part, each in zip(places, windows, strict=True)]
    return torch.stack([torch.cat(places), torch.cat(before)])
