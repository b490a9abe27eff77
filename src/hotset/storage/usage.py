"""Usage by hour, tenant and adapter: counters that only rise and go when they are old; which batches are in them."""

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.dialects.sqlite import insert

from hotset.core.ids import TenantId
from hotset.core.usage import COUNTERS, HOUR_S, Usage, UsageBatch
from hotset.storage.schema import USAGE, USAGE_STREAMS


class UsageRows:
    """Typed reads and writes of usage."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, usage: Usage, at_s: float) -> None:
        """Add to the counters of the hour of a moment, in wall-clock seconds."""
        counted = {name: getattr(usage, name) for name in COUNTERS}
        hour_s = int(at_s) // HOUR_S * HOUR_S
        row = insert(USAGE).values(hour_s=hour_s, tenant=usage.tenant, adapter=usage.adapter, **counted)
        raised = {name: USAGE.c[name] + value for name, value in counted.items()}
        self._connection.execute(row.on_conflict_do_update(index_elements=["hour_s", "tenant", "adapter"], set_=raised))

    def add_once(self, role: str, name: str, batch: UsageBatch, now_s: float) -> bool:
        """Add a batch of a gateway or worker, unless it was added before; return whether it was new."""
        stream = (USAGE_STREAMS.c.role == role, USAGE_STREAMS.c.name == name, USAGE_STREAMS.c.stream == batch.stream)
        last = self._connection.execute(select(USAGE_STREAMS.c.number).where(*stream)).scalar() or 0
        if batch.number <= last:
            return False
        for usage in batch.usages:
            self.add(usage, batch.hour_s)
        row = insert(USAGE_STREAMS).values(role=role, name=name, stream=batch.stream, number=batch.number, at_s=now_s)
        raised = {"number": batch.number, "at_s": now_s}
        self._connection.execute(row.on_conflict_do_update(index_elements=["role", "name", "stream"], set_=raised))
        return True

    def forget_before(self, moment_s: float) -> None:
        """Drop the hours that ended before a moment, and what is known of batches that came before it."""
        self._connection.execute(delete(USAGE).where(USAGE.c.hour_s + HOUR_S <= moment_s))
        self._connection.execute(delete(USAGE_STREAMS).where(USAGE_STREAMS.c.at_s < moment_s))

    def sums(self, since_s: float = 0.0, tenant: TenantId | None = None) -> list[Usage]:
        """Return the sums by tenant and adapter over the hours from that of `since_s` on, in order of both."""
        totals = [func.sum(USAGE.c[name]).label(name) for name in COUNTERS]
        query = select(USAGE.c.tenant, USAGE.c.adapter, *totals).where(USAGE.c.hour_s + HOUR_S > since_s)
        if tenant is not None:
            query = query.where(USAGE.c.tenant == tenant)
        query = query.group_by(USAGE.c.tenant, USAGE.c.adapter).order_by("tenant", "adapter")
        return [Usage(**row) for row in self._connection.execute(query).mappings()]
