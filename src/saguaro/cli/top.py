"""`saguaro top`: a running server's figures, live in the terminal, or once for a script.

Must not know: what the figures mean (`top_figures`) or look like (`top_view`). Tests: tests/cli/test_top.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from saguaro.cli.parser import Parser, number
from saguaro.cli.remote import DEFAULT_URL, Remote
from saguaro.errors import ConfigError, SaguaroError

if TYPE_CHECKING:
    from saguaro.cli.top_figures import Reading

WINDOW_SECONDS = 60.0
SERVING = ("alive", "degraded")


def add_arguments(parser: Parser) -> None:
    """Flags of the sub-command."""
    parser.add_argument("--url", default=DEFAULT_URL, metavar="URL", help=f"the server (default {DEFAULT_URL})")
    parser.add_argument(
        "--interval", type=number, default=1.0, metavar="SECONDS", help="between two looks at it (default 1)"
    )
    parser.add_argument(
        "--once", action="store_true", help="look twice, print, and end: with status 0 while the server takes requests"
    )
    parser.add_argument("--json", action="store_true", help="a JSON object a line instead of a table")


def run(options: argparse.Namespace) -> int:
    """Watch until Ctrl-C, which is no error."""
    if not 0 < options.interval <= WINDOW_SECONDS:
        raise ConfigError(f"--interval is {options.interval:g}; it must be above 0 and at most {WINDOW_SECONDS:g}.")
    watch = Watch(Remote(options.url))
    watch.look()
    try:
        if options.once or not (options.json or sys.stdout.isatty()):
            return _once(watch, options)
        if options.json:
            while True:
                time.sleep(options.interval)
                print(json.dumps(watch.look()), flush=True)
        return _live(watch, options.interval)
    except KeyboardInterrupt:
        return 0


class Watch:
    """Looks at a server, and remembers what it saw in the last minute."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._seen: deque[Reading] = deque()

    def look(self) -> dict[str, Any]:
        """The figures of now.

        Raises:
            SaguaroError: nothing answers, or something else than this server does.
        """
        reading = self._read()
        self._seen.append(reading)
        while len(self._seen) > 2 and reading.time - self._seen[0].time > WINDOW_SECONDS:
            self._seen.popleft()

        from saguaro.cli.top_figures import figures

        return {"url": self._remote.url, **figures(reading, self._seen[0])}

    def _read(self) -> Reading:
        from saguaro.cli.top_figures import read

        _, health = self._remote.get("/health")
        status, page = self._remote.get("/metrics")
        try:
            found = json.loads(health)
            if status != 200 or not isinstance(found, dict):
                raise SaguaroError(f"/metrics answers {status}.")
            return read(time.monotonic(), found, page.decode("utf-8"))
        except (ValueError, SaguaroError) as error:
            why = str(error) if isinstance(error, SaguaroError) else "it does not answer as this server does."
            raise SaguaroError(f"{self._remote.url} cannot be watched: {why}") from None


def _once(watch: Watch, options: argparse.Namespace) -> int:
    time.sleep(options.interval)
    found = watch.look()
    if options.json:
        print(json.dumps(found))
    else:
        from rich.console import Console

        from saguaro.cli.top_view import table

        Console().print(table(found))
    return 0 if found["state"] in SERVING else 1


def _live(watch: Watch, interval: float) -> int:
    """Draw until Ctrl-C; a server that does not answer may come back."""
    from rich.live import Live
    from rich.text import Text

    from saguaro.cli.top_view import table

    with Live(table(watch.look()), auto_refresh=False) as live:
        while True:
            time.sleep(interval)
            try:
                live.update(table(watch.look()), refresh=True)
            except SaguaroError as error:
                live.update(Text(str(error)), refresh=True)
