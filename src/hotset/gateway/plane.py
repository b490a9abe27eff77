"""What all requests of one tenant plane share: settings, the current snapshot, agents, counters, logs."""

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hotset.admission.in_flight import InFlight
from hotset.admission.rate_limits import RateLimits
from hotset.core.clock import Clock
from hotset.core.errors import StaleRouteError
from hotset.core.ids import Digest, RequestId, TenantId
from hotset.core.ports import Agent
from hotset.core.snapshot import RoutingSnapshot
from hotset.gateway.body import BodyReader
from hotset.gateway.jobs.book import JobBook
from hotset.gateway.running import Running
from hotset.gateway.settings import GatewaySettings
from hotset.telemetry.metrics import Metrics
from hotset.telemetry.request_log import RequestLog

#: An agent has a newer snapshot a moment before a gateway, not longer.
_NEWER_SNAPSHOT_TIMEOUT_S = 2.0


@dataclass(slots=True, kw_only=True, eq=False)
class Plane:
    """The tenant plane's parts; one for each gateway."""

    settings: GatewaySettings
    #: Base version's digest → the agent that serves it. Read at every request, so the owner may change it.
    agents: Mapping[Digest, Agent]
    clock: Clock
    metrics: Metrics
    request_log: RequestLog
    new_request_id: Callable[[], RequestId]
    in_flight: InFlight
    limits: RateLimits
    bodies: BodyReader
    running: Running
    salts: "Salts"
    #: Replaced whole by one assignment.
    snapshot: RoutingSnapshot = field(default_factory=RoutingSnapshot)
    #: Set whenever that is done.
    applied: asyncio.Event = field(default_factory=asyncio.Event)
    #: Whether the snapshot is too old to go by: control was away for too long.
    is_outdated: Callable[[], bool] = lambda: False
    is_shutting_down: bool = False
    #: None where requests are never answered later.
    jobs: JobBook | None = None

    async def newer_snapshot(self, epoch: int) -> RoutingSnapshot:
        """Return the snapshot in use once it is of at least this epoch.

        Raises:
            StaleRouteError: it does not come in time.
        """
        try:
            async with asyncio.timeout(_NEWER_SNAPSHOT_TIMEOUT_S):
                while self.snapshot.epoch < epoch:
                    self.applied.clear()
                    await self.applied.wait()
        except TimeoutError as error:
            raise StaleRouteError(epoch=epoch) from error
        return self.snapshot


class Salts:
    """The cache salt of each tenant: an HMAC of its id, so that no cache of prompt state is shared."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._by_tenant: dict[TenantId, str] = {}

    def of(self, tenant: TenantId) -> str:
        """Return the tenant's salt, 32 hex digits; the same for ever under one secret."""
        salt = self._by_tenant.get(tenant)
        if salt is None:
            digest = hmac.new(self._secret, tenant.encode(), hashlib.sha256).hexdigest()
            salt = self._by_tenant[tenant] = digest[:32]
        return salt

    def keep_only(self, tenants: frozenset[TenantId]) -> None:
        """Forget the salts of tenants that are not among these."""
        for gone in [tenant for tenant in self._by_tenant if tenant not in tenants]:
            del self._by_tenant[gone]
