"""What a tenant used of the installation, by adapter: the counters behind `hotset usage`.

Who counts tells control in batches, each of which counts once however often it is told.
"""

from collections.abc import Iterable

import msgspec

from hotset.core.ids import TenantId


class Usage(msgspec.Struct, kw_only=True):
    """Counters of one tenant and one adapter over some time; they add up."""

    tenant: TenantId
    #: ``owner/name``; empty for bare bases, and for requests that were refused before their model was known.
    adapter: str
    #: Generation requests that ended, those refused among them.
    requests: int = 0
    refused: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    #: Loads into slots that the tenant was charged for, and what they took.
    loads: int = 0
    load_seconds: float = 0.0
    #: Slots that it was charged for, times how long.
    slot_seconds: float = 0.0

    def add(self, other: "Usage") -> None:
        """Add what another one counted."""
        for name in COUNTERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


#: What of a `Usage` is counted.
COUNTERS: tuple[str, ...] = Usage.__struct_fields__[2:]

HOUR_S = 3600


class UsageBatch(msgspec.Struct, frozen=True):
    """What one process counted, to be added up once: its stream and number say which batch it is."""

    #: Of one start of the process.
    stream: str
    #: Counts up from 1 within the stream.
    number: int
    #: The hour in which it was counted, in wall-clock seconds at its beginning.
    hour_s: int
    usages: list[Usage]


class UsageSums:
    """Usage by tenant and adapter since it was last taken away."""

    def __init__(self) -> None:
        self._sums: dict[tuple[TenantId, str], Usage] = {}

    def of(self, tenant: TenantId, adapter: str) -> Usage:
        """Return the counters of a tenant and an adapter, to count on."""
        usage = self._sums.get((tenant, adapter))
        if usage is None:
            usage = self._sums[tenant, adapter] = Usage(tenant=tenant, adapter=adapter)
        return usage

    def take(self) -> list[Usage]:
        """Return what was counted, and begin anew."""
        sums, self._sums = self._sums, {}
        return list(sums.values())

    def put_back(self, usages: Iterable[Usage]) -> None:
        """Count what was taken and could not be kept once more."""
        for usage in usages:
            self.of(usage.tenant, usage.adapter).add(usage)
