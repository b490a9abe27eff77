"""Who holds which slot of a worker, why, since when and what goes next: what a person on call is shown.

Plain values that an agent makes and control passes on. They name versions as engines do; control, which knows the
installation, puts `owner/name@N` in their place. Durations are seconds.
"""

import msgspec

from hotset.core.ids import BaseName, EngineName, TenantId, WorkerId


class SlotReport(msgspec.Struct, frozen=True, kw_only=True):
    """One slot at one moment."""

    index: int
    #: ``empty``, ``loading``, ``hot``, ``closing``, ``unloading`` or ``unknown``.
    state: str
    #: What is in it, or was last; None while it is empty.
    version: EngineName | None = None
    #: What is meant to be in it next; after a lost load it is `version` itself.
    successor: EngineName | None = None
    #: The tenant that is charged for it: for `successor` where there is one, else for `version`.
    account: TenantId | None = None
    #: Why `version` leaves, while it does: a cause of eviction.
    leaving: str | None = None
    #: Since `version` serves from it; None where it does not.
    hot_for_s: float | None = None
    #: What the load of `version` took; None where none was measured.
    load_s: float | None = None
    #: Leases of requests whose version is in the slot, and of those that wait for it to be.
    num_running: int = 0
    num_waiting: int = 0
    #: The same leases by tenant.
    users: dict[TenantId, int] = {}
    #: Bytes of `version` in the engine; None where it did not say.
    slot_bytes: int | None = None
    #: What the policy holds a hot version to be worth: of two that may go the lesser goes. The natural logarithm of
    #: its load's seconds over those until it will probably be asked for again; None where that is not known.
    worth: float | None = None


class NextRoom(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant without any slot, quota or reserve would get if it asked for another version at this moment."""

    #: None: it would wait, as all slots are in use or owed to those who hold them.
    slot: int | None
    #: The version that would have to go; None where the slot is free already, or on its way to be.
    leaves: EngineName | None = None


class TenantReport(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant's share of a worker: who holds a slot, wants one, is owed one, caused an eviction or suffered one."""

    tenant: TenantId
    reserve: int
    limit: int
    #: Slots charged to it.
    held: int
    #: Requests that no slot was found for yet.
    num_wanting: int = 0
    #: Loads that it may still cause now, of so many a minute.
    loads_left: float
    loads_per_minute: float
    #: Evictions by cause since this engine started. ``own`` counts on both sides: it gave way to itself.
    caused: dict[str, int]
    suffered: dict[str, int]
    #: Bytes that it is always owed of the local store, and may hold there at most beside what slots keep there.
    reserve_bytes: int = 0
    limit_bytes: int = 0
    #: Bytes of files charged to it there, and of versions in slots charged to it, as far as the engine says.
    store_bytes: int = 0
    slot_bytes: int = 0
    #: Evictions of files from the store by cause, likewise.
    store_caused: dict[str, int] = {}
    store_suffered: dict[str, int] = {}


class WarmReport(msgspec.Struct, frozen=True, kw_only=True):
    """Versions whose files are in the worker's local store, those in slots among them."""

    num_versions: int
    num_bytes: int
    #: The largest ones, largest first.
    largest: tuple[tuple[EngineName, int], ...]
    #: The store's bound.
    bytes_max: int = 0


class ResidencyReport(msgspec.Struct, frozen=True, kw_only=True):
    """All slots, tenants and warm versions of one engine at one moment."""

    slots: tuple[SlotReport, ...]
    next: NextRoom
    #: In the order of their names.
    tenants: tuple[TenantReport, ...]
    warm: WarmReport
    #: Tenants that are owed less here than their quota says, as all reserves together pass the slots.
    reserves_cut: tuple[TenantId, ...]
    #: The same of bytes and the local store.
    byte_reserves_cut: tuple[TenantId, ...] = ()


class SlotEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A version that came into a slot, or left one, or whose files left the local store for others'."""

    #: ``loaded``, ``evicted`` or ``discarded``.
    kind: str
    version: EngineName
    #: Who is charged for the slot or the files, or was.
    tenant: TenantId | None = None
    #: Counts up from 1 with each start of the engine.
    number: int = 0
    #: Seconds since.
    age_s: float = 0.0
    #: Of a load: from which tier, and in what time.
    tier: str = ""
    seconds: float = 0.0
    #: Of a load: ``prefetch`` where nobody had asked for it. Of an eviction or discard: why, for whom, and for which
    #: version; None where it was for nobody.
    cause: str = ""
    by: TenantId | None = None
    successor: EngineName | None = None

    def numbered(self, number: int) -> "SlotEvent":
        """Return the same with a number."""
        return msgspec.structs.replace(self, number=number)

    def at_age(self, age_s: float) -> "SlotEvent":
        """Return the same, so many seconds after it."""
        return msgspec.structs.replace(self, age_s=age_s)


class InventoryReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine itself said that it holds and runs; a report beside it is what its agent believes."""

    loaded: tuple[EngineName, ...]
    num_running: int
    #: Seconds since it was asked.
    age_s: float


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True):
    """One worker."""

    base: BaseName
    #: Who it is in a fleet; None where one process is all.
    worker: WorkerId | None = None
    #: Such as ``embedded 0.1.0``; None while none serves, and then there are no slots to speak of.
    engine: str | None = None
    #: Usable slots.
    num_slots: int = 0
    #: The highest rank that they take, and bytes that each of them takes for it; 0 where the engine does not say.
    rank_class: int = 0
    slot_bytes: int = 0
    #: Whether a step computes each adapter at its own rank, and not at that of its slot.
    computes_own_rank: bool = False
    residency: ResidencyReport | None = None
    #: Requests in the engine, those that wait for a slot or a place, and places in the engine.
    num_running: int = 0
    num_waiting: int = 0
    num_places: int = 0
    #: The newest loads and evictions, oldest first.
    events: tuple[SlotEvent, ...] = ()
    #: None while no engine has said anything.
    inventory: InventoryReport | None = None
