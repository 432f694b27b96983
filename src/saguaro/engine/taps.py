"""The target's side of an EAGLE-3 draft: after each pass, the hidden states of the tokens that stay go to the draft.

They are sent before the outcome of the round is (`proposing.py`), so that the draft has them when it hears of it. What
the channel has no room for is not sent: the draft then goes on without, which costs acceptance and nothing else. Must
not know: what a draft does with them. Tests: tests/engine/test_taps.py, tests/lossless/test_eagle3.py.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows

import torch

from saguaro.config import MAX_LOOKAHEAD
from saguaro.engine.proposing import Proposer
from saguaro.engine.scheduler import Work
from saguaro.engine.sequence import Sequence
from saguaro.models.decoder import Decoder
from saguaro.protocol.messages import Taps

AGAIN = MAX_LOOKAHEAD + 2
"""Known tokens before a new prompt that run again: the draft did not hear of the last round of the request that left
them, and of the last token that it heard of it has no pair.
"""
SPARE_BYTES = 1 << 20
"""Room that taps leave to other messages: a draft that is busy for long must not be taken for dead because of them."""


class TapSender:
    """Sends the taps of a pass.

    Args:
        model: the target, which keeps the inputs of `layers` of its last pass from now on.
        proposer: who speaks to the draft.
        layers: whose inputs are taps.
    """

    def __init__(self, model: Decoder, proposer: Proposer, layers: tuple[int, ...]) -> None:
        model.tap_layers = layers
        self.lost = 0
        self._model = model
        self._proposer = proposer
        self._taps_TW = torch.empty(0, 0)
        self._row_of: dict[int, int] = {}

    def passed(self, work: Rows[Work]) -> None:
        """A pass has ended and nothing is committed yet: of rows that take their prompt in, all tokens stay."""
        self._row_of = {}
        if self._proposer.port is None:
            return
        self._taps_TW = self._model.taps()
        at = 0
        for w in work:
            s = w.sequence
            if s.filling:
                self._send(s, at, w.count)
            else:
                self._row_of[s.request] = at
            at += w.count + (len(s.proposed.tokens) if w.ends else 0)

    def verified(self, rows: Rows[Sequence], drawn: Rows[Rows[int]]) -> None:
        """The outcomes are known and not committed yet: the last token and the accepted ones stay."""
        for s, tokens in zip(rows, drawn, strict=True):
            at = self._row_of.pop(s.request, None)
            if at is not None and tokens:
                self._send(s, at, len(s.tokens) - s.kv + len(tokens) - 1)

    def _send(self, s: Sequence, at: int, count: int) -> None:
        port = self._proposer.port
        if port is None or not s.admitted:
            return
        rows_NW = self._taps_TW[at : at + count].contiguous()
        values = rows_NW.view(torch.int16).numpy().tobytes()
        message = Taps(s.request, s.kv, count, rows_NW.shape[1], values)
        if port.send(message, spare=SPARE_BYTES):
            self._proposer.session.check(message)
        else:
            if not self.lost:
                self._proposer.warnings.append(
                    "the draft reads the target's hidden states too slowly; it goes on with its own meanwhile."
                )
            self.lost += count
