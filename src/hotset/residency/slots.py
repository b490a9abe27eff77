"""The state that `residency` keeps: slots, leases and the warm files, each field with what it must agree with."""

from dataclasses import dataclass, field
from enum import StrEnum

from hotset.core.ids import EngineName, RequestId


class SlotState(StrEnum):
    """Where one slot stands."""

    #: Nothing in it and nothing promised.
    EMPTY = "empty"
    #: A load was asked for; its first waiters hold leases.
    LOADING = "loading"
    #: The engine holds the version; requests may be dispatched.
    HOT = "hot"
    #: Hot, but takes no new dispatch; unloads when its last lease ends.
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
    #: What is meant to be in it next; only while unloading or unknown. After a lost load it is `name` itself.
    successor: EngineName | None = None
    #: Leases that count on this slot: of `name` while loading, hot or closing, of `successor` otherwise.
    num_leases: int = 0
    #: Seconds, monotonic: when a request last took or released a lease on `name`.
    used_at_s: float = 0.0

    def promised(self) -> EngineName | None:
        """Return the version that this slot holds or will hold, as far as new requests are concerned."""
        if self.state in (SlotState.LOADING, SlotState.HOT):
            return self.name
        return self.successor


@dataclass(slots=True)
class Lease:
    """A request's hold on a version."""

    #: None for the bare base, which needs no slot.
    name: EngineName | None
    #: The slot it counts on; None for the bare base.
    slot: int | None
    #: Whether `Dispatch` was given.
    running: bool


@dataclass(slots=True)
class WarmFile:
    """A version's files in the local store."""

    num_bytes: int
    used_at_s: float


@dataclass(slots=True)
class State:
    """Everything that `Residency` decides on."""

    slots: list[Slot]
    #: In order of arrival. Each with a slot agrees with that slot's `promised()`, or runs in a closing one.
    leases: dict[RequestId, Lease] = field(default_factory=dict[RequestId, Lease])
    #: Versions with files in the local store; a superset of those in slots.
    warm: dict[EngineName, WarmFile] = field(default_factory=dict[EngineName, WarmFile])
    #: Permitted versions whose last load failed, and until when (monotonic seconds) they are not tried again.
    load_failed_until_s: dict[EngineName, float] = field(default_factory=dict[EngineName, float])
    #: Nothing else may be requested; empty before the first `Permitted`.
    permitted: frozenset[EngineName] = frozenset()
