"""A link that is closed while its other end reads nothing: it is gone soon all the same."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import msgspec

from hotset.links.link import Link


class HastyLoop(asyncio.SelectorEventLoop):
    """Whatever is to happen later happens fifty times sooner."""

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any, **more: Any) -> asyncio.TimerHandle:
        return super().call_later(delay / 50, callback, *args, **more)


def test_a_link_whose_last_words_nobody_reads_ends() -> None:
    async def body() -> None:
        near, far = socket.socketpair()
        ended = asyncio.Event()
        decoder: msgspec.msgpack.Decoder[bytes] = msgspec.msgpack.Decoder(bytes)
        link = Link(decoder, on_open=lambda _: None, on_message=lambda _: None, on_end=lambda _: ended.set())
        await asyncio.get_running_loop().create_connection(lambda: link, sock=near)
        link.send(b"x" * (4 << 20))
        link.close("no more")
        await asyncio.wait_for(ended.wait(), 3000)  # a minute
        assert not link.is_open
        far.close()

    with asyncio.Runner(loop_factory=HastyLoop) as runner:
        runner.run(body())
