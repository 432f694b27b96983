"""An argument parser that refuses in one sentence and names the nearest known option.

Must not know: any sub-command. Tests: tests/cli/test_main.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import NoReturn

from saguaro.errors import ConfigError
from saguaro.registry import nearest


class Parser(argparse.ArgumentParser):
    """`argparse` with exact option names only; every misuse is a `ConfigError`."""

    def __init__(self, **options: object) -> None:
        super().__init__(**{"allow_abbrev": False, **options})  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see `{self.prog} --help`.")

    def known(self) -> list[str]:
        """Every option of this parser, for hints."""
        return [name for action in self._actions for name in action.option_strings if name.startswith("--")]


def refuse_unknown(parser: Parser, rest: Iterable[str]) -> None:
    """Raise for the first argument that no option took, naming the nearest option of `parser`."""
    for argument in rest:
        name = argument.split("=", 1)[0]
        if name.startswith("-") and name != "-":
            raise ConfigError(f"unknown option {name!r}{nearest(name, parser.known())} See `{parser.prog} --help`.")
        raise ConfigError(f"unexpected argument {argument!r}; see `{parser.prog} --help`.")


def whole_or_auto(text: str) -> int | str:
    """`auto` or a whole number; ranges are checked by the configuration."""
    return text if text == "auto" else whole(text)


def whole(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def at_least_one(text: str) -> int:
    """A whole number of 1 or more."""
    value = whole(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


def number(text: str) -> float:
    """A number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def number_or_auto(text: str) -> float | str:
    """`auto` or a number; ranges are checked by the configuration."""
    return text if text == "auto" else number(text)


def names(text: str) -> list[str]:
    """A comma-separated list of names, none empty."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty part")
    return parts


def numbers(text: str) -> list[float]:
    """A comma-separated list of numbers."""
    return [number(part) for part in names(text)]


def wholes(text: str) -> list[int]:
    """A comma-separated list of whole numbers of 1 or more."""
    return [at_least_one(part) for part in names(text)]
