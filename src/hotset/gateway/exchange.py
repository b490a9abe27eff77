"""One generation request from its head to its last byte.

Steps: authenticate, let in, read, parse, resolve, submit, relay; or, in place of the last two, become a job. Each may
end it with an error of the tree; the client's departure, the time limit and a withdrawal may end it anywhere between
(`watch`). However it ends, it is settled once: the ticket ended, the counters given back, one line logged (I8).
"""

import asyncio
import logging

from hotset.admission.outcomes import Outcome
from hotset.core.errors import (
    AdmissionError,
    ControlUnreachableError,
    EngineUnavailableError,
    FirstTokenBudgetExceededError,
    HotsetError,
    ShuttingDownError,
    StaleRouteError,
    TooManyJobsError,
)
from hotset.core.ports import Ticket
from hotset.core.snapshot import RoutingSnapshot
from hotset.gateway.accounting import Account, outcome_of, settle
from hotset.gateway.authenticate import Caller, Headers, authenticate
from hotset.gateway.budget import default_budget_ms, first_token_budget
from hotset.gateway.endpoints import Endpoint
from hotset.gateway.jobs.door import Door, door_of
from hotset.gateway.last_word import tell
from hotset.gateway.outlet import Outlet, Send
from hotset.gateway.parse import Asked
from hotset.gateway.patience import Patience
from hotset.gateway.plane import Plane
from hotset.gateway.problems import retry_after_ms_of
from hotset.gateway.relay import Relay
from hotset.gateway.request_head import RequestHead, check_is_json, read_head
from hotset.gateway.running import RunningRequest
from hotset.gateway.submitting import submit
from hotset.gateway.watch import ClientGoneError, Receive, Watch
from hotset.routing.resolve import Resolved, resolve, stop_reason
from hotset.telemetry.logs import of_request

_log = logging.getLogger(__name__)


