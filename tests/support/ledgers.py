"""What a ledger of evictions tells, as plain values."""

from collections.abc import Mapping

from hotset.core.ids import TenantId
from hotset.residency.events import Cause
from hotset.residency.ledger import Ledger


def told(ledger: Ledger) -> Mapping[TenantId, tuple[Mapping[Cause, int], Mapping[Cause, int]]]:
    """Return the evictions that each tenant caused and that it suffered, by cause."""
    parts = ((tenant, ledger.of(tenant)) for tenant in ledger.tenants())
    return {tenant: ({**part.caused}, {**part.suffered}) for tenant, part in parts}
