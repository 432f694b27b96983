"""`saguaro train-draft`: distil a draft for a target, from prompts to a directory that loads as a draft.

Must not know: how it is done (training/). Tests: tests/cli/test_train_draft.py.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from saguaro.cli.checks import Checked, check_engine, check_prompts
from saguaro.cli.options import ENGINE_FLAGS, add_engine_flags, engine_options, folders, read_text
from saguaro.cli.parser import Parser, at_least_one, names, number, numbers, whole
from saguaro.config import EngineConfig
from saguaro.device import parse_device
from saguaro.errors import ConfigError
from saguaro.training.folder import DATA, TRAIN, WorkFolder, check_place, without_folders
from saguaro.training.settings import (
    MEASURED_STATES,
    OWN_SHARE,
    OWN_STATES,
    OWN_WEIGHT,
    PRECISIONS,
    STORED,
    TRAINED,
    DataSettings,
    TrainSettings,
)
from saguaro.workloads import dataset_name, read_prompts

if TYPE_CHECKING:
    from saguaro.training.run import Asked

KEPT = ("target", "target_device", "dtype", "max_model_len")
"""Engine flags that matter to a target that writes texts alone."""
ENDED = "stopped; what is done lies in {work}, and the same command goes on there."


def _layers(text: str) -> tuple[int, ...]:
    """Numbers of layers, by comma."""
    found = tuple(whole(part) for part in names(text))
    if any(layer < 0 for layer in found):
        raise argparse.ArgumentTypeError(f"{text!r} names a layer below 0")
    return found


def add_arguments(parser: Parser) -> None:
    """Flags of the sub-command."""
    _add_data(parser)
    _add_model(parser)
    _add_training(parser)
    group = parser.add_argument_group("result")
    group.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="the draft: a checkpoint with its card"
    )
    group.add_argument(
        "--work", type=Path, metavar="FOLDER", help="texts, laws and the training's state (default OUT.work)"
    )
    group.add_argument("--fresh", action="store_true", help="forget what an earlier run left in --work")
    group.add_argument("--retrain", action="store_true", help="keep its texts and laws, and train anew")
    group.add_argument("--json", action="store_true", help="print training.json instead of a table")
    add_engine_flags(parser, without=tuple(name for name in ENGINE_FLAGS if name not in KEPT))


def _add_data(parser: Parser) -> None:
    group, given = parser.add_argument_group("data"), DataSettings()
    group.add_argument(
        "--prompts", required=True, nargs="+", metavar="FILE", help="one or several JSON Lines with a field `prompt`"
    )
    group.add_argument("--num-prompts", type=at_least_one, metavar="N", help="the first N of each file (default all)")
    group.add_argument("--chat", action="store_true", help="a prompt is a user's message; apply the chat template")
    group.add_argument("--text", type=Path, metavar="FILE", help="UTF-8 text to learn from, too: it is not continued")
    group.add_argument(
        "--temperatures", type=numbers, default=list(given.temperatures), metavar="T,...",
        help="the target continues each prompt at each of them (default 0,1)",
    )  # fmt: skip
    group.add_argument(
        "--samples", type=at_least_one, default=1, metavar="N", help="outputs at a temperature above 0 (default 1)"
    )
    _numbers(
        group,
        given,
        max_tokens="longest output in tokens; the target's stop ids end it before",
        top_k="tokens of the target's law that are kept at each position",
        held_out="prompts held out for the curve, taken from the others unless --validation is given",
        context="longest piece that is learnt at once, in tokens",
        rows="texts that the target writes at once",
        seed="key of outputs, order and packing",
    )
    group.add_argument(
        "--keep-states", action="store_true", help="keep the target's last states beside its laws, for --states"
    )
    group.add_argument(
        "--texts", type=at_least_one, metavar="N",
        help="learn from the first N texts, rounded up to whole shards of 64 (default all)",
    )  # fmt: skip
    group.add_argument(
        "--validation", metavar="FILE", help="prompts held out for the curve, instead of some of --prompts"
    )


def _add_model(parser: Parser) -> None:
    group = parser.add_argument_group("model")
    group.add_argument(
        "--from", dest="source", metavar="X",
        help="a draft to refine or prune, or any model of the target's vocabulary (default: the target)",
    )  # fmt: skip
    group.add_argument(
        "--layers", type=_layers, metavar="I,...",
        help="layers to take, by comma, as 0,1,28,29 (default: the first and last two of the target, all of --from)",
    )  # fmt: skip
    group.add_argument(
        "--draft-vocab", type=at_least_one, metavar="N",
        help="a head of the N tokens that the target's laws give most mass, with its map",
    )  # fmt: skip
    group.add_argument(
        "--head-rows", type=at_least_one, metavar="N",
        help="compute about N rows of a head that does not learn in each step, chosen anew (default: all)",
    )  # fmt: skip
    group.add_argument(
        "--train", dest="trained", default=TrainSettings.trained, metavar="|".join(TRAINED),
        help="what learns: layers (embedding and head stay the target's), head (both), or all (default layers)",
    )  # fmt: skip
    group.add_argument(
        "--eagle3", action="store_true",
        help="train an EAGLE-3 head on hidden states of three layers of the target, in place of a small language model",
    )  # fmt: skip
    group.add_argument(
        "--own-states", type=at_least_one, metavar="N",
        help="of a head: tokens in a row that it learns to draft by its own states; for SSD twice the lookahead "
        f"(default {OWN_STATES})",
    )  # fmt: skip
    group.add_argument(
        "--own-weight", type=number, metavar="W",
        help=f"of a head: what each further token in a row counts, beside the one before it (default {OWN_WEIGHT})",
    )  # fmt: skip
    group.add_argument(
        "--own-share", type=number, metavar="S",
        help="of a head: part of a step's places at which it learns to go on by itself; a step is shorter then "
        f"(default {OWN_SHARE:g})",
    )  # fmt: skip
    group.add_argument(
        "--measured-states", type=at_least_one, metavar="N",
        help=f"of a head: positions at which acceptance is measured (default {MEASURED_STATES})",
    )  # fmt: skip


def _add_training(parser: Parser) -> None:
    group, given = parser.add_argument_group("training"), TrainSettings()
    group.add_argument("--epochs", type=at_least_one, metavar="N", help="times that texts are seen (default 4)")
    group.add_argument("--steps", type=at_least_one, metavar="N", help="optimiser steps instead")
    group.add_argument(
        "--minutes", type=number, metavar="M",
        help="of the whole command, data included; the schedule follows the clock, so that two runs differ. Without "
        "--epochs or --steps it trains until they are over",
    )  # fmt: skip
    _numbers(
        group,
        given,
        data_share="part of --minutes for texts and laws at most",
        states="weight of the distance between the last states of draft and target, beside KL",
        lr="highest learning rate; it rises shortly and falls by half a cosine",
        weight_decay="of matrices",
        clip="largest norm of a gradient",
        batch_tokens="tokens of a step",
    )
    known = "|".join(PRECISIONS)
    group.add_argument("--precision", default=given.precision, metavar=known, help="of products (default float32)")
    group.add_argument(
        "--stored",
        default=given.stored,
        metavar="|".join(STORED),
        help="of the tensors written (default bfloat16); int8 leaves embedding and head to the target, and runs beside "
        "that target alone",
    )
    group.add_argument("--train-device", default="cpu", metavar="X", help="cores that train: cpu, cpu:0, cpu:0-1")


def _numbers(group: argparse._ArgumentGroup, given: object, **fields: str) -> None:
    """Flags of whole numbers and numbers, with the defaults of the settings."""
    for name, text in fields.items():
        default = getattr(given, name)
        kind: Callable[[str], Any] = whole if isinstance(default, int) else number
        flag = "--" + name.replace("_", "-")
        group.add_argument(flag, type=kind, default=default, metavar="N", help=f"{text} (default {default})")


def run(options: argparse.Namespace) -> int:
    """Distil, or go on with it."""
    asked = _asked(options)
    from saguaro.cli.train_view import View
    from saguaro.training.run import distil

    stop = _Stop()
    view = View(on_training=stop.listen)
    try:
        with view, stop:
            record = distil(asked, view, should_stop=lambda: stop.wanted)
    except KeyboardInterrupt:
        print(f"saguaro: {ENDED.format(work=asked.work.path)}", file=sys.stderr)
        raise
    if record is None:
        print(f"saguaro: {ENDED.format(work=asked.work.path)}", file=sys.stderr)
        return 130
    if options.json:
        print(json.dumps(record, indent=1))
    else:
        view.result(record, asked.out)
    return 0


def _asked(options: argparse.Namespace) -> Asked:
    """Everything checked, before torch is imported and any weight is read."""
    engine = engine_options(options)
    check_place(options.out)
    options.temperatures = tuple(options.temperatures)
    data = DataSettings(**{field.name: getattr(options, field.name) for field in fields(DataSettings)})
    if options.states and not options.keep_states:
        raise ConfigError("--states needs the target's states beside its laws; give --keep-states, too.")
    train = TrainSettings(**{field.name: getattr(options, field.name) for field in fields(TrainSettings)})
    threads = parse_device(options.train_device).threads
    checked = check_engine(EngineConfig.from_options(**engine, mode="ar"))
    prompts, held_out, found = _prompts(options, data)
    ids, held_ids = _ids(options, checked, prompts), _ids(options, checked, held_out)
    check_prompts(checked, [*ids, *held_ids])
    own = list(checked.tokenizer.encode(read_text(str(options.text)))) if options.text is not None else []

    from saguaro.models.checkpoint import open_checkpoint
    from saguaro.training.start import check_head, check_start

    hub = folders().get("hub_cache")
    target = open_checkpoint(checked.plan.target.source, hub_cache=hub)
    source = target if options.source is None else open_checkpoint(options.source, hub_cache=hub, target=target)
    if train.eagle3:
        check_head(target, source, train)
    layers = check_start(target, source, train)
    from saguaro.bench.machine import machine, versions
    from saguaro.training.run import Asked

    work = WorkFolder(options.work or options.out.with_name(options.out.name + ".work"))
    if options.fresh or options.retrain:
        work.drop(DATA if options.fresh else TRAIN)
    return Asked(
        plan=checked.plan,
        target=target,
        source=source,
        layers=layers,
        prompts=ids,
        held_out=held_ids,
        own_text=own,
        names=found,
        data=data,
        train=train,
        out=options.out,
        work=work,
        threads=threads,
        command=shlex.join(["saguaro", *map(without_folders, sys.argv[1:])]),
        facts={"machine": machine(), "versions": versions()},
    )


def _prompts(options: argparse.Namespace, data: DataSettings) -> tuple[list[str], list[str], dict[str, int]]:
    """Prompts to train on, prompts held out, and how many came from each file. No prompt is in both."""
    files = {str(path): read_prompts(path, options.num_prompts) for path in options.prompts}
    every = [prompt for prompts in files.values() for prompt in prompts]
    if options.validation is not None:
        held_out = read_prompts(options.validation)
        held_out = held_out[: data.held_out]
    else:
        different = sorted(set(every))
        if len(different) <= data.held_out:
            raise ConfigError(
                f"{len(different)} different prompts leave none to train on beside {data.held_out} held out; "
                "give more, or fewer with --held-out."
            )
        held_out = random.Random(data.seed).sample(different, data.held_out)
    kept = [prompt for prompt in every if prompt not in set(held_out)]
    if not kept:
        raise ConfigError("every prompt of --prompts is in --validation, too; there is none to train on.")
    return kept, held_out, {dataset_name(path): len(prompts) for path, prompts in files.items()}


def _ids(options: argparse.Namespace, checked: Checked, prompts: list[str]) -> list[list[int]]:
    """Token ids, of a templated conversation with --chat."""
    tokenizer = checked.tokenizer
    if not options.chat:
        return [tokenizer.encode(prompt) for prompt in prompts]
    return [tokenizer.encode_chat([{"role": "user", "content": prompt}]) for prompt in prompts]


class _Stop:
    """Ctrl-C between two steps of the training: the first one is noted, the second one interrupts."""

    def __init__(self) -> None:
        self.wanted = False
        self._before: Any = None

    def listen(self) -> None:
        """From now on Ctrl-C is noted."""
        with self._main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)

    def __enter__(self) -> _Stop:
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True

    @contextmanager
    def _main_thread(self) -> Iterator[None]:
        """Elsewhere signals cannot be listened to; a run then ends where Python interrupts it."""
        try:
            yield
        except ValueError:
            self._before = None
