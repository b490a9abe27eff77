"""What a tenant is owed of a worker's slots, and what it may take beyond that."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quota:
    """One tenant's share of each worker that serves it."""

    #: Slots that it is always owed there, from 0.
    reserve_slots: int = 0
    #: Slots that it may hold at most, at least 1 and not below the reserve; None is half the usable slots, and the
    #: reserve where that is more.
    limit_slots: int | None = None
    #: Loads that it may cause in a minute, above 0; None is the worker's own default.
    loads_per_minute: float | None = None


DEFAULT_QUOTA = Quota()
