"""What the admin API answers about slots. Durations are seconds up to now; versions are ``owner/name@N``."""

from hotset.control.answers import Answer
from hotset.control.on_call_answers import UnreachedAnswer


class SlotAnswer(Answer):
    """One slot. A version that this installation does not know is shown by its engine name."""

    index: int
    state: str
    version: str | None
    #: Its highest rank; null where this installation serves it no more.
    rank: int | None
    successor: str | None
    account: str | None
    leaving: str | None
    hot_for_s: float | None
    load_s: float | None
    num_running: int
    num_waiting: int
    users: dict[str, int]
    slot_bytes: int | None
    worth: float | None


class NextAnswer(Answer):
    """What a tenant without slots would get now."""

    slot: int | None
    leaves: str | None


class TenantShareAnswer(Answer):
    """One tenant's share of a worker."""

    tenant: str
    reserve: int
    limit: int
    held: int
    num_wanting: int
    loads_left: float
    loads_per_minute: float
    caused: dict[str, int]
    suffered: dict[str, int]
    reserve_bytes: int
    limit_bytes: int
    store_bytes: int
    slot_bytes: int
    store_caused: dict[str, int]
    store_suffered: dict[str, int]


class WarmVersionAnswer(Answer):
    """One version in a local store."""

    version: str
    bytes: int


class WarmAnswer(Answer):
    """A worker's local store."""

    num_versions: int
    bytes: int
    bytes_max: int
    largest: list[WarmVersionAnswer]


class CutReserveAnswer(Answer):
    """A reserve that does not fit the worker."""

    tenant: str
    reserve_slots: int
    given: int


class CutByteReserveAnswer(Answer):
    """A byte reserve that does not fit the worker's local store."""

    tenant: str
    reserve_bytes: int
    given: int


class InventoryAnswer(Answer):
    """What an engine itself said last that it holds and runs."""

    loaded: list[str]
    num_running: int
    age_s: float


class WorkerAnswer(Answer):
    """One worker; without an engine it has no slots."""

    #: Null where one process is all.
    worker: str | None
    base: str
    engine: str | None
    num_slots: int
    rank_class: int
    slot_bytes: int
    computes_own_rank: bool
    slots: list[SlotAnswer]
    next: NextAnswer | None
    tenants: list[TenantShareAnswer]
    warm: WarmAnswer | None
    reserves_cut: list[CutReserveAnswer]
    byte_reserves_cut: list[CutByteReserveAnswer]
    inventory: InventoryAnswer | None


class ResidencyAnswer(Answer):
    """Every worker."""

    workers: list[WorkerAnswer]
    #: Whose slots are missing, or shown as they were.
    unreached: list[UnreachedAnswer]
