"""Events: framing, several streams as one, and an end in every case."""

from __future__ import annotations

import asyncio
import json

import pytest

from saguaro.errors import WorkerDied
from saguaro.request import Delta
from saguaro.server.errors import ApiError
from saguaro.server.limits import Call, Gate
from saguaro.server.streaming import DONE, EventStream, around, as_one, event, plain


class Source:
    """A stream of texts, one at a time; `never` waits for ever at its end, an error ends it."""

    def __init__(self, texts, *, error=None, never=False):
        self.texts, self.error, self.never = list(texts), error, never
        self.closed = 0

    def begin(self, news):
        self.news = news
        news.set()

    def take(self):
        if self.texts:
            self.news.set()  # more comes at once
            return Delta(self.texts.pop(0), [])
        if self.error:
            raise self.error
        return None

    @property
    def ended(self):
        return not self.texts and not self.error and not self.never

    async def aclose(self):
        self.closed += 1


class Slow(Source):
    """One that has a text only whenever it is woken."""

    def take(self):
        self.woken = not getattr(self, "woken", False)
        return super().take() if self.woken else None


async def gather(sources, quiet=5.0):
    async with asyncio.timeout(10):
        return [batch async for batch in as_one(sources, quiet=quiet)]


def texts_of(batches, sources):
    return ["".join(delta.text for batch in batches for i, delta in batch if i == n) for n in range(len(sources))]


def test_an_event_is_one_line_for_every_client():
    frame = event({"text": "a\nb\r\u2028\u2029\x85é"})
    assert frame.startswith(b"data: {")
    assert frame.endswith(b"\n\n")
    body = frame.decode().removeprefix("data: ").removesuffix("\n\n")
    assert len(body.splitlines()) == 1
    assert json.loads(body) == {"text": "a\nb\r\u2028\u2029\x85é"}
    assert "é" in body


@pytest.mark.parametrize("kind", [Source, Slow])
def test_all_deltas_of_all_sources_come_in_order(kind):
    sources = [kind("abc"), kind("de"), kind("")]
    assert texts_of(asyncio.run(gather(sources)), sources) == ["abc", "de", ""]
    assert [source.closed for source in sources] == [1, 1, 1]


def test_what_is_there_at_once_comes_at_once():
    sources = [Source("a", never=True), Source("b", never=True), Slow("c", never=True)]

    async def scene():
        stream = as_one(sources, quiet=5.0)
        first = await anext(stream)
        await stream.aclose()
        return first

    assert texts_of([asyncio.run(scene())], sources) == ["a", "b", "c"]


def test_the_first_failure_ends_all_after_what_had_come():
    sources = [Source("ab", error=WorkerDied("gone.")), Source("c", never=True)]
    found = []

    async def scene():
        async for batch in as_one(sources, quiet=5.0):
            found.append(batch)

    with pytest.raises(WorkerDied):
        asyncio.run(scene())
    assert texts_of(found, sources)[0] == "ab"
    assert [source.closed for source in sources] == [1, 1]


def test_silence_is_told():
    async def scene():
        stream = as_one([Source("", never=True)], quiet=0.01)
        found = [await anext(stream), await anext(stream)]
        await stream.aclose()
        return found

    assert asyncio.run(scene()) == [[], []]


@pytest.mark.parametrize("model", ["toy", '"choices":[]', "\u2028é"])
def test_an_event_around_its_only_varying_part(model):
    chunk = {"id": "a", "choices": [], "model": model, "usage": None}
    for piece in ({"text": "x\u2028é", "index": 0}, {"text": '"choices":[]'}):
        assert plain(piece).join(around(chunk, "choices")) == event({**chunk, "choices": [piece]})


class Peer:
    """A client over ASGI: what it was sent, and when it leaves."""

    def __init__(self, *, leaves_after=None):
        self.sent, self.leaves_after = [], leaves_after
        self.left = asyncio.Event()

    async def receive(self):
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.sent.append(message)
        if self.leaves_after is not None and len(self.bodies) >= self.leaves_after:
            self.left.set()
        await asyncio.sleep(0)

    @property
    def bodies(self):
        return [message["body"] for message in self.sent if message["type"] == "http.response.body"]


async def play(frames, peer, *, seconds=0.0, end=None):
    """Send a generator of frames; returns the calls that are left, and choices inside the gate."""
    registry, gate = set(), Gate(1, 5)
    call = Call(gate, 2, seconds=seconds, registry=registry)
    response = EventStream(frames, call)
    task = asyncio.create_task(response({}, peer.receive, peer.send))
    if end is not None:
        await asyncio.sleep(0.01)
        call.end(end)
    async with asyncio.timeout(5):
        await task
    return len(registry), gate.inside


async def frames(texts, log, *, error=None, never=False):
    try:
        for text in texts:
            yield text
        if error:
            raise error
        if never:
            await asyncio.Event().wait()
    finally:
        log.append("closed")


def run_scene(texts, *, leaves_after=None, seconds=0.0, end=None, **how):
    log = []

    async def scene():
        peer = Peer(leaves_after=leaves_after)
        left = await play(frames(texts, log, **how), peer, seconds=seconds, end=end)
        return peer, left

    peer, left = asyncio.run(scene())
    assert left == (0, 0)
    assert log == ["closed"]
    return peer


def test_a_stream_that_ends():
    peer = run_scene([b"a", DONE])
    assert peer.sent[0]["status"] == 200
    assert (b"content-type", b"text/event-stream; charset=utf-8") in peer.sent[0]["headers"]
    assert peer.bodies == [b"a", DONE, b""]
    assert peer.sent[-1]["more_body"] is False


def test_a_client_that_leaves_ends_its_stream():
    peer = run_scene([b"a", b"b"], never=True, leaves_after=2)
    assert peer.bodies == [b"a", b"b"]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"error": WorkerDied("gone.")}, "gone."),
        ({"error": ApiError(400, "no.")}, "no."),
        ({"error": ZeroDivisionError("secret")}, "internal error"),
        ({"never": True, "end": ApiError(503, "stopping.")}, "stopping."),
        ({"never": True, "seconds": 0.01}, "longer than"),
    ],
)
def test_an_early_end_is_an_error_event_without_done(how, words):
    peer = run_scene([b"a"], **how)
    assert peer.bodies[0] == b"a"
    error = json.loads(peer.bodies[1].decode().removeprefix("data: "))["error"]
    assert words in error["message"]
    assert "secret" not in error["message"]
    assert DONE not in peer.bodies
    assert peer.sent[-1]["more_body"] is False


def test_a_send_that_fails_is_a_client_that_left(caplog):
    class Broken(Peer):
        async def send(self, message):
            if message["type"] == "http.response.body":
                raise BrokenPipeError
            await super().send(message)

    log = []
    peer = Broken()
    assert asyncio.run(play(frames([b"a"], log, never=True), peer)) == (0, 0)
    assert (log, peer.bodies, caplog.records) == (["closed"], [], [])
