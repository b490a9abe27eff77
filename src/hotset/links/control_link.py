"""A holder's end of its link to control: registers, applies snapshots, acknowledges them, and links again for ever."""

import asyncio
import logging
from typing import Any, Protocol

import msgspec

from hotset.core.clock import Clock
from hotset.core.errors import ControlUnreachableError, HotsetError, PermissionDeniedError
from hotset.core.ids import Digest
from hotset.core.snapshot import RoutingSnapshot
from hotset.links.address import Address, TlsFiles
from hotset.links.dialling import keep_linked
from hotset.links.holder_messages import (
    Applied,
    Ask,
    AskActivity,
    AskRequest,
    AskUsage,
    Current,
    Fence,
    FromControl,
    Granted,
    GrantWanted,
    NotGranted,
    Records,
    Register,
    Registered,
    Rejected,
    Told,
    UsageKept,
)
from hotset.links.link import Link
from hotset.links.peers import check_peer
from hotset.links.snapshot_pieces import SnapshotJoiner

_log = logging.getLogger(__name__)


class Holder(Protocol):
    """What a gateway or a worker does with what control says."""

    def registering(self) -> Register:
        """Return how to register now."""
        ...

    def registered(self) -> None:
        """Control takes us."""
        ...

    def rejected(self, code: str, message: str) -> None:
        """Control does not take us, for now."""
        ...

    def fenced(self, fence: int) -> None:
        """We serve under this number from now on."""
        ...

    def apply(self, snapshot: RoutingSnapshot) -> int:
        """Use this snapshot from now on, unless a newer one is in use; return the epoch of the one in use."""
        ...

    def usage_kept(self, stream: str, number: int) -> None:
        """Batches of this stream up to this number count with control."""
        ...

    async def answer(self, ask: Ask) -> Told:
        """Return what is known here."""
        ...


class ControlLink:
    """One holder's link; `run` keeps it."""

    def __init__(self, address: Address, holder: Holder, *, clock: Clock, tls: TlsFiles | None = None) -> None:
        """Prepare; `run` connects.

        Args:
            address: Where control listens.
            holder: Hears what control says.
            clock: Where time comes from.
            tls: Who we are, where the address speaks TLS.
        """
        self._address = address
        self._holder = holder
        self._clock = clock
        self._tls = tls
        self._decoder: msgspec.msgpack.Decoder[FromControl] = msgspec.msgpack.Decoder(FromControl)
        self._link: Link[FromControl] | None = None
        self._joiner = SnapshotJoiner()
        self._is_registered = False
        #: Blobs that a grant was asked for and not answered.
        self._granting: dict[Digest, asyncio.Future[str]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        #: When control was last there; from the start where it never was.
        self._lost_at_s = clock.monotonic_s()

    @property
    def is_registered(self) -> bool:
        """Whether control is there and takes us."""
        return self._is_registered

    def silence_s(self) -> float:
        """Return for how long control has not been there, in seconds; 0 while it is."""
        return 0.0 if self._is_registered else self._clock.monotonic_s() - self._lost_at_s

    def send(self, message: Any) -> None:
        """Send where control takes us; it asks again for what it did not hear."""
        if self._is_registered and self._link is not None:
            self._link.send(message)

    async def blob_grant(self, digest: Digest) -> str:
        """Return a grant to read a blob of the trusted store, as a worker that has none of it.

        Raises:
            ControlUnreachableError: control is not there.
            PermissionDeniedError: no version that this worker may load has the blob, or it is not in the store.
        """
        if not self._is_registered:
            raise ControlUnreachableError("Control is not there to give a grant.")
        if digest not in self._granting:
            self._granting[digest] = asyncio.get_running_loop().create_future()
            self.send(GrantWanted(digest))
        return await asyncio.shield(self._granting[digest])

    def drop(self, reason: str) -> None:
        """End the present link; another one follows."""
        if self._link is not None:
            self._link.close(reason)

    async def run(self) -> None:
        """Keep the link until cancelled.

        Raises:
            ConfigError: there are no certificates for the address.
        """
        await keep_linked(self._address, self._tls, self._make_link, lambda: self._was_registered)

    def _make_link(self) -> Link[FromControl]:
        self._joiner = SnapshotJoiner()
        self._was_registered = False
        return Link(self._decoder, on_open=self._open, on_message=self._hear, on_end=self._end)

    def _open(self, link: Link[FromControl]) -> None:
        self._link = link
        link.send(self._holder.registering())

    def _hear(self, message: FromControl) -> None:
        match message:
            case Registered(me):
                self._welcome(me)
            case Rejected(code, text):
                self._holder.rejected(code, text)
                self.drop(text)
            case _ if not self._is_registered:
                self.drop("control did not say who it is")
            case Fence(fence):
                self._holder.fenced(fence)
            case Records():
                self._joiner.add(message)
            case Current():
                self.send(Applied(self._holder.apply(self._joiner.join(message))))
            case UsageKept(stream, number):
                self._holder.usage_kept(stream, number)
            case AskActivity() | AskRequest() | AskUsage():
                task = asyncio.create_task(self._answer(message))
                self._answering.add(task)
                task.add_done_callback(self._answered)
            case _:
                self._hear_of_blob(message)

    def _hear_of_blob(self, message: FromControl) -> None:
        match message:
            case Granted(digest, grant):
                if (granting := self._granting.pop(digest, None)) is not None:
                    granting.set_result(grant)
            case NotGranted(digest, text):
                self._refuse_grant(digest, PermissionDeniedError(text))
            case _:
                self.drop("it sends a blob over a link that is not for one")

    def _refuse_grant(self, digest: Digest, error: HotsetError) -> None:
        if (granting := self._granting.pop(digest, None)) is not None:
            granting.set_exception(error)
            granting.exception()  # whoever asked may have given up

    def _welcome(self, me: Any) -> None:
        assert self._link is not None
        try:
            if me.role != "control":
                self.drop("it is not control")
                return
            check_peer(self._link, me)
        except HotsetError as error:
            self.drop(error.message)
            return
        self._is_registered = self._was_registered = True
        _log.info("registered with control at %s", self._address)
        self._holder.registered()

    async def _answer(self, ask: Ask) -> None:
        self.send(await self._holder.answer(ask))

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("control's question could not be answered", exc_info=error)

    def _end(self, _reason: str) -> None:
        self._link = None
        for digest in list(self._granting):
            self._refuse_grant(digest, ControlUnreachableError("Control went away before it gave a grant."))
        if self._is_registered:
            self._is_registered = False
            self._lost_at_s = self._clock.monotonic_s()
