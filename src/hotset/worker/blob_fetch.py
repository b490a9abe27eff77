"""Brings blobs of the trusted store to a worker's machine where it can't open that store: by a grant, over a link.

Each blob has a link of its own, so that its bytes are in no snapshot's way, and a thread, so that the agent's loop only
gives the grant. What was cut off goes on where it stopped. Every byte is hashed before the blob counts as here.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec

from hotset.core.clock import Clock
from hotset.core.errors import ControlUnreachableError, DigestMismatchError, HotsetError
from hotset.core.ids import Digest
from hotset.links.address import Address, TlsFiles, connect_blocking, shown_certificate
from hotset.links.control_link import ControlLink
from hotset.links.frames import FrameSplitter, frame
from hotset.links.holder_messages import Fetch, FromControl, Piece, Registered, Rejected, Whole
from hotset.links.peers import Peer, check_shown
from hotset.links.worker_messages import PROTOCOL
from hotset.storage.blobs import BlobStore
from hotset.storage.kept_blobs import ArrivingBlob, KeptBlobs

_log = logging.getLogger(__name__)
#: How long a grant, a connection or the next bytes may take.
_PATIENCE_S = 10.0
#: A blob has this time, and more by its size: so one that dribbles holds nobody up for ever.
_BLOB_S = 30.0
_BYTES_PER_S_MIN = 1_000_000
_NUM_TRIES = 3
_PAUSE_S = 0.5
_RECEIVE_BYTES = 1 << 18
#: An empty frame: we are still here.
_BEAT = b"\x00\x00\x00\x00"


class BlobFetcher:
    """Implements `worker.local_store.BlobSource`. `begin` and what brings bytes blocks and is called on threads."""

    def __init__(
        self,
        trusted: BlobStore,
        kept: KeptBlobs,
        *,
        me: Peer,
        address: Address,
        tls: TlsFiles | None,
        clock: Clock,
        on_fetch: Callable[[str, int], None],
    ) -> None:
        """Prepare; `grants_from` says whom to ask.

        Args:
            trusted: The trusted store as this machine sees it: whole where it shares control's folder, else empty.
            kept: What was fetched.
            me: The worker.
            address: Where control listens.
            tls: Who the worker is, where the address speaks TLS.
            clock: Where time comes from.
            on_fetch: Hears how each fetch ended, ``done`` or ``failed``, and how many bytes came; on any thread.
        """
        self._trusted = trusted
        self._kept = kept
        self._me = me
        self._address = address
        self._tls = tls
        self._clock = clock
        self._on_fetch = on_fetch
        self._control: ControlLink | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._decoder: msgspec.msgpack.Decoder[FromControl] = msgspec.msgpack.Decoder(FromControl)
        self._stopping = threading.Event()
        #: One fetch of a blob at a time, however many wait for it; gone once nobody does.
        self._turns: WeakValueDictionary[Digest, _Turn] = WeakValueDictionary()
        self._guard = threading.Lock()

    def begin(self) -> None:
        """Tidy what earlier starts left; before anything is fetched."""
        try:
            num_parts = self._kept.sweep_parts(self._clock.wall_s())
        except OSError as error:  # they only take room
            _log.warning("what was cut off long ago is not removed: %s", error)
            return
        if num_parts:
            _log.info("removed %d blobs that were cut off long ago", num_parts)

    def grants_from(self, control: ControlLink) -> None:
        """Ask for grants over this link, on the event loop that runs now."""
        self._control, self._loop = control, asyncio.get_running_loop()

    def stop(self) -> None:
        """Fetch nothing more; what is under way ends soon."""
        self._stopping.set()

    def bring(self, digest: Digest, size_bytes: int) -> None:
        """See to it that a blob is on this machine.

        Raises:
            ControlUnreachableError: neither the store nor control can be reached.
            PermissionDeniedError: control gives no grant for it.
            DigestMismatchError: what came is not the blob.
            OSError: the disk is full or broken.
        """
        if self._trusted.contains(digest):
            return
        with self._guard:
            turn = self._turns.setdefault(digest, _Turn())
        with turn.lock:
            if not self._kept.use(digest):
                self._fetch(digest, size_bytes)

    def copy_verified(self, digest: Digest, destination: Path) -> int:
        """Copy a blob that is here out; see `BlobStore.copy_verified`. One whose bytes have rotted is fetched anew."""
        if self._trusted.contains(digest):
            return self._trusted.copy_verified(digest, destination)
        try:
            return self._kept.copy_verified(digest, destination)
        except DigestMismatchError:
            self._kept.delete(digest)
            raise

    def _fetch(self, digest: Digest, size_bytes: int) -> None:
        """Try until the blob is here, or it is in vain."""
        until_s = self._clock.monotonic_s() + _BLOB_S + size_bytes / _BYTES_PER_S_MIN
        for num_left in reversed(range(_NUM_TRIES)):
            try:
                with self._kept.receiving(digest, size_bytes) as arriving:
                    had_bytes = arriving.num_bytes
                    self._receive(digest, arriving, until_s)
            except (HotsetError, OSError) as error:
                self._on_fetch("failed", 0)
                _log.warning("%s did not come: %s", digest, error)
                if not num_left or not _may_pass(error) or self._stopping.wait(_PAUSE_S):
                    raise
            else:
                self._on_fetch("done", arriving.num_bytes - had_bytes)
                return

    def _receive(self, digest: Digest, arriving: ArrivingBlob, until_s: float) -> None:
        grant = self._grant(digest)
        try:
            end = connect_blocking(self._address, self._tls, timeout_s=_PATIENCE_S)
        except OSError as error:
            raise ControlUnreachableError(f"Control can't be reached: {error}") from error
        with end:
            asked = frame(Fetch(PROTOCOL, self._me, grant, arriving.num_bytes))
            for message in self._messages(end, asked, until_s):
                match message:
                    case Piece(content):
                        arriving.add(content)
                    case Registered(me):
                        check_shown(shown_certificate(end), end, Peer("control", me.name))
                    case Whole():
                        return
                    case Rejected(_, text):
                        raise ControlUnreachableError(f"Control sends no blob: {text}")
                    case _:
                        raise ControlUnreachableError("Control speaks of something else.")

    def _grant(self, digest: Digest) -> str:
        if self._control is None or self._loop is None:
            raise ControlUnreachableError("Control was not there since the worker began.")
        asking = asyncio.run_coroutine_threadsafe(self._control.blob_grant(digest), self._loop)
        try:
            return asking.result(_PATIENCE_S)
        except (TimeoutError, CancelledError) as error:  # cancelled where the loop ends meanwhile
            asking.cancel()
            raise ControlUnreachableError("Control gave no grant in time.") from error

    def _messages(self, end: socket.socket, asked: bytes, until_s: float) -> Iterator[FromControl]:
        """Ask control, yield what it says, and say now and then that we listen.

        Raises:
            ControlUnreachableError: it says nothing more, or nothing that can be understood.
        """
        splitter, unsaid = FrameSplitter(), asked
        while True:
            if self._stopping.is_set() or self._clock.monotonic_s() > until_s:
                raise ControlUnreachableError("The blob did not come in time.")
            try:
                end.sendall(unsaid)
                unsaid = _BEAT
                received = end.recv(_RECEIVE_BYTES)
                if not received:
                    raise ControlUnreachableError("Control closed the link.")
                for body in splitter.feed(received):
                    if body:
                        yield self._decoder.decode(body)
            except (OSError, ValueError, msgspec.MsgspecError) as error:
                raise ControlUnreachableError(f"Control was lost: {error}") from error


class _Turn:
    """Whose turn it is to fetch one blob."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def _may_pass(error: Exception) -> bool:
    """Whether the next try may go better."""
    return isinstance(error, ControlUnreachableError | DigestMismatchError)
