"""Blobs of the trusted store for workers that can't open it: each by a grant for its digest, which holds for a while.

A grant is a random word that stands for one digest and one worker, so whoever gets hold of it can neither read another
blob nor show it under another name. What is sent is read once and not hashed here: the worker checks every byte.
"""

import asyncio
import os
import secrets
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from hotset.core.clock import Clock
from hotset.core.errors import InvalidRequestError, PermissionDeniedError, RequestTimeoutError
from hotset.core.ids import Digest, WorkerId
from hotset.core.snapshot import RoutingSnapshot
from hotset.links.holder_messages import Fetch, Piece, Registered, Whole
from hotset.links.link import Link
from hotset.links.peers import Peer, check_peer
from hotset.links.worker_messages import PROTOCOL
from hotset.storage.blobs import BlobStore

#: How long a grant may be shown for the first time; what it began may take longer.
GRANT_S = 60.0
#: Of one worker at a time; one more takes the oldest away.
_GRANTS_MAX = 64
#: Blobs that are sent to one worker at a time: one that reads slowly is in no other one's way.
_SENDS_MAX = 4
#: A worker has this time to read a blob, and more by its size.
_SEND_S = 30.0
_BYTES_PER_S_MIN = 1_000_000
_PIECE_BYTES = 256 * 1024
_TOKEN_BYTES = 24


@dataclass(frozen=True, slots=True)
class _Grant:
    peer: Peer
    digest: Digest
    until_s: float


class BlobGrants:
    """Gives grants, and sends what they are for."""

    def __init__(self, blobs: BlobStore, clock: Clock, *, send_s: float = _SEND_S) -> None:
        """Begin without grants.

        Args:
            blobs: The trusted store.
            clock: Where time comes from.
            send_s: For how long the smallest blob may be sent, in seconds; a larger one has more.
        """
        self._send_s = send_s
        self._blobs = blobs
        self._clock = clock
        #: By the word that stands for each; the oldest first.
        self._grants: dict[str, _Grant] = {}
        self._turns: WeakValueDictionary[Peer, asyncio.Semaphore] = WeakValueDictionary()

    def give(self, peer: Peer, digest: Digest, snapshot: RoutingSnapshot) -> str:
        """Return a grant of a blob to a worker.

        Raises:
            PermissionDeniedError: no version of the snapshot that this worker may load has the blob, or it is lost.
        """
        if peer.role != "worker" or not _may_read(snapshot, WorkerId(peer.name), digest):
            raise PermissionDeniedError("No version that this worker may load has this blob.")
        if not self._blobs.contains(digest):
            raise PermissionDeniedError(f"The trusted store has no {digest}.")
        now_s = self._clock.monotonic_s()
        self._grants = {word: grant for word, grant in self._grants.items() if grant.until_s > now_s}
        own = [word for word, grant in self._grants.items() if grant.peer == peer]
        if len(own) >= _GRANTS_MAX:
            del self._grants[own[0]]
        word = secrets.token_urlsafe(_TOKEN_BYTES)
        self._grants[word] = _Grant(peer, digest, now_s + GRANT_S)
        return word

    async def send(self, me: Peer, fetch: Fetch, link: Link[Any]) -> None:
        """Send a blob over a link that is there for it alone; the worker ends it once it has the whole.

        Args:
            me: Control.
            fetch: The worker's word.
            link: Our end.

        Raises:
            PermissionDeniedError: it is not who the grant is for, or the grant holds no more.
            InvalidRequestError: it speaks another language.
            RequestTimeoutError: the worker does not read.
            DigestMismatchError: the blob is lost.
        """
        check_peer(link, fetch.me)
        if fetch.protocol != PROTOCOL or fetch.offset < 0:
            raise InvalidRequestError(f"Control speaks protocol {PROTOCOL}.")
        digest = self._redeem(fetch)
        link.send(Registered(me))
        turns = self._turns.setdefault(fetch.me, asyncio.Semaphore(_SENDS_MAX))
        async with turns:
            handle = await asyncio.to_thread(self._blobs.open, digest)
            try:
                async with asyncio.timeout(self._send_s + os.fstat(handle).st_size / _BYTES_PER_S_MIN):
                    await _send_from(handle, fetch.offset, link)
            except TimeoutError:
                raise RequestTimeoutError("The blob was not read in time.") from None
            finally:
                os.close(handle)

    def _redeem(self, fetch: Fetch) -> Digest:
        grant = self._grants.get(fetch.grant)
        if grant is None or grant.peer != fetch.me or grant.until_s <= self._clock.monotonic_s():
            raise PermissionDeniedError("The grant holds for another blob, another worker or no more.")
        return grant.digest


async def _send_from(handle: int, at: int, link: Link[Any]) -> None:
    """Send a file's bytes from an offset on, as fast as the other end reads."""
    while link.is_open and (content := await asyncio.to_thread(os.pread, handle, _PIECE_BYTES, at)):
        link.send(Piece(content))
        at += len(content)
        await link.writable()
    link.send(Whole())


def _may_read(snapshot: RoutingSnapshot, worker: WorkerId, digest: Digest) -> bool:
    """Whether a version over the worker's base has the blob; over any base while the worker did not say its own yet."""
    entry = snapshot.workers.get(worker)
    return any(
        record.base == (record.base if entry is None else entry.facts.base)
        and any(file.digest == digest for file in record.manifest.files)
        for record in snapshot.versions.values()
    )
