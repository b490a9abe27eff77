"""The tenant plane as an ASGI application, and its wiring.

Generation requests are the hot path and go straight to an `Exchange`; everything else is a page.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any

from hotset.admission.in_flight import InFlight
from hotset.admission.rate_limits import RateLimits
from hotset.core.clock import Clock
from hotset.core.errors import ShuttingDownError
from hotset.core.ids import Digest, RequestId
from hotset.core.ports import Agent, Withdrawal
from hotset.core.snapshot import RoutingSnapshot
from hotset.core.terms import DEFAULT_TERMS
from hotset.gateway.body import BodyReader
from hotset.gateway.endpoints import ENDPOINTS
from hotset.gateway.exchange import Exchange
from hotset.gateway.jobs.book import JobBook
from hotset.gateway.jobs.runner import JobRunner
from hotset.gateway.outlet import Send
from hotset.gateway.pages import Pages
from hotset.gateway.plane import Plane, Salts
from hotset.gateway.running import Running
from hotset.gateway.settings import GatewaySettings
from hotset.gateway.watch import Receive
from hotset.telemetry.metrics import Metrics
from hotset.telemetry.request_log import RequestLog

_ID_BYTES = 16
_IDS_AT_ONCE = 256

Scope = Mapping[str, Any]


class RandomRequestIds:
    """Makes request ids of 32 hex digits from the system's generator, which is asked once for many."""

    def __init__(self) -> None:
        self._pool: list[str] = []

    def __call__(self) -> RequestId:
        """Return a new id."""
        if not self._pool:
            digits = os.urandom(_ID_BYTES * _IDS_AT_ONCE).hex()
            self._pool = [digits[start : start + 2 * _ID_BYTES] for start in range(0, len(digits), 2 * _ID_BYTES)]
        return RequestId(self._pool.pop())


def build_tenant_app(
    settings: GatewaySettings,
    agent_for: Mapping[Digest, Agent],
    *,
    clock: Clock,
    metrics: Metrics,
    request_log: RequestLog,
    cache_salt_secret: bytes,
    new_request_id: Callable[[], RequestId] | None = None,
    jobs: JobBook | None = None,
) -> "TenantApp":
    """Wire the tenant plane.

    Args:
        settings: Limits and times.
        agent_for: Base version's digest → the agent that serves it; looked at anew for every request.
        clock: Where time comes from.
        metrics: Where requests are counted.
        request_log: Where requests are written.
        cache_salt_secret: Key of the HMAC that turns a tenant into its cache salt; at least 16 bytes.
        new_request_id: Where request ids come from, by default `RandomRequestIds`; a client's own is never used.
        jobs: Keeps the requests that are answered later; None takes none.
    """
    assert len(cache_salt_secret) >= 16, "the salt's secret is too short"
    plane = Plane(
        settings=settings,
        agents=agent_for,
        clock=clock,
        metrics=metrics,
        request_log=request_log,
        new_request_id=new_request_id or RandomRequestIds(),
        in_flight=InFlight(
            total_max=settings.in_flight_max,
            per_tenant_max=settings.in_flight_per_tenant_max,
            retry_after_ms=settings.retry_after_ms,
        ),
        limits=RateLimits(retry_after_ms=settings.retry_after_ms),
        bodies=BodyReader(settings),
        running=Running(),
        salts=Salts(cache_salt_secret),
        jobs=jobs,
    )
    return TenantApp(plane)


class TenantApp:
    """The tenant plane: an ASGI application and a holder of snapshots. All methods run on one event loop."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        plane.metrics.count_in_flight_by(lambda: plane.in_flight.total)
        self._pages = Pages(plane)
        self._job_runner = None if plane.jobs is None else JobRunner(plane, plane.jobs)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection's request (or the server's start and stop)."""
        if scope["type"] == "http":
            path, method = scope["path"], scope["method"]
            endpoint = ENDPOINTS.get(path)
            if endpoint is not None and method == "POST":
                await Exchange(self._plane, endpoint, receive, send).run(scope["headers"])
            else:
                await self._pages.answer(method, path, scope["query_string"], scope["headers"], send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    @property
    def snapshot(self) -> RoutingSnapshot:
        """The snapshot in use; its epoch is 0 before the first."""
        return self._plane.snapshot

    @property
    def num_in_flight(self) -> int:
        """Requests let in and not yet ended, and jobs that run."""
        num_jobs = 0 if self._job_runner is None else self._job_runner.num_running
        return self._plane.in_flight.total + num_jobs

    @property
    def is_ready(self) -> bool:
        """Whether it takes requests: it does not end, has a snapshot that is not too old, and reaches an engine."""
        return self._pages.readiness()[0] == 200

    def apply(self, snapshot: RoutingSnapshot) -> None:
        """Use this snapshot from now on, and stop waiting requests that it no longer allows (I11).

        What runs goes on, on its own route, but for what was cut since the last one: that ends. Older epochs are
        ignored; repeating one is harmless.
        """
        plane = self._plane
        before = plane.snapshot.epoch
        if snapshot.epoch < before:
            return
        plane.snapshot = snapshot
        plane.applied.set()
        plane.metrics.apply_tenants(snapshot.tenants)
        plane.salts.keep_only(snapshot.tenants)
        plane.running.apply(snapshot)
        plane.limits.apply(
            snapshot.terms,
            {entry.key: entry.terms for entry in snapshot.keys.values() if entry.terms != DEFAULT_TERMS},
            snapshot.num_gateways,
            plane.clock.monotonic_s(),
        )
        if self._job_runner is not None:
            self._job_runner.apply(snapshot)
        for cut in snapshot.cuts:
            if cut.epoch > before:  # what runs now was bound before it
                self.cut(cut.withdrawal)

    def outdated_by(self, is_outdated: Callable[[], bool]) -> None:
        """Ask this, at every request, whether the snapshot is too old to go by; then nothing is served."""
        self._plane.is_outdated = is_outdated

    def cut(self, withdrawal: Withdrawal) -> int:
        """End the running requests that are covered with `RevokedError`, streams with an error event.

        Returns:
            How many there were.
        """
        num_jobs = 0 if self._job_runner is None else self._job_runner.cut(withdrawal)
        return self._plane.running.cut(withdrawal) + num_jobs

    def begin_shutdown(self) -> None:
        """Refuse new requests, begin no more jobs and report not ready; what runs goes on."""
        self._plane.is_shutting_down = True
        if self._job_runner is not None:
            self._job_runner.begin_shutdown()

    def stop_running(self) -> int:
        """End what still runs with ``shutting_down``; return how many there were. Jobs are handed back."""
        num_jobs = 0 if self._job_runner is None else self._job_runner.stop_running()
        return self._plane.running.stop_all(ShuttingDownError) + num_jobs

    async def _live(self, receive: Receive, send: Send) -> None:
        jobs: asyncio.Task[None] | None = None
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                if self._job_runner is not None:
                    jobs = asyncio.create_task(self._job_runner.run(), name="jobs")
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                self.begin_shutdown()
                self.stop_running()
                if jobs is not None:
                    await jobs
                await send({"type": "lifespan.shutdown.complete"})
                return
