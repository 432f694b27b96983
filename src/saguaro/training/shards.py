"""Shards of texts with their laws: written by the target, or read by it where the text is given; none is made twice.

A shard is two files, `texts-N` (`texts.py`) and `laws-N` (`laws.py`), and a third where taps are kept (`taps.py`); laws
are written last and say that the shard is done. Must not know: students, the order of stages.
Tests: tests/training/test_shards.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import torch
from safetensors.torch import save_file

from saguaro.models.causal_lm import CausalLM
from saguaro.training.laws import Laws, Reader, law_path, laws_of
from saguaro.training.taps import save_taps, tap_path
from saguaro.training.texts import Job, Text, path_of, read, save
from saguaro.training.writer import Writer, Written

Shard = tuple[str, Sequence[Job | Text]]


@dataclass
class Shards:
    """Shards to be made.

    Args:
        folder: where they go.
        shards: names and content: jobs are continued, texts are read. A shard holds one kind.
        open_model: the target, loaded when something is left to be done.
        make_writer: what continues prompts, from the model.
        top_k: tokens of a law that are kept, of texts that are read.
        goes_on: asked before a shard is begun, by name; False ends it, with the shards under way finished.
        on_shard: told the texts and the learnt positions of each shard.
        states: keep the target's last states of texts that are read, too.
    """

    folder: Path
    shards: Sequence[Shard]
    open_model: Callable[[], CausalLM]
    make_writer: Callable[[CausalLM], Writer]
    top_k: int
    goes_on: Callable[[str], bool]
    on_shard: Callable[[int, int], None]
    states: bool = False
    _done: set[str] = field(default_factory=set)
    _jobs: list[tuple[str, int]] = field(default_factory=list)  # shard and place of each job that was handed out
    _parts: dict[str, list[Written | None]] = field(default_factory=dict)
    _model: CausalLM | None = None

    def write(self) -> list[str]:
        """Make what is not there yet; returns the names of all that are there now, in their order."""
        for name, _ in self.shards:
            if law_path(self.folder, name).exists():
                self._done.add(name)
                self.on_shard(*_count(read(path_of(self.folder, name))))
        left = [(name, items) for name, items in self.shards if name not in self._done]
        longest = max((len(item.prompt) for _, items in left for item in items if isinstance(item, Job)), default=0)
        stream = self._numbered(left)
        first = next(stream, None)  # so that no model is opened when nothing is left to be continued
        if first is not None:
            writer = self.make_writer(self._opened())
            for written in writer.write(chain([first], stream), longest=longest):
                name, place = self._jobs[written.index]
                self._parts[name][place] = written
                if None not in self._parts[name]:
                    self._join(name)
        return [name for name, _ in self.shards if name in self._done]

    def _numbered(self, left: Sequence[Shard]) -> Iterator[tuple[int, Job]]:
        """Jobs as they are asked for; texts that are given are read on the way."""
        for name, items in left:
            if not self.goes_on(name):
                return
            given = [item for item in items if isinstance(item, Text)]
            if given:
                self._finish(name, given, laws_of(Reader(self._opened()), given, self.top_k, states=self.states))
                continue
            self._parts[name] = [None] * len(items)
            for place, item in enumerate(items):
                assert isinstance(item, Job), "a shard holds one kind"
                self._jobs.append((name, place))
                yield len(self._jobs) - 1, item

    def _opened(self) -> CausalLM:
        if self._model is None:
            self._model = self.open_model()
        return self._model

    def _join(self, name: str) -> None:
        """The last text of a shard has ended."""
        parts = [part for part in self._parts.pop(name) if part is not None]
        laws = {each: torch.cat([part.laws[each] for part in parts]) for each in parts[0].laws}
        taps = [part.taps_NW for part in parts if part.taps_NW is not None]
        if taps:
            save_taps(tap_path(self.folder, name), taps)
        self._finish(name, [part.text for part in parts], laws)

    def _finish(self, name: str, texts: Sequence[Text], laws: Laws) -> None:
        save(path_of(self.folder, name), texts)
        path = law_path(self.folder, name)
        staging = path.with_name(path.name + ".writing")
        save_file(laws, staging)
        staging.replace(path)
        self._done.add(name)
        self.on_shard(*_count(texts))


def _count(texts: Sequence[Text]) -> tuple[int, int]:
    return len(texts), sum(len(text.tokens) - text.start for text in texts)
