"""The catalogue: typed reads and writes of everything the database knows, within one transaction.

A `Catalogue` lives as long as the transaction that `Database.write` or `Database.read` opened. What the rows
mean, and which change is allowed when, is control's.
"""

from sqlalchemy import Connection, insert, select, update

from hotset.storage.audit import Audit
from hotset.storage.bases import Bases
from hotset.storage.operators import Operators
from hotset.storage.schema import SETTINGS
from hotset.storage.tenants import Grants, Keys, Tenants
from hotset.storage.trust import Trust
from hotset.storage.versions import Adapters, Versions

_EPOCH = "epoch"


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
        self.audit = Audit(connection)

    def epoch(self) -> int:
        """Return the number of the newest routing state, 0 before the first."""
        value = self._connection.execute(select(SETTINGS.c.value).where(SETTINGS.c.name == _EPOCH)).scalar()
        return 0 if value is None else int(value)

    def advance_epoch(self) -> int:
        """Number the routing state that this transaction makes; return the number."""
        epoch = self.epoch() + 1
        changed = self._connection.execute(update(SETTINGS).where(SETTINGS.c.name == _EPOCH).values(value=str(epoch)))
        if changed.rowcount == 0:
            self._connection.execute(insert(SETTINGS).values(name=_EPOCH, value=str(epoch)))
        return epoch
