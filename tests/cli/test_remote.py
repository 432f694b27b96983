"""Asking a server: addresses, keys, streams, and one sentence for each way in which one does not answer."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from saguaro.cli.chat_server import ServerBackend
from saguaro.cli.remote import Remote
from saguaro.errors import ConfigError, RequestRefused, SaguaroError


@contextmanager
def canned(answers):
    """A server with written answers, (status, body) by path; what it was asked, (path, key, body)."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append((self.path, self.headers.get("Authorization"), json.loads(body or "null")))
            status, text = answers[self.path]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        do_POST = do_GET

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("url", "whole"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://[::1]:80/", "http://[::1]:80"),
        ("https://host/models/v1", "https://host/models"),
    ],
)
def test_addresses(url, whole):
    assert Remote(url).url == whole


@pytest.mark.parametrize("url", ["", "ftp://x", "http://", "http://x:port", "http://x:99999", "http://x/?a=b"])
def test_what_is_no_address(url):
    with pytest.raises(ConfigError, match="is no address of a server"):
        Remote(url)


def test_the_key_goes_along(monkeypatch):
    monkeypatch.setenv("SAGUARO_API_KEY", "secret")
    with canned({"/metrics": (200, "x"), "/v1/no": (401, "{}")}) as (url, asked):
        assert Remote(url).get("/metrics") == (200, b"x")
        with pytest.raises(RequestRefused, match="wants a key; set SAGUARO_API_KEY"):
            Remote(url).get("/v1/no")
    assert asked[0][:2] == ("/metrics", "Bearer secret")


def test_a_stream_and_its_end():
    body = ': waiting\n\ndata: {"a": 1}\n\ndata: {"a": 2}\n\ndata: [DONE]\n\n'
    with canned({"/s": (200, body)}) as (url, asked):
        assert list(Remote(url).events("/s", {"n": 1})) == [{"a": 1}, {"a": 2}]
    assert asked[0][2] == {"n": 1, "stream": True}


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        (200, 'data: {"a": 1}\n\n', SaguaroError, "ended the answer early"),
        (200, 'data: {"error": {"message": "the engine is lost."}}\n\n', SaguaroError, "the engine is lost."),
        (200, "data: {\n\n", SaguaroError, "does not answer"),
        (400, '{"error": {"message": "too long."}}', RequestRefused, "too long."),
        (503, '{"error": {"message": "dead."}}', SaguaroError, "dead."),
        (404, "<html>", RequestRefused, "answers 404, and not as this server does"),
    ],
)
def test_streams_that_fail(status, body, error, words):
    with canned({"/s": (status, body)}) as (url, _), pytest.raises(error, match=words):
        list(Remote(url).events("/s", {}))


def test_something_else_answers():
    with canned({"/v1/models": (200, "[]")}) as (url, _), pytest.raises(SaguaroError, match="not as this server does"):
        ServerBackend(Remote(url), {})


def test_nothing_answers():
    with pytest.raises(SaguaroError, match=r"^http://127.0.0.1:1 does not answer: connection refused.$"):
        Remote("http://127.0.0.1:1").get("/health")
