"""A whole distillation: texts, laws, training, the draft's directory; each stage goes on where an earlier run stopped.

Must not know: the command line. Tests: tests/training/test_run.py, tests/cli/test_train_draft.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

import torch

from saguaro.engine.build import load
from saguaro.engine.resolve import Plan
from saguaro.errors import ConfigError
from saguaro.models.causal_lm import CausalLM
from saguaro.models.checkpoint import Checkpoint
from saguaro.models.decoder import Decoder
from saguaro.models.eagle3_shape import usual_taps
from saguaro.models.weights.names import FINAL_NORM
from saguaro.training import export
from saguaro.training.corpus import Corpus, Rows
from saguaro.training.curve import Curve, measure
from saguaro.training.draft_vocabulary import columns, likeliest
from saguaro.training.folder import DATA, TRAIN, WorkFolder, check_place, digest, without_folders
from saguaro.training.head_run import HeadParts, head_parts
from saguaro.training.head_student import HeadStudent
from saguaro.training.loop import Report, Training
from saguaro.training.memory import keep_freed_memory
from saguaro.training.sampled_head import SampledHead
from saguaro.training.settings import PARTS, TRAINING, DataSettings, TrainSettings
from saguaro.training.shards import Shard, Shards
from saguaro.training.start import student_config, student_tensors
from saguaro.training.student import Student
from saguaro.training.texts import HELD_OUT, SHARD, Job, Text, pieces, plan_jobs, shards_of
from saguaro.training.writer import Writer

VALIDATION_TOP_K = 1024
"""Tokens of a law that are kept where acceptance is measured, so that little of it is missing."""


class Listener(Protocol):
    """Who is told how far it is."""

    def stage(self, name: str, total: int) -> None:
        """A stage of `total` parts begins."""
        ...

    def advance(self, parts: int, note: str) -> None:
        """Some parts of it are done."""
        ...

    def step(self, report: Report) -> None:
        """A step of the training."""
        ...

    def point(self, point: Mapping[str, Any]) -> None:
        """The curve was measured."""
        ...


@dataclass(frozen=True)
class Asked:
    """What a distillation needs to know.

    Args:
        plan: the target, resolved for running without a draft.
        target, source: opened; the source's layers are the student's first ones.
        layers: which of them (`start.check_start`).
        prompts, held_out: token ids.
        own_text: token ids of a text file; empty without one.
        names: prompt files with their counts, for the card.
        data, train: settings.
        out, work: folders.
        device: where the student learns; threads: of torch.
        command: how all this was asked, for the card.
        facts: machine and versions, for the record.
    """

    plan: Plan
    target: Checkpoint
    source: Checkpoint
    layers: tuple[int, ...]
    prompts: Sequence[Sequence[int]]
    held_out: Sequence[Sequence[int]]
    own_text: Sequence[int]
    names: Mapping[str, int]
    data: DataSettings
    train: TrainSettings
    out: Path
    work: WorkFolder
    threads: int
    command: str
    facts: Mapping[str, Any]
    device: str = "cpu"


def distil(
    asked: Asked, listener: Listener, *, should_stop: Callable[[], bool] = lambda: False
) -> dict[str, Any] | None:
    """Make the draft; returns its record, or None when the training was stopped (and saved).

    Raises:
        ConfigError: the work folder holds something else, or the result cannot be described.
    """
    check_place(asked.out)
    keep_freed_memory()
    data_key = _data_key(asked)
    asked.work.claim(DATA, data_key)
    asked.work.claim(TRAIN, _train_key(asked, data_key))
    names = _data(asked, listener)
    with _threads(asked.threads):
        return _trained(asked, names, listener, should_stop)


def _data_key(asked: Asked) -> dict[str, Any]:
    """All that decides texts and laws."""
    settings = asdict(asked.data)
    return {
        "target": asked.target.fingerprint,
        "dtype": asked.plan.target.dtype,
        "max_model_len": asked.plan.max_model_len,
        "prompts": digest(repr([list(ids) for ids in asked.prompts])),
        "held out": digest(repr([list(ids) for ids in asked.held_out])),
        "own text": digest(repr(list(asked.own_text))),
        **settings,
    }


def _train_key(asked: Asked, data_key: Mapping[str, Any]) -> dict[str, Any]:
    """All that decides the training."""
    return {
        "data": digest(repr(sorted(data_key.items(), key=lambda item: item[0]))),
        "source": asked.source.fingerprint,
        **asdict(asked.train),
        "layers": list(asked.layers),
    }


def _data(asked: Asked, listener: Listener) -> list[str]:
    """Texts and laws of all shards; the names of those to train on."""
    work, settings = asked.work, asked.data
    known = work.read("shards")
    if known is not None and known.get("texts") == asked.train.texts:
        return list(known["names"])
    spent = work.spent().get(DATA, 0.0)
    began = time.monotonic()
    minutes = asked.train.minutes
    limit = None if minutes is None else minutes * 60 * asked.train.data_share

    def used() -> float:
        return spent + time.monotonic() - began

    def told(texts: int, positions: int) -> None:
        work.spend(DATA, used())
        listener.advance(texts, f"{positions:,} positions")

    greedy, sampled = (
        plan_jobs(asked.held_out, (temperature,), samples=1, seed=settings.seed + 1) for temperature in (0.0, 1.0)
    )
    jobs = plan_jobs(asked.prompts, settings.temperatures, samples=settings.samples, seed=settings.seed)
    held_out: list[Shard] = list(zip(HELD_OUT, (greedy, sampled), strict=True))
    count = None if asked.train.texts is None else -(-asked.train.texts // SHARD)
    shards = list(_all_shards(jobs, _own_texts(asked)))[:count]
    listener.stage("texts and laws of the target", sum(len(items) for _, items in (*held_out, *shards)))
    opened = cache(partial(_open_target, asked))

    def made(part: Sequence[Shard], goes_on: Callable[[str], bool], *, top_k: int, ends_loops: bool) -> list[str]:
        writer = partial(_writer, asked, top_k=top_k, ends_loops=ends_loops)
        return Shards(work.path, part, opened, writer, top_k, goes_on, told, settings.keep_states).write()

    def within(name: str) -> bool:
        return (
            limit is None or name == shards[0][0] or used() < limit
        )  # without the first one there is nothing to learn

    with _threads(asked.plan.target.device.threads):
        made(held_out, lambda name: True, top_k=VALIDATION_TOP_K, ends_loops=False)
        names = made(shards, within, top_k=settings.top_k, ends_loops=True)
    work.write("shards", {"names": names, "texts": asked.train.texts})
    return names


def _open_target(asked: Asked) -> CausalLM:
    """The target; for a head it keeps its taps."""
    model = load(asked.plan.target, asked.plan)
    if asked.train.eagle3:
        assert isinstance(model, Decoder)
        model.tap_layers = usual_taps(asked.target.config.num_layers)
    return model


def _writer(asked: Asked, model: CausalLM, *, top_k: int, ends_loops: bool) -> Writer:
    """What continues prompts, as the engine would."""
    return Writer(
        model,
        max_tokens=asked.data.max_tokens,
        max_length=asked.plan.max_model_len,
        top_k=top_k,
        stop_ids=asked.target.config.stop_ids,
        rows=asked.data.rows,
        ends_loops=ends_loops,
        states=asked.data.keep_states and ends_loops,
        taps=model.taps if asked.train.eagle3 and isinstance(model, Decoder) else None,
    )


def _own_texts(asked: Asked) -> list[Text]:
    """The text file in pieces that student and target can run."""
    return pieces(asked.own_text, min(asked.data.context, asked.plan.max_model_len))


def _all_shards(jobs: Sequence[Job], own: Sequence[Text]) -> Iterator[tuple[str, Sequence[Job | Text]]]:
    """Shards of outputs and of one's own text in turns, so that a run cut short has both."""
    made, given = shards_of(jobs), shards_of(own)
    order: list[tuple[float, int, Sequence[Job | Text]]] = [
        ((place + 1) / len(shards), kind, items)
        for kind, shards in enumerate((made, given))
        for place, items in enumerate(shards)
    ]
    order.sort(key=lambda entry: entry[:2])
    for number, (_, _, items) in enumerate(order):
        yield f"{number:05d}", items


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """So many compute threads of torch; the number is put back."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _trained(
    asked: Asked, names: Sequence[str], listener: Listener, should_stop: Callable[[], bool]
) -> dict[str, Any] | None:
    """Train on those shards and write the draft."""
    work, train, context = asked.work, asked.train, asked.data.context
    corpus = Corpus(work.path, names)
    rows = Rows(corpus, length=context, seed=asked.data.seed)
    greedy, sampled = (Rows(Corpus(work.path, [name]), length=context, seed=None) for name in HELD_OUT)
    vocab, config = asked.target.config.vocab, asked.source.config
    highest = max(max(text.tokens) for rows in (corpus, greedy.corpus, sampled.corpus) for text in rows.texts)
    if highest >= config.vocab:
        raise ConfigError(f"the texts hold token {highest}, and {asked.source.source} has {config.vocab} only.")
    ids_N = None
    if train.draft_vocab is not None:
        mass_V = corpus.mass_by_token(vocab)[: min(vocab, config.vocab)]
        ids_N = likeliest(mass_V, train.draft_vocab, always=asked.target.config.stop_ids)
    column_V = columns(ids_N, target_vocab=vocab, draft_vocab=config.vocab)
    head: HeadParts | None = None
    student: Student | HeadStudent
    if train.eagle3:
        head = head_parts(asked, names, (rows, greedy, sampled), column_V, ids_N, listener)
        student, curve = head.student, head.curve
    else:
        student, curve = _student(asked, greedy, sampled, column_V, ids_N)
    used = work.spent().get(DATA, 0.0)
    training = Training(
        student,
        rows,
        column_V,
        curve,
        train,
        work.path / "state.safetensors",
        budget=None if train.minutes is None else max(0.0, train.minutes * 60 - used),
        on_step=listener.step,
        on_curve=listener.point,
        should_stop=should_stop,
        learn=None if head is None else head.learn,
        sampled=_sampled(asked, student, corpus, column_V),
        norm_H=asked.target.weights().get(FINAL_NORM).float() if train.states else None,
    )
    listener.stage(TRAINING, PARTS)
    ended = training.run()
    work.spend(TRAIN, training.seconds)
    if not ended:
        return None
    export.round_to(student, train.stored)
    last = training.point(curve())
    listener.point(last)
    record = _record(asked, training, corpus, [*training.points, last])
    config_ = None if head is None else head.config
    export.write(asked.out, student, asked.target, record, draft_ids_N=ids_N, config=config_)
    return record


def _student(
    asked: Asked, greedy: Rows, sampled: Rows, column_V: torch.Tensor, ids_N: torch.Tensor | None
) -> tuple[Student, Callable[[], Curve]]:
    """A small language model that learns, and how it is measured."""
    train = asked.train
    student = Student(
        student_config(asked.source.config, asked.target.config, asked.layers, draft_vocab=train.draft_vocab),
        student_tensors(asked.source, asked.layers, draft_ids_N=ids_N),
        head_rows=train.draft_vocab,
        trained=train.trained,
        compute=export.stored_dtype(train.precision),
        device=asked.device,
    )
    rows_a_batch = max(1, train.batch_tokens // asked.data.context)

    def curve() -> Curve:
        return measure(student, greedy, sampled, column_V, rows_a_batch=rows_a_batch)

    return student, curve


def _sampled(
    asked: Asked, student: Student | HeadStudent, corpus: Corpus, column_V: torch.Tensor
) -> SampledHead | None:
    """What chooses the rows of the head that a step computes; None where all are."""
    size, head_NH = asked.train.head_rows, student.head_weight
    if size is None or size >= len(head_NH):
        return None
    mass_V = corpus.mass_by_token(len(column_V))
    said_V = column_V >= 0
    mass_N = torch.zeros(len(head_NH), dtype=torch.float64).index_add_(0, column_V[said_V], mass_V[said_V])
    return SampledHead(head_NH, mass_N, size=size, compute=student.compute, seed=asked.data.seed)


def _record(asked: Asked, training: Training, corpus: Corpus, curve: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What training.json holds."""
    student = training.student
    positions = corpus.num_positions
    record = {
        "schema": 1,
        "command": asked.command,
        "target": without_folders(asked.target.source),
        "model": {
            "source": without_folders(asked.source.source),
            "layers": [] if asked.train.eagle3 else list(asked.layers),
            "taps": list(usual_taps(asked.target.config.num_layers)) if asked.train.eagle3 else [],
            "draft_vocab": asked.train.draft_vocab,
            "parameters": sum(value.numel() for value in student.parameters()),
            "trained_parameters": sum(value.numel() for value in student.trained().values()),
        },
        "data": {
            **asdict(asked.data),
            "dtype": asked.plan.target.dtype,
            "prompts": dict(asked.names),
            "texts": len(corpus.texts),
            "own_texts": len(_own_texts(asked)),
            "positions": positions,
            "held_out_prompts": len(asked.held_out),
        },
        "training": {
            **asdict(asked.train),
            "steps": training.step,
            "epochs": training.epochs,
            "tokens": training.tokens,
            "loss": training.loss,
        },
        "seconds": asked.work.spent(),
        "curve": list(curve),
        **asked.facts,
    }
    plain: dict[str, Any] = json.loads(json.dumps(record))  # lists for tuples, as the file has them
    return plain
