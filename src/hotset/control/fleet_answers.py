"""What the admin API answers about pools and workers: Pydantic models, beside those in `answers`."""

from typing import Literal

from hotset.control.answers import Answer
from hotset.control.on_call_answers import UnreachedAnswer


class PoolAnswer(Answer):
    """A pool; of the default one of each base, `tenants` are not listed: they are those in no other."""

    pool: str
    base: str
    kind: Literal["shared", "dedicated"]
    rank_class: int | None
    release_schedule: str | None
    tenants: list[str] | None
    workers: list[str]
    #: Reserves that do not hold there, now or with one worker lost.
    warnings: list[str]


class PoolsAnswer(Answer):
    """Every pool."""

    pools: list[PoolAnswer]


class FleetWorkerAnswer(Answer):
    """A worker of the fleet, and how it said that it is; nulls where it has not spoken since control started."""

    worker: str
    base: str
    pool: str
    state: Literal["serving", "cordoned", "draining"]
    is_lost: bool
    is_ready: bool | None
    is_leaving: bool | None
    engine: str
    hardware_class: str
    rank_class: int
    slot_bytes: int
    num_slots: int
    num_free_slots: int | None
    num_resident: int | None
    num_homes: int
    num_running: int | None
    num_waiting: int | None
    oldest_wait_s: float | None
    heard_ago_s: float | None
    fence: int
    snapshot_epoch: int | None
    address: str


class FleetAnswer(Answer):
    """Every worker."""

    workers: list[FleetWorkerAnswer]


class WorkerStateAnswer(FleetWorkerAnswer):
    """The same, once its state was changed."""

    #: Of the gateways and this worker, those that do not know of it yet.
    unreached: list[UnreachedAnswer]


class FreezeAnswer(Answer):
    """Whether loads, evictions and rollouts are stopped."""

    is_frozen: bool
    #: Workers that do not know of it yet.
    unreached: list[UnreachedAnswer]


class PickAnswer(Answer):
    """Where a request of a tenant would go now."""

    model: str
    pool: str
    #: The best first; none where nobody serves it now.
    workers: list[str]
    homes: list[str]
