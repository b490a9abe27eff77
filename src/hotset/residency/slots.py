"""The state that `residency` keeps: slots, leases and the warm files, each field with what it must agree with."""

from dataclasses import dataclass, field
from enum import StrEnum

from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.residency.events import Cause
from hotset.residency.warm import WarmFiles


class SlotState(StrEnum):
    """Where one slot stands."""

    #: Nothing in it and nothing promised.
    EMPTY = "empty"
    #: A load was asked for; its first waiters hold leases.
    LOADING = "loading"
    #: The engine holds the version; requests may be dispatched.
    HOT = "hot"
    #: Hot, but takes no new dispatch; unloads when its last running lease ends.
    CLOSING = "closing"
    #: An unload was asked for; no lease.
    UNLOADING = "unloading"
    #: The outcome of the last load or unload is not known; only an inventory ends this.
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Slot:
    """Room for one version in the engine."""

    index: int
    state: SlotState = SlotState.EMPTY
    #: What is or was last in it; None only while empty.
    name: EngineName | None = None
    #: What is meant to be in it next; only while closing, unloading or unknown. After a lost load it is `name` itself.
    successor: EngineName | None = None
    #: Who is charged for it, from the decision to load on: for `successor` where there is one, else for `name`.
    account: TenantId | None = None
    #: Who was charged for `name` before the slot was promised to `successor`; only while closing for one.
    victim: TenantId | None = None
    #: Leases that count on this slot, by tenant: running ones of `name` and waiting ones of `promised()`.
    users: dict[TenantId, int] = field(default_factory=dict[TenantId, int])
    #: All of them together.
    num_leases: int = 0
    #: Of those, how many are dispatched.
    num_running: int = 0
    #: Seconds, monotonic: since when `name` is in it, and what its load took.
    hot_since_s: float = 0.0
    load_s: float = 0.0
    #: Bytes of `name` in the engine; 0 where the engine did not say.
    slot_bytes: int = 0
    #: Why `name` leaves; means something while closing and unloading only.
    leaving: Cause = "withdrawn"

    def promised(self) -> EngineName | None:
        """Return the version that this slot holds or will hold, as far as new requests are concerned."""
        if self.state in (SlotState.LOADING, SlotState.HOT):
            return self.name
        return self.successor

    def take(self, tenant: TenantId, *, is_running: bool) -> None:
        """Count one more lease."""
        self.users[tenant] = self.users.get(tenant, 0) + 1
        self.num_leases += 1
        self.num_running += is_running

    def drop(self, tenant: TenantId, *, is_running: bool) -> None:
        """Count one lease less."""
        self.num_leases -= 1
        self.num_running -= is_running
        self.users[tenant] -= 1
        if not self.users[tenant]:
            del self.users[tenant]


@dataclass(slots=True)
class Lease:
    """A request's hold on a version."""

    #: None for the bare base, which needs no slot.
    name: EngineName | None
    #: The slot it counts on; None for the bare base.
    slot: int | None
    tenant: TenantId
    #: Whether `Dispatch` was given.
    running: bool


@dataclass(slots=True)
class State:
    """Everything that `Residency` decides on."""

    slots: list[Slot]
    #: Files in the local store; a superset of those of versions in slots.
    warm: WarmFiles
    #: In order of arrival. Each with a slot agrees with that slot's `promised()`, or runs in a closing one.
    leases: dict[RequestId, Lease] = field(default_factory=dict[RequestId, Lease])
    #: Permitted versions whose last load failed, and until when (monotonic seconds) they are not tried again.
    load_failed_until_s: dict[EngineName, float] = field(default_factory=dict[EngineName, float])
    #: Nothing else may be requested; empty before the first `Permitted`.
    permitted: frozenset[EngineName] = frozenset()