class Exchange:
    """One request and its answer; made and run on the request's own task."""

    __slots__ = (
        "_account",
        "_door",
        "_endpoint",
        "_entered",
        "_outlet",
        "_patience",
        "_plane",
        "_receive",
        "_running",
        "_ticket",
        "_watch",
    )

    def __init__(self, plane: Plane, endpoint: Endpoint, receive: Receive, send: Send) -> None:
        self._plane = plane
        self._endpoint = endpoint
        self._receive = receive
        self._outlet = Outlet(send)
        self._watch = Watch(receive, plane.settings)
        self._ticket: Ticket | None = None
        #: The way to a job; None where the answer has to come on this connection.
        self._door: Door | None = None
        self._running: RunningRequest | None = None
        #: Whether `InFlight` counts this request.
        self._entered = False
        self._account = Account(
            request_id=plane.new_request_id(),
            endpoint=endpoint.name,
            began_at_s=plane.clock.monotonic_s(),
            began_wall_s=plane.clock.wall_s(),
        )
        self._patience = Patience(plane, self._account, self._watch)

    async def run(self, headers: Headers) -> None:
        """Serve the request; every error but the task's own cancellation ends here."""
        outcome, code = Outcome.FAILED, ShuttingDownError.code
        try:
            ending = await self._ending(headers)
            outcome, code = self._outcome(ending)
            if ending is not None:
                self._account.retry_after_ms = retry_after_ms_of(ending)
                self._stop_watching()
                await self._break_off(ending)
        finally:
            self._stop_watching()
            self._release()
            settle(self._plane, self._account, outcome, code)

    async def _ending(self, headers: Headers) -> Exception | None:
        """Serve the request and return what ended it; None where the whole answer went out."""
        try:
            await self._serve(headers)
        except asyncio.CancelledError:
            if self._watch.taken_back():
                assert self._watch.reason is not None
                return await self._answer_later(self._watch.reason)
            await self._end_ticket()
            raise
        except (HotsetError, ClientGoneError) as error:
            return await self._answer_later(error)
        except Exception as error:  # noqa: BLE001 - the request's outermost loop: logged, and answered as a 500
            _log.exception("request failed", extra=of_request(self._account.request_id))
            return error
        return None

    async def _serve(self, headers: Headers) -> None:
        plane, account = self._plane, self._account
        if plane.is_shutting_down:
            raise ShuttingDownError
        if plane.is_outdated():
            raise ControlUnreachableError
        head = read_head(headers)
        snapshot = plane.snapshot
        caller = authenticate(snapshot, head.authorization, account.began_wall_s)
        self._enter(caller)
        body = await self._read(head)
        asked = self._endpoint.parse(body, plane.settings)
        account.is_stream = asked.stream
        if plane.snapshot is not snapshot:
            snapshot = plane.snapshot
            caller = authenticate(snapshot, head.authorization, plane.clock.wall_s())
        bound = self._bind(snapshot, caller, asked)
        default_ms = default_budget_ms(snapshot, caller, bound, plane.settings)
        account.budget = first_token_budget(head, is_stream=asked.stream, default_ms=default_ms)
        self._door = door = door_of(plane, self._endpoint, account, asked, head, body)
        if door is not None and await door.is_taken(self._outlet, at_once=asked.in_background):
            return
        relay = Relay(plane, self._endpoint, account, asked)
        relay.open(self._outlet)
        try:
            ticket = await self._submit(caller, asked, bound, snapshot.epoch)
        except StaleRouteError as stale:
            plane.running.remove(account.request_id)  # what withdraws its route is not to end it
            snapshot = await plane.newer_snapshot(stale.epoch)
            caller = authenticate(snapshot, head.authorization, plane.clock.wall_s())
            ticket = await self._submit(caller, asked, self._bind(snapshot, caller, asked), snapshot.epoch)
        self._ticket = ticket
        account.accepted_at_s = plane.clock.monotonic_s()
        account.lane, account.load_s, account.worker = ticket.lane, ticket.load_seconds, ticket.worker
        self._patience.await_first_token()
        await relay.run(ticket, self._outlet, lambda: self._begin_answer(snapshot))

    async def _read(self, head: RequestHead) -> bytes:
        check_is_json(head)
        self._watch.await_body()
        body = await self._plane.bodies.read(head, self._receive)
        self._watch.body_arrived()
        self._account.body_at_s = self._plane.clock.monotonic_s()
        return body

    async def _answer_later(self, error: Exception) -> Exception | None:
        """Make a job of a request that comes too late, where its client prefers that; else give its error back."""
        is_late = isinstance(error, AdmissionError | EngineUnavailableError) and not isinstance(error, TooManyJobsError)
        if self._door is None or not is_late:
            return error
        self._watch.close()  # from here on it ends by itself, and soon
        try:
            await self._end_ticket()
            await self._door.answer(await self._door.accept(), self._outlet)
        except (HotsetError, ClientGoneError) as refusal:
            return refusal
        return None

    def _enter(self, caller: Caller) -> None:
        plane = self._plane
        self._account.caller = caller
        self._account.authenticated_at_s = plane.clock.monotonic_s()
        plane.in_flight.enter(caller.key.tenant)
        self._entered = True
        meter = plane.limits.meter(caller.key.tenant, caller.key.key)
        if meter.is_bound:
            self._account.meter = meter
            meter.enter(self._account.authenticated_at_s)

    def _bind(self, snapshot: RoutingSnapshot, caller: Caller, asked: Asked) -> Resolved:
        """Resolve the request's route, from now on within a withdrawal's reach."""
        bound = self._account.bound = resolve(snapshot, caller.key, asked.model)
        self._running = RunningRequest(self._account.request_id, caller, bound, self._watch)
        self._plane.running.add(self._running)
        return bound

    async def _submit(self, caller: Caller, asked: Asked, bound: Resolved, epoch: int) -> Ticket:
        plane, account, running = self._plane, self._account, self._running
        assert running is not None
        left_ms = self._patience.left_ms()
        budget_ms = left_ms if self._door is None else self._door.budget_ms(left_ms)
        running.is_queued = True
        hear = self._patience.listener(budget_ms)
        try:
            return await submit(plane, account, caller, asked, bound, budget_ms=budget_ms, epoch=epoch, on_waiting=hear)
        except AdmissionError as error:
            if left_ms is None or not self._outlet.has_begun:
                raise
            raise FirstTokenBudgetExceededError(retry_after_ms=error.retry_after_ms) from error
        finally:
            running.is_queued = False

    def _begin_answer(self, resolved_in: RoutingSnapshot) -> None:
        """Look once more at the first piece: the right to it may have been withdrawn while it was waited for."""
        self._watch.first_token_came()
        running, snapshot = self._running, self._plane.snapshot
        assert running is not None
        if snapshot is not resolved_in:
            error = stop_reason(snapshot, running.caller.key_hash, running.caller.key, running.bound)
            if error is not None:
                raise error
        running.is_waiting = False

    def _outcome(self, ending: Exception | None) -> tuple[Outcome, str | None]:
        if isinstance(ending, ClientGoneError):
            return Outcome.CANCELLED, None
        if ending is None or isinstance(ending, HotsetError):
            return outcome_of(ending, self._account), None if ending is None else ending.code
        return Outcome.FAILED, HotsetError.code

    async def _break_off(self, ending: Exception) -> None:
        """Tell the client, where there is one, and end what runs for it."""
        try:
            if not isinstance(ending, ClientGoneError):
                async with asyncio.timeout(self._plane.settings.last_event_timeout_s):
                    await tell(ending, self._plane, self._account, self._outlet)
        except (ClientGoneError, TimeoutError):
            _log.info("client did not take its error", extra=of_request(self._account.request_id))
        finally:
            await self._end_ticket()

    async def _end_ticket(self) -> None:
        if self._ticket is not None:
            await self._ticket.abort()

    def _stop_watching(self) -> None:
        self._watch.close()
        self._outlet.close()

    def _release(self) -> None:
        plane, account = self._plane, self._account
        if self._running is not None:
            plane.running.remove(account.request_id)
        if self._entered and account.caller is not None:
            plane.in_flight.leave(account.caller.key.tenant)
            account.meter.leave()
