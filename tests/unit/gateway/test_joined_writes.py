"""One write for head and body, and nothing held back for ever."""

import asyncio

from hotset.gateway.joined_writes import JoinedWrites

HEAD = b"HTTP/1.1 200 OK\r\nx: y\r\n\r\n"


class RecordingTransport(asyncio.Transport):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[bytes | str] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.told.append(bytes(data))

    def close(self) -> None:
        self.told.append("close")

    def abort(self) -> None:
        self.told.append("abort")

    def is_closing(self) -> bool:
        return bool({"close", "abort"} & set(self.told))


def joined() -> tuple[JoinedWrites, list[bytes | str]]:
    below = RecordingTransport()
    return JoinedWrites(below), below.told


def test_a_head_goes_out_with_its_body() -> None:
    transport, told = joined()
    transport.write(HEAD)
    assert told == []
    transport.write(b"{}")
    transport.write(b"more")
    assert told == [HEAD + b"{}", b"more"]


def test_a_head_without_a_body_goes_out_when_flushed_or_closed() -> None:
    transport, told = joined()
    transport.write(HEAD)
    transport.flush()
    transport.flush()
    assert told == [HEAD]
    transport.write(HEAD)
    transport.close()
    assert told == [HEAD, HEAD, "close"]
    assert transport.is_closing()


def test_an_interim_head_and_bodies_are_never_held() -> None:
    transport, told = joined()
    for content in (b"HTTP/1.1 100 Continue\r\n\r\n", b"2\r\n{}\r\n\r\n", b"HTTP/1.1 is a text"):
        transport.write(content)
    assert told == [b"HTTP/1.1 100 Continue\r\n\r\n", b"2\r\n{}\r\n\r\n", b"HTTP/1.1 is a text"]


def test_an_abort_sends_nothing_more() -> None:
    transport, told = joined()
    transport.write(HEAD)
    transport.abort()
    transport.flush()
    assert told == ["abort"]
