"""Messages: every value survives its bytes, and damaged bytes are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.options import Sampling
from saguaro.errors import ProtocolError
from saguaro.protocol.messages import SOURCES, Admit, Configure, Decided, Message, Release, Taken, Taps, decode, encode

ids = st.lists(st.integers(0, 2**31 - 1), max_size=12).map(tuple)
u32 = st.integers(0, 2**32 - 1)
requests = st.integers(0, 2**62)
finite = st.floats(0, 100, allow_nan=False)
messages = st.one_of(
    st.builds(
        Admit,
        request=requests, row=u32, round=u32, prompt_length=u32, tokens=ids,
        sampling=st.builds(
            Sampling, seed=st.integers(0, 2**64 - 1), choice=u32, temperature=finite, top_k=u32, top_p=finite,
            bad_words=st.lists(ids, max_size=2).map(tuple),
        ),
    ),
    st.builds(
        Decided,
        request=requests, round=u32, base=u32, accepted=u32, bonus=st.integers(0, 2**31 - 1),
        source=st.sampled_from(SOURCES), pending=st.booleans(), wanted=st.integers(0, 255), tokens=ids,
    ),
    st.builds(Taken, request=requests, round=u32, source=st.sampled_from(SOURCES), tokens=ids),
    st.builds(
        lambda tokens: Taken(7, 3, "neural", tokens, tuple(i // 2 for i in range(len(tokens)))), ids,
    ),
    st.builds(
        lambda tokens: Decided(7, 3, 9, 2, 5, "hit", False, 4, tokens, tuple(i // 2 for i in range(len(tokens)))), ids,
    ),
    st.builds(Release, request=requests),
    st.builds(
        Configure, lookahead=st.integers(0, 255), rejection=st.booleans(), branches=st.booleans(), saguaro_c=finite,
        budget=st.integers(0, 255), everything=st.booleans(), listed=st.integers(0, 255), tree=st.integers(0, 255),
        prune=st.booleans(),
        fan_out=st.sampled_from(["ranked", "my.own:Policy", ""]), tokens=ids,
    ),
    st.integers(0, 3).flatmap(
        lambda count: st.builds(
            Taps, request=requests, start=u32, count=st.just(count), width=st.just(5),
            values=st.binary(min_size=10 * count, max_size=10 * count),
        )
    ),
)  # fmt: skip


@given(messages)
def test_a_message_survives_its_bytes(message: Message) -> None:
    assert decode(encode(message)) == message


@given(messages, st.data())
def test_cut_or_grown_frames_are_refused(message: Message, data: st.DataObject) -> None:
    frame = encode(message)
    cut = data.draw(st.integers(0, len(frame) - 1))
    with pytest.raises(ProtocolError):
        decode(frame[:cut])
    with pytest.raises(ProtocolError):
        decode(frame + b"\0")


@given(st.binary(max_size=64))
def test_noise_is_refused_or_is_a_message(frame: bytes) -> None:
    try:
        message = decode(frame)
    except ProtocolError:
        return
    assert encode(message) == frame


def test_another_version_is_refused_by_name() -> None:
    frame = bytearray(encode(Release(1)))
    frame[2] += 1
    with pytest.raises(ProtocolError, match="version"):
        decode(bytes(frame))


def test_a_negative_token_is_refused() -> None:
    frame = encode(Taken(1, 0, "neural", (5,)))[:-4] + b"\xff\xff\xff\xff"
    with pytest.raises(ProtocolError, match="negative"):
        decode(frame)


def test_a_tree_has_a_parent_for_each_token() -> None:
    frame = bytearray(encode(Taken(1, 0, "neural", (5, 6, 7))))
    frame[8 + 13] = 1  # the field behind the source
    with pytest.raises(ProtocolError, match="parent"):
        decode(bytes(frame))


@pytest.mark.parametrize("text", [b"", b"[1]", b'{"heat":1}  ', b'{"top_k":'])
def test_damaged_sampling_options_are_refused(text: bytes) -> None:
    whole = encode(Admit(1, 0, 0, 1, Sampling(top_k=3), (5,)))
    body = whole[8:28] + len(text).to_bytes(4, "little") + text + b" " * (-len(text) % 4)
    frame = whole[:4] + len(body).to_bytes(4, "little") + body
    with pytest.raises(ProtocolError):
        decode(frame)
