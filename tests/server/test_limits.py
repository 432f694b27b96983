"""Keys, the bounded queue, and calls that end for every reason."""

import asyncio

import pytest

from saguaro.server.errors import ApiError
from saguaro.server.limits import Call, ClientGone, Gate, key_fits

KEYS = ("sk-one", "sk-two")


@pytest.mark.parametrize(
    ("header", "fits"),
    [
        ("Bearer sk-one", True), ("bearer sk-two", True), ("Bearer  sk-one ", True), ("Bearer sk-three", False),
        ("Basic sk-one", False), ("sk-one", False), ("Bearer", False), ("", False), (None, False),
        ("Bearer sk-oné", False),
    ],
)  # fmt: skip
def test_keys(header, fits):
    assert key_fits(header, KEYS) is fits


def test_the_queue_is_bounded():
    gate = Gate(2, 1)
    gate.enter(2)
    gate.enter(1)
    with pytest.raises(ApiError) as caught:
        gate.enter(1)
    assert (caught.value.status, caught.value.code) == (429, "queue_full")
    assert caught.value.headers()["retry-after"] == "1"
    gate.leave(2, 1.0)
    gate.enter(1)
    assert gate.inside == 2


def test_what_can_never_be_served_is_no_429():
    with pytest.raises(ApiError) as caught:
        Gate(2, 1).enter(4)
    assert caught.value.status == 400


def test_a_long_queue_takes_longer():
    gate = Gate(1, 100)
    for _ in range(30):
        gate.enter(1)
        gate.leave(1, 4.0)
    gate.enter(11)
    assert 35 <= gate.retry_after() <= 40
    gate.enter(90)
    assert gate.retry_after() == 60


async def nothing():
    await asyncio.Event().wait()


async def leaves():
    return {"type": "http.disconnect"}


def called(work, receive=nothing, *, seconds=0.0, end=None):
    """The result of a call, whose places must be free afterwards."""

    async def scene():
        gate, registry = Gate(1, 0), set()
        call = Call(gate, 1, seconds=seconds, registry=registry)
        if end is not None:
            call.end(end)
        try:
            return await call.run(work(), receive)
        finally:
            call.close()
            call.close()
            assert (gate.inside, registry) == (0, set())

    return asyncio.run(scene())


async def three():
    return 3


async def fails():
    raise ZeroDivisionError


def test_a_call_gives_its_result_or_its_error():
    assert called(three) == 3
    with pytest.raises(ZeroDivisionError):
        called(fails)


def test_a_client_that_leaves():
    with pytest.raises(ClientGone):
        called(nothing, leaves)


def test_a_time_limit():
    with pytest.raises(ApiError) as caught:
        called(nothing, seconds=0.01)
    assert caught.value.status == 408


def test_an_end_from_outside():
    with pytest.raises(ApiError, match="stop"):
        called(nothing, end=ApiError(503, "stop"))


def test_a_call_that_is_refused_takes_no_place():
    async def scene():
        gate, registry = Gate(1, 0), set()
        gate.enter(1)
        with pytest.raises(ApiError):
            Call(gate, 1, seconds=0, registry=registry)
        return registry

    assert asyncio.run(scene()) == set()
