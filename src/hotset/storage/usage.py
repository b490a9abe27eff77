"""Usage by hour, tenant and adapter: counters that only rise, and go when they are old."""

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.dialects.sqlite import insert

from hotset.core.ids import TenantId
from hotset.core.usage import COUNTERS, Usage
from hotset.storage.schema import USAGE

HOUR_S = 3600


class UsageRows:
    """Typed reads and writes of usage."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, usage: Usage, now_s: float) -> None:
        """Add to the counters of the hour, in wall-clock seconds, that it is now."""
        counted = {name: getattr(usage, name) for name in COUNTERS}
        hour_s = int(now_s) // HOUR_S * HOUR_S
        row = insert(USAGE).values(hour_s=hour_s, tenant=usage.tenant, adapter=usage.adapter, **counted)
        raised = {name: USAGE.c[name] + value for name, value in counted.items()}
        self._connection.execute(row.on_conflict_do_update(index_elements=["hour_s", "tenant", "adapter"], set_=raised))

    def forget_before(self, moment_s: float) -> None:
        """Drop the hours that ended before a moment."""
        self._connection.execute(delete(USAGE).where(USAGE.c.hour_s + HOUR_S <= moment_s))

    def sums(self, since_s: float = 0.0, tenant: TenantId | None = None) -> list[Usage]:
        """Return the sums by tenant and adapter over the hours from that of `since_s` on, in order of both."""
        totals = [func.sum(USAGE.c[name]).label(name) for name in COUNTERS]
        query = select(USAGE.c.tenant, USAGE.c.adapter, *totals).where(USAGE.c.hour_s + HOUR_S > since_s)
        if tenant is not None:
            query = query.where(USAGE.c.tenant == tenant)
        query = query.group_by(USAGE.c.tenant, USAGE.c.adapter).order_by("tenant", "adapter")
        return [Usage(**row) for row in self._connection.execute(query).mappings()]
