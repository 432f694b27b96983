"""Texts for training: what the target is to continue, and pieces of a text of one's own; shards of them in files.

    texts-00007.safetensors   tokens (int32, all texts one behind the other), lengths and starts (int32, one a text)

`start` of a text is the place of its first token that was not given: the draft learns from there on. A shard is written
whole or not at all. Must not know: models, laws, students. Tests: tests/training/test_texts.py.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SHARD = 64
"""Texts of a shard, the smallest part that is done or not done."""
HELD_OUT = ("held-0", "held-1")
"""Shards of the prompts that are never trained on, at temperatures 0 and 1."""


@dataclass(frozen=True)
class Job:
    """One output to be made."""

    prompt: tuple[int, ...]
    temperature: float
    seed: int


@dataclass(frozen=True)
class Text:
    """Token ids, and the place of the first one that is learnt."""

    tokens: tuple[int, ...]
    start: int


def plan_jobs(prompts: Sequence[Sequence[int]], temperatures: Sequence[float], *, samples: int, seed: int) -> list[Job]:
    """Outputs for all prompts at all temperatures, in an order that depends on the seed only."""
    jobs = []
    for index, prompt in enumerate(prompts):
        for temperature in temperatures:
            for sample in range(samples if temperature > 0 else 1):
                key = random.Random(f"{seed}/{index}/{temperature}/{sample}").getrandbits(63)
                jobs.append(Job(tuple(prompt), temperature, key))
    random.Random(seed).shuffle(jobs)
    return jobs


def pieces(tokens: Sequence[int], length: int) -> list[Text]:
    """A long text in pieces of `length` tokens; a last one of a single token is dropped."""
    cuts = [tokens[begin : begin + length] for begin in range(0, len(tokens), length)]
    return [Text(tuple(cut), 1) for cut in cuts if len(cut) > 1]


def shards_of(items: Sequence[Job] | Sequence[Text]) -> list[Sequence[Job | Text]]:
    """The content of shards."""
    return [items[begin : begin + SHARD] for begin in range(0, len(items), SHARD)]


def path_of(folder: Path, name: str) -> Path:
    """The file of a shard's texts."""
    return folder / f"texts-{name}.safetensors"


def save(path: Path, texts: Sequence[Text]) -> None:
    """Write a shard."""
    import torch
    from safetensors.torch import save_file

    flat = [token for text in texts for token in text.tokens]
    tensors = {
        "tokens": torch.tensor(flat, dtype=torch.int32),
        "lengths": torch.tensor([len(text.tokens) for text in texts], dtype=torch.int32),
        "starts": torch.tensor([text.start for text in texts], dtype=torch.int32),
    }
    staging = path.with_name(path.name + ".writing")
    save_file(tensors, staging)
    staging.replace(path)


def read(path: Path) -> list[Text]:
    """The texts of a shard."""
    from safetensors.torch import load_file

    tensors = load_file(path)
    flat, texts, at = tensors["tokens"].tolist(), [], 0
    for length, start in zip(tensors["lengths"].tolist(), tensors["starts"].tolist(), strict=True):
        texts.append(Text(tuple(flat[at : at + length]), start))
        at += length
    return texts
