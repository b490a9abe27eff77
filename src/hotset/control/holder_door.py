"""Control's door: where gateways and workers register, get snapshots and say how they are."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import msgspec

from hotset.control.blob_grants import BlobGrants
from hotset.control.holder_session import Session
from hotset.control.holders import Holders
from hotset.core.errors import HotsetError, InvalidRequestError
from hotset.core.fleet import WorkerFacts
from hotset.core.ids import Digest, WorkerId
from hotset.links.address import Address, TlsFiles, listen, listening_address
from hotset.links.holder_messages import (
    ActivityTold,
    Applied,
    BeatNow,
    FactsNow,
    Fetch,
    Granted,
    GrantWanted,
    Leaving,
    NotGranted,
    Register,
    Registered,
    Rejected,
    RequestTold,
    ToControl,
    UsageNow,
    UsageTold,
)
from hotset.links.link import Link
from hotset.links.peers import Peer, check_peer
from hotset.links.worker_messages import PROTOCOL

_log = logging.getLogger(__name__)
_REGISTER_TIMEOUT_S = 10.0


class HolderDoor:
    """Takes holders' links in, and workers' links for one blob each."""

    def __init__(self, holders: Holders, me: Peer, blobs: BlobGrants) -> None:
        self.holders = holders
        self.blobs = blobs
        self.me = me
        self._server: asyncio.Server | None = None
        self.visitors: set[_Visitor] = set()

    async def open(self, address: Address, tls: TlsFiles | None, setting: str) -> Address:
        """Listen; return the address, with the port where the system chose one.

        Raises:
            ConfigError: it can't be listened on.
        """
        decoder: msgspec.msgpack.Decoder[ToControl] = msgspec.msgpack.Decoder(ToControl)
        self._server = await listen(address, tls, lambda: _Visitor(self).link(decoder), setting)
        return listening_address(address, self._server)

    async def close(self) -> None:
        """Let nobody in, and end every link: holders go on without control."""
        if self._server is not None:
            self._server.close()
        visitors = list(self.visitors)
        for visitor in visitors:
            visitor.dismiss("control ends")
        await asyncio.gather(*(visitor.gone() for visitor in visitors))


class _Visitor:
    """One link, registered or not."""

    def __init__(self, door: HolderDoor) -> None:
        self._door = door
        self._link: Link[ToControl] | None = None
        self._session: Session | None = None
        #: Whether it said who it is, which it does once.
        self._is_registering = False
        #: Whether the link is there for one blob alone.
        self._is_fetching = False
        self._tasks: set[asyncio.Task[None]] = set()

    def link(self, decoder: "msgspec.msgpack.Decoder[ToControl]") -> Link[ToControl]:
        """Return our end of its link."""
        return Link(decoder, on_open=self._open, on_message=self._hear, on_end=self._end)

    def dismiss(self, reason: str) -> None:
        """End the link."""
        if self._link is not None:
            self._link.close(reason)

    async def gone(self) -> None:
        """Return once nothing is done on its behalf any more."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _open(self, link: Link[ToControl]) -> None:
        self._link = link
        self._door.visitors.add(self)
        asyncio.get_running_loop().call_later(_REGISTER_TIMEOUT_S, self._hurry)

    def _hurry(self) -> None:
        if self._session is None and not self._is_fetching:
            self.dismiss("it did not register")

    def _hear(self, message: ToControl) -> None:
        if isinstance(message, Register) and not self._is_registering:
            self._is_registering = True
            self._start(self._register(message))
        elif self._session is not None:
            self._hear_holder(message, self._session)
        elif isinstance(message, Fetch) and not self._is_fetching:
            self._is_fetching = True
            self._start(self._send_blob(message))
        else:
            self.dismiss("it did not register")

    def _hear_holder(self, message: ToControl, session: Session) -> None:
        match message:
            case Applied(epoch):
                session.applied(epoch)
                if epoch > self._door.holders.snapshot.epoch:
                    self._start(self._door.holders.overtake(session, epoch))
            case FactsNow(facts) if _is_of(session, facts.worker):
                self._start(self._take_facts(session, facts))
            case BeatNow(heartbeat, report) if _is_of(session, heartbeat.worker) and _is_of(session, report.worker):
                self._door.holders.heard(session, message)
            case FactsNow() | BeatNow():
                self.dismiss("it speaks of another worker")
            case UsageNow(batch):
                self._start(self._door.holders.count(session, batch))
            case ActivityTold() | RequestTold() | UsageTold():
                session.questions.heard(message)
            case Leaving():
                session.is_leaving = True
            case GrantWanted(digest):
                self._answer_grant(session, digest)
            case _:
                self.dismiss("it has registered, and a blob is fetched over a link of its own")

    async def _register(self, register: Register) -> None:
        link = self._link
        assert link is not None
        try:
            check_peer(link, register.me)
            if register.protocol != PROTOCOL or register.me.role not in ("gateway", "worker"):
                raise InvalidRequestError(f"Control speaks protocol {PROTOCOL}, with gateways and workers.")
            session = await self._door.holders.register(register, link)
        except HotsetError as error:
            link.send(Rejected(error.code, error.message))
            link.close(error.message)
            return
        self._session = session
        if not link.is_open:
            self._door.holders.ended(session)
            return
        _log.info("%s registered", session.peer)
        link.send(Registered(self._door.me))
        self._door.holders.give_newest(session)

    def _answer_grant(self, session: Session, digest: Digest) -> None:
        try:
            grant = self._door.blobs.give(session.peer, digest, self._door.holders.snapshot)
        except HotsetError as error:
            _log.warning("no grant for %s: %s", session.peer, error.message)
            session.link.send(NotGranted(digest, error.message))
        else:
            session.link.send(Granted(digest, grant))

    async def _send_blob(self, fetch: Fetch) -> None:
        link = self._link
        assert link is not None
        try:
            await self._door.blobs.send(self._door.me, fetch, link)
        except HotsetError as error:
            _log.warning("a blob was not sent to %s: %s", fetch.me, error.message)
            link.send(Rejected(error.code, error.message))
            link.close(error.message)

    async def _take_facts(self, session: Session, facts: WorkerFacts) -> None:
        try:
            await self._door.holders.facts(session, facts)
        except HotsetError as error:
            session.link.send(Rejected(error.code, error.message))
            session.link.close(error.message)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a holder could not be served", exc_info=error)
            self.dismiss("control failed")

    def _end(self, _reason: str) -> None:
        self._link = None
        self._door.visitors.discard(self)
        if self._session is not None:
            self._door.holders.ended(self._session)


def _is_of(session: Session, worker: WorkerId | None) -> bool:
    """Whether the session is this worker's own: nobody speaks for another one."""
    return session.peer == Peer("worker", worker or "")
