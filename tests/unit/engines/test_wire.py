"""Frames survive any cut of the byte stream; a frame that is too long ends the connection."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotset.core.ids import EngineName, RequestId
from hotset.core.messages import Delta, Failed, Finished, Generate, Message, Sampling, Started, TokenLogprob
from hotset.engines.wire import Call, Events, FromEngine, Reply, ToEngine, Unload, WireError
from hotset.links.frames import FrameSplitter, frame

REQUEST = Generate(
    request_id=RequestId("r1"),
    engine_name=None,
    cache_salt="salt",
    sampling=Sampling(stop=("a", "b"), seed=7),
    messages=(Message(role="user", content="ä\u2028😀"),),
)
EVENTS = Events(
    [
        Started(RequestId("r1"), 3),
        Delta(RequestId("r1"), 0, "x", 1, None, (TokenLogprob("x", b"\xff", -0.5, (TokenLogprob("y", b"y", -1.0),)),)),
        Delta(RequestId("r1"), 0, "", 0, "stop"),
        Finished(RequestId("r1"), 3, 1),
        Failed(RequestId("r2"), "engine_failed", "why", "prompt"),
    ]
)


def test_messages_round_trip_both_ways() -> None:
    for message in (REQUEST, Call(4, Unload(EngineName("hs-1")))):
        assert msgspec.msgpack.decode(frame(message)[4:], type=ToEngine) == message
    for answer in (EVENTS, Reply(4, WireError("load_failed", "why"))):
        assert msgspec.msgpack.decode(frame(answer)[4:], type=FromEngine) == answer


@given(st.lists(st.integers(1, 300), max_size=30))
def test_frames_survive_any_cut(cuts: list[int]) -> None:
    stream = frame(REQUEST) + frame(EVENTS) * 3
    splitter = FrameSplitter()
    bodies: list[bytes] = []
    at = 0
    for cut in [*cuts, len(stream)]:
        bodies.extend(splitter.feed(stream[at : at + cut]))
        at += cut
    assert bodies == [frame(REQUEST)[4:]] + [frame(EVENTS)[4:]] * 3


def test_a_frame_too_long_is_beyond_repair() -> None:
    with pytest.raises(ValueError, match="frame of"):
        list(FrameSplitter().feed(b"\xff\xff\xff\xff"))
