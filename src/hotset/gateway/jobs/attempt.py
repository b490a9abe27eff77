"""One try of one job: the right to it is checked anew, its route bound anew, its answer gathered whole."""

import asyncio

from hotset.core.errors import EngineTimeoutError, HotsetError, UnauthenticatedError
from hotset.core.snapshot import RoutingSnapshot
from hotset.gateway.accounting import ASYNC_LANE, Account
from hotset.gateway.authenticate import Caller
from hotset.gateway.endpoints import ENDPOINTS_BY_NAME
from hotset.gateway.plane import Plane
from hotset.gateway.relay import Relay
from hotset.gateway.running import Running, RunningRequest
from hotset.gateway.submitting import submit
from hotset.routing.resolve import resolve, stop_reason
from hotset.storage.jobs import Right
from hotset.storage.rows import JobRow


class JobLostError(Exception):
    """The job is not ours any more. Outside the error tree: nobody is to be told by us."""


class Attempt:
    """Made and run on a task of its own."""

    def __init__(self, plane: Plane, row: JobRow, running: Running) -> None:
        self._plane = plane
        self._row = row
        self._running = running
        self._task: asyncio.Task[object] | None = None
        self._has_ended = False
        #: Why it was interrupted; None while it was not.
        self.reason: HotsetError | JobLostError | None = None
        self.account = Account(
            request_id=plane.new_request_id(),
            endpoint=row.endpoint,
            began_at_s=plane.clock.monotonic_s(),
            began_wall_s=plane.clock.wall_s(),
            lane=ASYNC_LANE,
            job=row.job,
        )

    @property
    def route(self) -> str:
        """``alias@N`` that the try was bound to; empty where it did not come that far."""
        bound = self.account.bound
        return "" if bound is None else bound.shown

    def interrupt(self, reason: HotsetError | JobLostError) -> None:
        """End the try for this reason, unless it was interrupted or has ended."""
        if self.reason is not None or self._has_ended:
            return
        self.reason = reason
        if self._task is not None:
            self._task.cancel()

    async def run(self, body: bytes) -> bytes:
        """Return the answer's JSON.

        Args:
            body: What was asked.

        Raises:
            HotsetError: why there is no answer this time.
            JobLostError: the job was taken from us meanwhile.
        """
        if self.reason is not None:
            raise self.reason
        self._task = task = asyncio.current_task()
        assert task is not None
        try:
            return await self._answer(body)
        except asyncio.CancelledError:
            if self.reason is None:
                raise
            task.uncancel()
            raise self.reason from None
        finally:
            self._has_ended = True

    async def _answer(self, body: bytes) -> bytes:
        plane, account, snapshot = self._plane, self.account, self._plane.snapshot
        right = Right(self._row.tenant, self._row.key_sha256, self._row.model)
        account.caller = caller = caller_of(snapshot, right, plane.clock.wall_s())
        account.body_at_s = account.authenticated_at_s = plane.clock.monotonic_s()
        endpoint = ENDPOINTS_BY_NAME[self._row.endpoint]
        asked = endpoint.parse(body, plane.settings)
        account.bound = bound = resolve(snapshot, caller.key, asked.model)
        running = RunningRequest(account.request_id, caller, bound, self)
        self._running.add(running)
        try:
            account.meter = plane.limits.meter(caller.key.tenant, caller.key.key)
            ticket = await submit(plane, account, caller, asked, bound, budget_ms=None, epoch=snapshot.epoch)
            account.accepted_at_s = plane.clock.monotonic_s()
            account.load_s, account.worker = ticket.load_seconds, ticket.worker
            try:
                async with asyncio.timeout(plane.settings.request_timeout_s):
                    return await Relay(plane, endpoint, account, asked).gather(
                        ticket, lambda: self._begin(running, snapshot)
                    )
            except TimeoutError:
                raise EngineTimeoutError from None
            finally:
                await asyncio.shield(ticket.abort())
        finally:
            self._running.remove(account.request_id)

    def _begin(self, running: RunningRequest, resolved_in: RoutingSnapshot) -> None:
        snapshot = self._plane.snapshot
        if snapshot is not resolved_in:
            error = stop_reason(snapshot, running.caller.key_hash, running.caller.key, running.bound)
            if error is not None:
                raise error
        running.is_waiting = False


def caller_of(snapshot: RoutingSnapshot, right: Right, wall_s: float) -> Caller:
    """Return by whose key a job is run.

    Raises:
        UnauthenticatedError: the key or its tenant may not call any more.
    """
    key = snapshot.keys.get(right.key_sha256)
    if key is None or key.tenant != right.tenant or key.tenant not in snapshot.tenants:
        raise UnauthenticatedError
    if key.expires_at_s is not None and key.expires_at_s <= wall_s:
        raise UnauthenticatedError
    return Caller(key, right.key_sha256)


def reason_against(snapshot: RoutingSnapshot, right: Right, wall_s: float) -> HotsetError | None:
    """Return why jobs that wait by this right are not to start; None where they may (I11)."""
    try:
        resolve(snapshot, caller_of(snapshot, right, wall_s).key, right.model)
    except HotsetError as error:
        return error
    return None
