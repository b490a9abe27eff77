"""The state that `residency` keeps: slots, leases and the warm files, each field with what it must agree with."""

import math
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.residency.events import Cause
from hotset.residency.warm import WarmFiles

#: Taken for a load's seconds before one was measured, and the least that one counts.
LOAD_MIN_S = 0.001


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


_SERVED = (SlotState.LOADING, SlotState.HOT)
_LEAVING = (SlotState.CLOSING, SlotState.UNKNOWN)


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
    #: Since when it closes for `successor`, or what runs in it runs where that is later, monotonic seconds; and whether
    #: the tenant of that is owed it by another. Both mean something while closing for one.
    closing_since_s: float = 0.0
    is_owed: bool = False
    #: Whether `Cut` was given for what runs in it since then.
    is_cut: bool = False
    #: Leases that count on this slot, by tenant: running ones of `name` and waiting ones of `promised()`.
    users: dict[TenantId, int] = field(default_factory=dict[TenantId, int])
    #: All of them together.
    num_leases: int = 0
    #: Of those, the ones that are not dispatched, in order of arrival.
    waiting: dict[RequestId, None] = field(default_factory=dict[RequestId, None])
    #: Seconds, monotonic: since when `name` is in it, and what its load took.
    hot_since_s: float = 0.0
    load_s: float = 0.0
    #: What it counts for when slots are compared: its logarithm.
    log_load_s: float = math.log(LOAD_MIN_S)
    #: Bytes of `name` in the engine; 0 where the engine did not say.
    slot_bytes: int = 0
    #: Why `name` leaves; means something while closing and unloading only.
    leaving: Cause = "withdrawn"

    @property
    def num_running(self) -> int:
        """Leases that are dispatched."""
        return self.num_leases - len(self.waiting)

    def promised(self) -> EngineName | None:
        """Return the version that this slot holds or will hold, as far as new requests are concerned."""
        return self.name if self.state in _SERVED else self.successor

    def take(self, request: RequestId, tenant: TenantId, *, is_running: bool) -> None:
        """Count one more lease."""
        self.users[tenant] = self.users.get(tenant, 0) + 1
        self.num_leases += 1
        if not is_running:
            self.waiting[request] = None

    def drop(self, request: RequestId, tenant: TenantId) -> None:
        """Count one lease less."""
        self.num_leases -= 1
        self.waiting.pop(request, None)
        self.users[tenant] -= 1
        if not self.users[tenant]:
            del self.users[tenant]


class Lease(msgspec.Struct):
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
    #: Versions whose load was lost, until it is seen to have landed: it still may, whatever was loaded since.
    doubtful: set[EngineName] = field(default_factory=set[EngineName])
    #: Nothing else may be requested; empty before the first `Permitted`.
    permitted: frozenset[EngineName] = frozenset()
    #: The slot of each version that is in one or will be, by `promised()`.
    promises: dict[EngineName, Slot] = field(default_factory=dict[EngineName, Slot])
    #: Slots charged to each tenant; none is kept with 0.
    held: dict[TenantId, int] = field(default_factory=dict[TenantId, int])
    #: Of these, those that it has to lose: what empties for nobody is lost already.
    kept: dict[TenantId, int] = field(default_factory=dict[TenantId, int])
    #: Slots that close.
    num_closing: int = 0

    def move(self, slot: Slot, state: SlotState, name: EngineName | None, successor: EngineName | None = None) -> None:
        """Bring a slot into a state: the one place where what it holds and what it is promised to changes."""
        if (before := slot.promised()) is not None:
            del self.promises[before]
            _count(self.kept, slot.account, -1)
        self.num_closing += (state is SlotState.CLOSING) - (slot.state is SlotState.CLOSING)
        slot.state, slot.name, slot.successor = state, name, successor
        if (after := slot.promised()) is not None:
            assert after not in self.promises, f"{after} is promised slot {slot.index} and another"
            self.promises[after] = slot
            _count(self.kept, slot.account, 1)

    def charge(self, slot: Slot, account: TenantId | None) -> None:
        """Charge a slot to a tenant, or to nobody: the one place where its account changes."""
        is_promised = slot.promised() is not None
        _count(self.held, slot.account, -1)
        _count(self.kept, slot.account, -is_promised)
        slot.account = account
        _count(self.held, account, 1)
        _count(self.kept, account, is_promised)

    def is_leaving(self, name: EngineName) -> bool:
        """Whether the version is on its way out of a slot: the engine can't hold it twice, it has to be out first."""
        return bool([slot for slot in self.slots if slot.name == name and slot.state in _LEAVING])


def _count(counts: dict[TenantId, int], tenant: TenantId | None, number: int) -> None:
    """Add to a tenant's count; to nobody's nothing."""
    if tenant is None or not number:
        return
    counts[tenant] = counts.get(tenant, 0) + number
    if not counts[tenant]:
        del counts[tenant]
