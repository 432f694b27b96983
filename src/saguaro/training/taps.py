"""The target's hidden states at every token of the texts, for an EAGLE-3 head: shards beside texts and laws.

    taps-00007.safetensors   taps (N, W) bfloat16: the inputs of some layers side by side, at all but the last token of
                             each text of the shard

Texts that the target writes for a head leave them as they are written (`writer.py`); others are read here. The target
runs as the engine runs it, with the same packed weights. Must not know: students. Tests:
tests/training/test_eagle3.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from saguaro.execution.batch import Span
from saguaro.execution.kv_pool import KVPool
from saguaro.execution.runner import Runner
from saguaro.models.decoder import Decoder
from saguaro.training.corpus import Rows
from saguaro.training.laws import CHUNK, PAGE
from saguaro.training.texts import Text, path_of, read


def tap_path(folder: Path, name: str) -> Path:
    """The file of a shard's taps."""
    return folder / f"taps-{name}.safetensors"


def taps_of(model: Decoder, text: Text) -> torch.Tensor:
    """Taps (length - 1, W) bfloat16 of the layers that the model keeps."""
    tokens = text.tokens[:-1]
    pages = -(-len(tokens) // PAGE)
    runner = Runner(model, KVPool(model.config, pages * PAGE, model.pool_dtype), PAGE)
    found = []
    for begin in range(0, len(tokens), CHUNK):
        part = tokens[begin : begin + CHUNK]
        end = begin + len(part)
        runner.run([Span(part, begin, range(-(-end // PAGE)), range(begin, end), wanted=0)])
        found.append(model.taps())
    return torch.cat(found)


def write_taps(
    folder: Path,
    names: Sequence[str],
    open_model: Callable[[], Decoder],
    *,
    on_shard: Callable[[int], None] = lambda tokens: None,
) -> None:
    """Write the taps that are not there yet.

    Args:
        folder: of the texts.
        names: shards whose texts are there.
        open_model: the target, whose `tap_layers` are set; loaded when taps are missing.
        on_shard: told the tokens of each shard.
    """
    model: Decoder | None = None
    for name in names:
        path, texts = tap_path(folder, name), read(path_of(folder, name))
        if not path.exists():
            model = model or open_model()
            with torch.inference_mode():
                save_taps(path, [taps_of(model, text) for text in texts])
        on_shard(sum(len(text.tokens) - 1 for text in texts))


def save_taps(path: Path, taps: Sequence[torch.Tensor]) -> None:
    """Write the taps of a shard's texts."""
    staging = path.with_name(path.name + ".writing")
    save_file({"taps": torch.cat(list(taps))}, staging)
    staging.replace(path)


class TapTable:
    """Taps of all texts of some shards, in the order of a corpus of the same shards."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._of_text: list[torch.Tensor] = []
        for name in names:
            lengths = [len(text.tokens) - 1 for text in read(path_of(folder, name))]
            self._of_text += load_file(tap_path(folder, name))["taps"].split(lengths)

    def batch(self, rows: Rows, numbers: Sequence[int]) -> torch.Tensor:
        """Taps (B, T, W) for the tokens of `rows.batch(numbers)`; zeros where a row is shorter."""
        chosen = [rows.rows[number] for number in numbers]
        parts = [torch.cat([self._of_text[piece.text][piece.begin : piece.end] for piece in row]) for row in chosen]
        return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)
