"""`saguaro top`: the table, a server that goes away and comes back, mistakes.

With a real server: tests/server/test_clients.py.
"""

import io
import json

import pytest
from rich.console import Console
from tests.cli.test_remote import canned

from saguaro.cli.top import WINDOW_SECONDS, Watch
from saguaro.cli.top_view import table

FOUND = {
    "url": "http://x", "state": "degraded", "reason": "the draft is gone.", "mode": "ssd", "gear": "ar",
    "draft": "gone", "draft_restarts": 2.0, "running": 3.0, "waiting": 0.0, "kv_use": {"target": 0.25},
    "recent": {
        "seconds": 60.0, "tokens_per_second": 41.25, "tokens_a_round": 3.5, "acceptance_rate": 0.5, "hit_rate": None,
        "time_to_first_token_seconds": {"p50": 0.25, "p99": 1.5},
        "inter_token_latency_seconds": {"p50": 0.0034, "p99": 0.1},
        "request_seconds": {"p50": None, "p99": None},
    },
}  # fmt: skip


def test_the_table():
    out = Console(file=io.StringIO(), width=100)
    out.print(table({**FOUND, "since_start": {**FOUND["recent"], "tokens_per_second": None, "hit_rate": 0.75}}))
    lines = [" ".join(line.split()) for line in out.file.getvalue().splitlines()]
    assert lines == [
        "http://x degraded: the draft is gone. mode ssd, gear ar",
        "running 3 waiting 0 draft gone, 2 restarts KV of target 25%",
        "last 60 s since the start",
        "tokens/s 41.2 –",
        "tokens a round 3.50 3.50",
        "acceptance 0.50 0.50",
        "hit rate – 0.75",
        "first token, p50 / p99 250 ms / 1.50 s 250 ms / 1.50 s",
        "between tokens, p50 / p99 3.4 ms / 100 ms 3.4 ms / 100 ms",
        "whole request, p50 / p99 – / – – / –",
    ]


def test_a_dead_engine_is_shown_and_is_the_exit_status(here):
    health = json.dumps({"status": "dead", "reason": "gone.", "mode": "ssd"})
    with canned({"/health": (503, health), "/metrics": (200, 'saguaro:engine_state{state="dead"} 1\n')}) as (url, _):
        done = here("top", "--url", url, "--once", "--interval", "0.01")
    assert done.status == 1
    assert "dead: gone." in done.out
    assert "running –" in done.out


def test_only_the_last_minute_is_remembered(monkeypatch):
    class Passing:
        url = "x"

        def get(self, path):
            body = "{}" if path == "/health" else 'saguaro:engine_state{state="alive"} 1\n'
            return 200, body.encode()

    now = iter(range(0, 1000, 25))
    monkeypatch.setattr("saguaro.cli.top.time.monotonic", lambda: float(next(now)))
    watch = Watch(Passing())
    seconds = [watch.look()["recent"]["seconds"] for _ in range(6)]
    assert seconds == [0.0, 25.0, 50.0, 50.0, 50.0, 50.0]
    assert max(seconds) <= WINDOW_SECONDS


def test_a_live_view_goes_on_while_the_server_is_away(monkeypatch, capsys):
    from saguaro.cli import top
    from saguaro.errors import SaguaroError

    looks = iter([FOUND | {"since_start": FOUND["recent"]}, SaguaroError("away."), KeyboardInterrupt()])

    class Looking:
        def look(self):
            found = next(looks)
            if isinstance(found, BaseException):
                raise found
            return found

    with pytest.raises(KeyboardInterrupt):
        top._live(Looking(), 0.001)
    assert "away." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words", "status"),
    [
        (["--interval", "0"], "--interval is 0; it must be above 0", 2),
        (["--url", "x:y"], "is no address of a server", 2),
        (["--url", "http://127.0.0.1:1"], "does not answer: connection refused", 1),
        (["--onec"], "did you mean '--once'", 2),
    ],
)
def test_mistakes(here, arguments, words, status):
    done = here("top", *arguments)
    assert (done.status, words in done.err, done.err.count("\n")) == (status, True, 1)


@pytest.mark.parametrize(
    ("health", "metrics"), [("<html>", "x"), ("[]", "x"), ("{}", "up 1\n")], ids=["page", "list", "another"]
)
def test_a_server_of_others(here, health, metrics):
    with canned({"/health": (200, health), "/metrics": (200, metrics)}) as (url, _):
        done = here("top", "--url", url, "--once")
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert f"{url} cannot be watched: " in done.err
