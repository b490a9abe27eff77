"""What a worker's residency is told, and what it asks for. Plain values; slots are numbered from 0."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.quotas import Quota

#: Why a version left its slot, or its files the local store: room for a tenant's reserve, for another borrower, for
#: another version of the same tenant, it may not be served any more, or it came in after its load was given up.
Cause = Literal["reserve", "borrow", "own", "withdrawn", "orphan"]


class Requested(msgspec.Struct, frozen=True):
    """A request arrived for a version, or for the bare base (`name` None); its lease starts here."""

    request: RequestId
    name: EngineName | None
    #: Who asks; a load that this causes is charged to it.
    tenant: TenantId
    #: It has waited for long: a slot of its own tenant may be closed for it though requests run there.
    is_impatient: bool = False
    #: It has waited for a turn: where its tenant holds no slot, a busy one of a borrower may be closed for it.
    has_waited_a_turn: bool = False
    #: It is refused all the same, and its version only brought in for when it comes back: it takes no lease.
    is_forerunner: bool = False


class Awaited(msgspec.Struct, frozen=True):
    """A request waits for a slot, with no lease: until `Requested` or `Released`, its version counts as needed."""

    request: RequestId
    name: EngineName
    #: Whether it had a slot before and lost it: then it is no new sign of how often its version is asked for.
    is_again: bool = False


class Released(msgspec.Struct, frozen=True):
    """A request ended, or gave up waiting; its lease ends here. Unknown requests are ignored."""

    request: RequestId


@dataclass(frozen=True, slots=True)
class Loaded:
    """The load of a slot's version went well."""

    slot: int
    name: EngineName
    #: Bytes of the version in the worker's local store.
    warm_bytes: int
    #: From the effect's start to now, the fetch in it.
    load_s: float = 0.0
    #: Bytes of the version in its slot, by the engine's own account; 0 where it does not say.
    slot_bytes: int = 0
    #: For how long the engine could not step because of it.
    stall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """The load of a slot's version failed for good; the slot is empty."""

    slot: int
    name: EngineName
    #: `code` of a leaf of the error tree.
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Unloaded:
    """The engine let go of a slot's version."""

    slot: int
    name: EngineName


@dataclass(frozen=True, slots=True)
class Lost:
    """The outcome of a slot's load or unload is not known, a time-out mostly."""

    slot: int
    name: EngineName
    #: Bytes that a lost load may have left in the local store; 0 for an unload.
    warm_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Counted:
    """The engine's own account of what it holds."""

    loaded: frozenset[EngineName]


@dataclass(frozen=True, slots=True)
class EngineGone:
    """The engine died: nothing is loaded, nothing runs, and whatever was asked of it will not be answered."""


@dataclass(frozen=True, slots=True)
class Permitted:
    """The versions that may be served from now on; others close, and leave when their last lease ends."""

    names: frozenset[EngineName]


@dataclass(frozen=True, slots=True)
class Quotas:
    """What tenants are owed and may hold from now on. Nothing is taken from anybody for it at once."""

    by_tenant: Mapping[TenantId, Quota]
    #: Who may call; of others no eviction is remembered. None: whoever does.
    tenants: frozenset[TenantId] | None = None


@dataclass(frozen=True, slots=True)
class Fetched:
    """A version's files are in the local store, as `Fetch` asked for."""

    name: EngineName
    #: Who is charged for them.
    account: TenantId
    warm_bytes: int


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Nothing happened, but what waited for time alone may go on."""


OfEngine = Loaded | LoadFailed | Unloaded | Lost | Counted | EngineGone
Event = Awaited | Requested | Released | OfEngine | Permitted | Quotas | Fetched | TimePassed


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Send the request to the engine now; its version is in a slot and stays there until `Released`."""

    request: RequestId
    #: Since when that is so, monotonic seconds, where it then waited for a place; None is now.
    hot_at_s: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell the request no; it holds no lease any more."""

    request: RequestId
    #: `code` of a leaf of the error tree.
    code: str
    message: str
    #: When to come back, where that is known.
    retry_after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """Fetch, check and load a version; answer with `Loaded`, `LoadFailed` or `Lost`."""

    slot: int
    name: EngineName
    #: Whether nobody asked for it yet.
    is_prefetch: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Unload:
    """Make the engine let go of a version; answer with `Unloaded` or `Lost`."""

    slot: int
    name: EngineName
    cause: Cause
    #: Who was charged for it; None for what was nobody's.
    victim: TenantId | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Count:
    """Ask the engine what it holds; answer with `Counted`."""


@dataclass(frozen=True, slots=True)
class Cut:
    """End a request that runs: its slot's owner waited long enough. Its lease ends with `Released` as ever."""

    request: RequestId


@dataclass(frozen=True, slots=True)
class Discard:
    """Delete a version's files from the local store: nothing uses them."""

    name: EngineName
    #: Why others' files take their place; None where they may not be served any more, or are not whole.
    cause: Cause | None = field(default=None, compare=False)
    #: Whom they were charged to, and whose files came in for them.
    victim: TenantId | None = field(default=None, compare=False)
    by: TenantId | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Fetch:
    """Bring a version's files into the local store beside all else, checked; answer with `Fetched` where they came."""

    name: EngineName
    #: Who is to be charged for them: nobody asked for them yet.
    account: TenantId


#: Effects on the engine (`Load`, `Unload`, `Count`, `Discard`) are carried out one at a time, in order.
Effect = Dispatch | Refuse | Cut | Load | Unload | Count | Discard | Fetch
