"""Where a request becomes a job: its client prefers to wait elsewhere (RFC 7240), or asks for a background response."""

from hotset.core.errors import InvalidRequestError, JobsForbiddenError, JobsUnavailableError
from hotset.gateway.accounting import ASYNC_LANE, Account
from hotset.gateway.endpoints import Endpoint
from hotset.gateway.jobs.book import JobBook, KeptJob, NewJob
from hotset.gateway.jobs.showing import POLL_AFTER, job_json, response_json
from hotset.gateway.outlet import HeaderList, Outlet
from hotset.gateway.parse import Asked
from hotset.gateway.plane import Plane
from hotset.gateway.request_head import RequestHead
from hotset.storage.rows import JobRow

_IDEMPOTENCY_KEY_CHARS_MAX = 255


class Door:
    """One request's way to a job."""

    def __init__(
        self, book: JobBook, endpoint: Endpoint, account: Account, head: RequestHead, body: bytes, *, epoch: int
    ) -> None:
        assert account.caller is not None
        assert account.bound is not None
        caller = account.caller
        self._book = book
        self._account = account
        self._endpoint = endpoint
        self._new = NewJob(
            tenant=caller.key.tenant,
            key=caller.key.key,
            key_sha256=caller.key_hash,
            model=account.bound.model,
            endpoint=endpoint.name,
            id_prefix=endpoint.job_id_prefix,
            epoch=epoch,
            body=body,
            idempotency_key=_checked(head.idempotency_key),
        )

    def budget_ms(self, left_ms: int | None) -> int:
        """Return how long the client waits on this connection before a job is made of its request."""
        return self._book.settings.async_after_ms if left_ms is None else left_ms

    async def is_taken(self, outlet: Outlet, *, at_once: bool) -> bool:
        """Answer with a job if the same request led to one before, or if it is to be one in any case.

        Args:
            outlet: Where the answer goes.
            at_once: Make a job of it in any case.

        Returns:
            Whether it was answered.

        Raises:
            HotsetError: see `JobBook.known` and `JobBook.accept`.
            ClientGoneError: the connection is closed.
        """
        row = await self.accept() if at_once else await self._book.known(self._new)
        if row is not None:
            await self.answer(row, outlet)
        return row is not None

    async def accept(self) -> JobRow:
        """Make a job of the request; see `JobBook.accept`."""
        return await self._book.accept(self._new)

    async def answer(self, row: JobRow, outlet: Outlet) -> None:
        """Tell the client which job its request is.

        Raises:
            ClientGoneError: the connection is closed; the job stays.
        """
        account = self._account
        account.job, account.lane, account.is_deferred = row.job, ASYNC_LANE, True
        has_ended = row.life.ended_at_s is not None
        kept = await self._book.find(row.tenant, row.job) if has_ended else KeptJob(row, self._new.body, None)
        headers: HeaderList = [
            (b"content-type", b"application/json"),
            (b"cache-control", b"no-store"),
            (b"x-request-id", account.request_id.encode()),
            (b"location", b"/v1/jobs/" + row.job.encode()),
            POLL_AFTER,
        ]
        if self._endpoint.job_id_prefix == "resp_":
            await outlet.answer(200, headers, response_json(kept))
            return
        waited = b", " + account.budget.applied if account.budget.applied else b""
        headers.append((b"preference-applied", b"respond-async" + waited))
        await outlet.answer(202, headers, job_json(kept))


def door_of(
    plane: Plane, endpoint: Endpoint, account: Account, asked: Asked, head: RequestHead, body: bytes
) -> Door | None:
    """Return the request's way to a job; None where its answer has to come on this connection.

    A preference is a wish: it is passed over where jobs are not kept, or not for this tenant. A background response is
    nothing but a job.

    Raises:
        JobsForbiddenError: it is a background response of a tenant that may have none.
        JobsUnavailableError: it is one, and no jobs are kept.
        InvalidRequestError: its Idempotency-Key is none.
    """
    assert account.caller is not None
    if not asked.in_background and not account.budget.prefers_async:
        return None
    is_forbidden = account.caller.key.tenant in plane.snapshot.without_jobs
    if plane.jobs is not None and not is_forbidden:
        return Door(plane.jobs, endpoint, account, head, body, epoch=plane.snapshot.epoch)
    if asked.in_background:
        raise JobsForbiddenError if is_forbidden else JobsUnavailableError
    return None


def _checked(key: bytes | None) -> bytes | None:
    if key is None:
        return None
    if not 1 <= len(key) <= _IDEMPOTENCY_KEY_CHARS_MAX or not key.isascii() or not key.decode().isprintable():
        message = f"The Idempotency-Key header is not one text of 1 to {_IDEMPOTENCY_KEY_CHARS_MAX} printable ASCII."
        raise InvalidRequestError(message, param="idempotency-key")
    return key
