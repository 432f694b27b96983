"""Tables of named members that are imported only when used.

A plug point is a folder with `base.py`, one short file a member and a `Table` in `__init__.py`. A name that is not
in the table may be a dotted path (`my_package.my_module:MyClass`), so that nothing outside has to be registered.
Must not know: what the members are. Tests: tests/ground/test_registry.py.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Iterator
from typing import Any

from saguaro.errors import ConfigError


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for an error message: `; did you mean 'x'?`, or nothing when no known name is close."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def unknown(kind: str, name: str, known: Iterable[str]) -> ConfigError:
    """The error for a name that is none of the known ones: the nearest is suggested, and all are listed."""
    names = list(known)
    return ConfigError(f"unknown {kind} {name!r}{nearest(name, names) or '.'} Known: {', '.join(names)}.")


class Table:
    """A mapping from names to `module:attribute`, resolved on first use.

    Args:
        kind: what a member is, for error messages, for example `"fan-out policy"`.
        members: name to `module:attribute`.
    """

    def __init__(self, kind: str, members: dict[str, str]) -> None:
        self.kind = kind
        self._members = dict(members)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def names(self) -> list[str]:
        """The names of all members, in table order."""
        return list(self._members)

    def check(self, name: str) -> str:
        """Return `name` if it can be resolved by shape; raise `ConfigError` naming the nearest member otherwise."""
        if name not in self._members and ":" not in name:
            raise unknown(self.kind, name, self._members)
        return name

    def get(self, name: str) -> Any:
        """The member called `name`, or the object at the dotted path `package.module:attribute`."""
        path = self._members.get(self.check(name), name)
        module, _, attribute = path.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            if name in self._members:
                raise
            raise ConfigError(f"{self.kind} {name!r} cannot be imported: {error}.") from error
