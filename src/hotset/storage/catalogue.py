"""The catalogue: typed reads and writes of everything the database knows, within one transaction.

A `Catalogue` lives as long as the transaction that `Database.write` or `Database.read` opened. What the rows
mean, and which change is allowed when, is control's.
"""

from sqlalchemy import Connection, insert, select, update

from hotset.storage.audit import Audit
from hotset.storage.bases import Bases
from hotset.storage.cuts import Cuts
from hotset.storage.fleet import Gateways, Homes, Pools, Workers
from hotset.storage.jobs import Jobs
from hotset.storage.operators import Operators
from hotset.storage.schema import SETTINGS
from hotset.storage.tenants import Grants, Keys, Tenants
from hotset.storage.trust import Trust
from hotset.storage.usage import UsageRows
from hotset.storage.versions import Adapters, Versions

_EPOCH = "epoch"
_FENCE = "fence"
_FROZEN = "frozen"


class Catalogue:
    """One transaction's view, by concept."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.bases = Bases(connection)
        self.tenants = Tenants(connection)
        self.keys = Keys(connection)
        self.grants = Grants(connection)
        self.operators = Operators(connection)
        self.adapters = Adapters(connection)
        self.versions = Versions(connection)
        self.trust = Trust(connection)
        self.pools = Pools(connection)
        self.workers = Workers(connection)
        self.gateways = Gateways(connection)
        self.homes = Homes(connection)
        self.jobs = Jobs(connection)
        self.cuts = Cuts(connection)
        self.audit = Audit(connection)
        self.usage = UsageRows(connection)

    def epoch(self) -> int:
        """Return the number of the newest routing state, 0 before the first."""
        value = self._setting(_EPOCH)
        return 0 if value is None else int(value)

    def advance_epoch(self) -> int:
        """Number the routing state that this transaction makes; return the number."""
        epoch = self.epoch() + 1
        self._set(_EPOCH, str(epoch))
        return epoch

    def pass_epoch(self, epoch: int) -> None:
        """Have the next routing state numbered above this one."""
        self._set(_EPOCH, str(max(epoch, self.epoch())))

    def advance_fence(self) -> int:
        """Return a fence that no worker had yet, whoever was removed and came back: above all others."""
        fence = int(self._setting(_FENCE) or 0) + 1
        self._set(_FENCE, str(fence))
        return fence

    def is_frozen(self) -> bool:
        """Return whether loads, evictions and rollouts are frozen."""
        return self._setting(_FROZEN) == "true"

    def freeze(self, *, is_frozen: bool) -> None:
        """Freeze loads, evictions and rollouts, or let them go on."""
        self._set(_FROZEN, "true" if is_frozen else "false")

    def _setting(self, name: str) -> str | None:
        return self._connection.execute(select(SETTINGS.c.value).where(SETTINGS.c.name == name)).scalar()

    def _set(self, name: str, value: str) -> None:
        changed = self._connection.execute(update(SETTINGS).where(SETTINGS.c.name == name).values(value=value))
        if changed.rowcount == 0:
            self._connection.execute(insert(SETTINGS).values(name=name, value=value))
