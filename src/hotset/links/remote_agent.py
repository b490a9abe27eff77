"""An agent in another process, as a gateway sees it: implements `core.ports.Agent` over one link.

Every request ends exactly once here, whatever becomes of the link: one that was not accepted yet is refused, one that
runs gets a last event that says the engine failed. The agent at the other end aborts what the link carried.
"""

import asyncio
import logging
from typing import Any

import msgspec

from hotset.core.clock import Clock
from hotset.core.errors import EngineUnavailableError, HotsetError, RequestTooLargeError
from hotset.core.fleet import Heartbeat, WorkerEntry
from hotset.core.ports import OnWaiting, Work
from hotset.links.address import TlsFiles, parse_address
from hotset.links.dialling import keep_linked
from hotset.links.link import Link
from hotset.links.peers import Peer, check_peer
from hotset.links.remote_ticket import RemoteTicket
from hotset.links.worker_messages import (
    PROTOCOL,
    Abort,
    Beat,
    FromWorker,
    Greeting,
    Submit,
    Unwelcome,
    Welcome,
)

_log = logging.getLogger(__name__)


class RemoteAgent:
    """One worker's agent; `run` keeps the link to it."""

    def __init__(self, entry: WorkerEntry, *, me: Peer, clock: Clock, tls: TlsFiles | None = None) -> None:
        """Prepare; `run` connects.

        Args:
            entry: The worker, as the snapshot has it.
            me: The gateway.
            clock: Where time comes from.
            tls: Who the gateway is, where the worker is reached by TLS.
        """
        self._entry = entry
        self._me = me
        self._clock = clock
        self._tls = tls
        self._decoder: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)
        self._link: Link[FromWorker] | None = None
        self._is_welcome = False
        self._heartbeat: Heartbeat | None = None
        #: When the last heartbeat came, in monotonic seconds.
        self.heard_at_s = 0.0
        #: Requests sent there since.
        self.num_sent = 0
        self._tickets: dict[int, RemoteTicket] = {}
        self._next_stream = 1
        self._changed = asyncio.Event()

    # --- the Agent port --------------------------------------------------------------------------------

    async def submit(self, work: Work, on_waiting: OnWaiting | None = None) -> RemoteTicket:
        """Hand the work to the agent; see `core.ports.Agent`."""
        if not self._is_welcome or self._link is None:
            raise EngineUnavailableError("The worker is not linked.")
        stream = self._next_stream
        self._next_stream += 1
        ticket = RemoteTicket(self, self._entry.facts.worker, stream, work.request_id, on_waiting)
        try:
            self._link.send(Submit(stream, work))
        except ValueError as error:
            raise RequestTooLargeError from error
        self._tickets[stream] = ticket
        self.num_sent += 1
        try:
            await ticket.answer
        except asyncio.CancelledError:
            self._tickets.pop(stream, None)
            self.send(Abort(stream))
            raise
        return ticket

    def is_ready(self) -> bool:
        """Whether the worker says that its engine serves and that it takes work."""
        beat = self._heartbeat
        return self._is_welcome and beat is not None and beat.is_ready and not beat.is_leaving

    def model_len_max(self) -> int:
        """Tokens of prompt and answer together."""
        return self._entry.facts.model_len_max

    # --- the worker as a gateway chooses by it ---------------------------------------------------------

    @property
    def entry(self) -> WorkerEntry:
        """The worker, as the snapshot has it."""
        return self._entry

    @property
    def heartbeat(self) -> Heartbeat | None:
        """How the worker is by its own last account; None while it is not linked."""
        return self._heartbeat if self._is_welcome else None

    def num_open(self) -> int:
        """Requests that this gateway has there."""
        return len(self._tickets)

    def update(self, entry: WorkerEntry) -> None:
        """Take what a newer snapshot says of the worker; one that is fenced off by it is let go of."""
        is_newer = entry.fence > self._entry.fence
        self._entry = entry
        if is_newer and self._link is not None and self._heartbeat is not None and self._heartbeat.fence < entry.fence:
            self._link.close("another agent has its identity")

    async def wait_ready(self) -> None:
        """Return once the worker takes work."""
        while not self.is_ready():
            self._changed.clear()
            await self._changed.wait()

    async def run(self) -> None:
        """Keep the link until cancelled; requests that run then are aborted.

        Raises:
            ConfigError: the worker's address is none, or there are no certificates for it.
        """
        address = parse_address(self._entry.facts.address, f"address of worker {self._entry.facts.worker}")
        try:
            await keep_linked(address, self._tls, self._make_link, self._was_welcome)
        finally:
            self._lose("the gateway lets go of it")

    # --- what tickets do -------------------------------------------------------------------------------

    def send(self, message: Any) -> None:
        """Send where there is a link; without one there is nobody to tell."""
        if self._link is not None:
            self._link.send(message)

    def send_abort(self, stream: int) -> None:
        """Ask for an abort; where the link is gone already, it is done."""
        if stream in self._tickets and self._link is not None and self._link.is_open:
            self._link.send(Abort(stream))
        elif (ticket := self._tickets.pop(stream, None)) is not None:
            ticket.lose("no link")

    # --- the link --------------------------------------------------------------------------------------

    def _make_link(self) -> Link[FromWorker]:
        return Link(self._decoder, on_open=self._open, on_message=self._hear, on_end=self._lose)

    def _was_welcome(self) -> bool:
        was, self._is_welcome = self._is_welcome, False
        return was

    def _open(self, link: Link[FromWorker]) -> None:
        worker = self._entry.facts.worker
        self._link = link
        try:
            check_peer(link, Peer("worker", worker))
        except HotsetError as error:
            link.close(error.message)
            return
        link.send(Greeting(PROTOCOL, self._me, worker, self._entry.fence))

    def _hear(self, message: FromWorker) -> None:
        match message:
            case Beat(heartbeat):
                self._heartbeat = heartbeat
                self.heard_at_s, self.num_sent = self._clock.monotonic_s(), 0
                self._changed.set()
            case Welcome(_, base, fence):
                self._check_welcome(base, fence)
            case Unwelcome(reason):
                self._close(reason)
            case _:
                ticket = self._tickets.get(message.stream)
                if ticket is not None and ticket.hear(message):
                    self._tickets.pop(message.stream, None)

    def _check_welcome(self, base: str, fence: int) -> None:
        if base != self._entry.facts.base or fence < self._entry.fence:
            self._close("it is not the worker that the snapshot names")
            return
        self._is_welcome = True
        self._changed.set()

    def _close(self, reason: str) -> None:
        if self._link is not None:
            self._link.close(reason)

    def _lose(self, reason: str) -> None:
        self._link, self._heartbeat = None, None
        lost, self._tickets = self._tickets, {}
        for ticket in lost.values():
            ticket.lose(reason)
        if lost:
            _log.warning("lost worker %s with %d requests: %s", self._entry.facts.worker, len(lost), reason)
