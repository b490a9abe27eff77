"""The agent's door: serves gateways over links, many requests on each, and tells them every second how the worker is.

A link that ends ends its requests with it: each is aborted in the engine. Nothing waits here without bound: a stream
has at most `WINDOW` batches under way, and what its gateway does not take stays with the engine's own stream.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

import msgspec

from hotset.core.errors import HotsetError, InvalidRequestError
from hotset.core.fleet import Heartbeat
from hotset.core.ids import Digest, RequestId, WorkerId, engine_name
from hotset.core.ports import Agent, Work
from hotset.links.address import Address, TlsFiles, listen, listening_address
from hotset.links.link import Link
from hotset.links.peers import Peer, check_peer
from hotset.links.refusals import refusal_of
from hotset.links.worker_messages import (
    PROTOCOL,
    Abort,
    Aborted,
    Beat,
    Greeting,
    Submit,
    Taken,
    ToWorker,
    Unwelcome,
    Welcome,
)
from hotset.worker.guest_stream import GuestStream

_log = logging.getLogger(__name__)
BEAT_S = 1.0
_GREETING_TIMEOUT_S = 10.0


class WorkerDoor:
    """Where gateways reach one agent."""

    def __init__(
        self,
        agent: Agent,
        worker: WorkerId,
        base: Digest,
        *,
        fence: Callable[[], int],
        beat: Callable[[int], Heartbeat],
    ) -> None:
        """Prepare; `open` listens.

        Args:
            agent: Takes the work.
            worker: Who it is.
            base: What it serves.
            fence: Returns the number under which it serves; 0 while it may not, and then nobody is let in.
            beat: Returns the worker's heartbeat of a number.
        """
        self.agent = agent
        self.worker = worker
        self.base = base
        self.fence = fence
        self._beat = beat
        self._num_beats = 0
        self._guests: set[_Guest] = set()
        #: Requests that any guest has here; an id is never in the engine twice.
        self.running: set[RequestId] = set()
        self._server: asyncio.Server | None = None
        self._beating: asyncio.Task[None] | None = None

    async def open(self, address: Address, tls: TlsFiles | None, setting: str) -> Address:
        """Listen; return the address, with the port where the system chose one.

        Raises:
            ConfigError: it can't be listened on.
        """
        decoder: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)
        self._server = await listen(address, tls, lambda: _Guest(self).link(decoder), setting)
        self._beating = asyncio.create_task(self._beat_on())
        return listening_address(address, self._server)

    async def close(self, *, patience_s: float = 0.0) -> None:
        """Let nobody in, and end every link once its requests are aborted.

        Args:
            patience_s: How long gateways may read before that: the engine may be done long before they are.
        """
        if self._server is not None:
            self._server.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await asyncio.gather(*(guest.gone() for guest in list(self._guests)))
        if self._beating is not None:
            self._beating.cancel()
        guests = list(self._guests)
        for guest in guests:
            guest.dismiss("the worker ends")
        await asyncio.gather(*(guest.gone() for guest in guests))
        # What was written last may still be on its way out, and is lost if the process ends before it is.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await asyncio.gather(*(guest.ended.wait() for guest in guests))

    def shut_out(self, reason: str) -> None:
        """End every link: the agent may not serve under its identity any more."""
        for guest in list(self._guests):
            guest.dismiss(reason)

    def heartbeat(self) -> Heartbeat:
        """Return a new heartbeat."""
        self._num_beats += 1
        return self._beat(self._num_beats)

    def tell_now(self) -> None:
        """Send every guest a heartbeat at once."""
        heartbeat = self.heartbeat()
        for guest in self._guests:
            guest.tell(heartbeat)

    def admit(self, guest: "_Guest") -> None:
        """Count a guest that was welcomed."""
        self._guests.add(guest)
        guest.tell(self.heartbeat())

    def forget(self, guest: "_Guest") -> None:
        """Drop a guest whose link has ended."""
        self._guests.discard(guest)

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            self.tell_now()


class _Guest:
    """One gateway's link and the requests on it."""

    def __init__(self, door: WorkerDoor) -> None:
        self._door = door
        self._link: Link[ToWorker] | None = None
        self._is_welcome = False
        self._streams: dict[int, GuestStream] = {}
        #: Set once nothing more is sent or heard.
        self.ended = asyncio.Event()

    def link(self, decoder: "msgspec.msgpack.Decoder[ToWorker]") -> Link[ToWorker]:
        """Return our end of its link."""
        return Link(decoder, on_open=self._open, on_message=self._hear, on_end=self._end)

    def tell(self, heartbeat: Heartbeat) -> None:
        """Send a heartbeat."""
        if self._link is not None:
            self._link.send(Beat(heartbeat))

    def dismiss(self, reason: str) -> None:
        """End the link."""
        if self._link is not None:
            self._link.send(Unwelcome(reason))
            self._link.close(reason)

    async def gone(self) -> None:
        """Return once none of its requests runs."""
        await asyncio.gather(*(stream.task for stream in self._streams.values()), return_exceptions=True)

    def _open(self, link: Link[ToWorker]) -> None:
        self._link = link
        asyncio.get_running_loop().call_later(_GREETING_TIMEOUT_S, self._hurry)

    def _hurry(self) -> None:
        if not self._is_welcome:
            self.dismiss("it did not say who it is")

    def _hear(self, message: ToWorker) -> None:
        match message:
            case Greeting():
                self._greet(message)
            case _ if not self._is_welcome:
                self.dismiss("it did not say who it is")
            case Submit(stream, work):
                self._begin(stream, work)
            case Taken(stream, num_batches):
                if stream in self._streams:
                    self._streams[stream].taken(num_batches)
            case Abort(stream):
                self._abort(stream)

    def _greet(self, greeting: Greeting) -> None:
        door, link = self._door, self._link
        assert link is not None
        try:
            check_peer(link, greeting.me)
        except HotsetError as error:
            self.dismiss(error.message)
            return
        fence = door.fence()
        if greeting.me.role != "gateway" or greeting.protocol != PROTOCOL or greeting.worker != door.worker:
            self.dismiss(f"this is worker {door.worker}, protocol {PROTOCOL}, for gateways")
        elif fence < max(1, greeting.fence):
            self.dismiss("it may not serve under this identity")
        else:
            self._is_welcome = True
            link.send(Welcome(Peer("worker", door.worker), door.base, fence))
            door.admit(self)

    def _begin(self, number: int, work: Work) -> None:
        assert self._link is not None
        if number in self._streams or work.request_id in self._door.running:
            self._link.send(refusal_of(number, InvalidRequestError("The request is here already.")))
            return
        if work.generate.engine_name != engine_name(work.route) or work.generate.request_id != work.request_id:
            self._link.send(refusal_of(number, InvalidRequestError("The request is not for its own route.")))
            return
        self._door.running.add(work.request_id)
        stream = GuestStream(self._door.agent, self._link, number, work)
        self._streams[number] = stream
        stream.task.add_done_callback(lambda _: self._ended(number, work.request_id))

    def _abort(self, number: int) -> None:
        assert self._link is not None
        stream = self._streams.get(number)
        if stream is None:
            self._link.send(Aborted(number))
            return
        stream.task.add_done_callback(lambda _: self._link and self._link.send(Aborted(number)))
        stream.task.cancel()

    def _ended(self, number: int, request: RequestId) -> None:
        self._streams.pop(number, None)
        self._door.running.discard(request)

    def _end(self, reason: str) -> None:
        self._link = None
        self.ended.set()
        self._door.forget(self)
        if self._streams:
            _log.warning("a gateway's link ended with %d requests: %s", len(self._streams), reason)
        for stream in self._streams.values():
            stream.task.cancel()
