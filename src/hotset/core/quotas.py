"""What a tenant is owed of a worker's slots, and what it may take beyond that.

Here is what a quota may say at all. Whether the reserves of several tenants fit one worker is residency's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypedDict

from hotset.core.errors import InvalidRequestError

#: No engine has more slots.
SLOTS_MAX = 1024
#: Part of a quota → its least and greatest number. Loads: from one in a hundred minutes, so that the time between two
#: is a time to reckon with, to a thousand a second, which bound nothing.
BOUNDS: Mapping[str, tuple[float, float]] = {
    "reserve_slots": (0, SLOTS_MAX),
    "limit_slots": (1, SLOTS_MAX),
    "loads_per_minute": (0.01, 60_000.0),
}


@dataclass(frozen=True, slots=True)
class Quota:
    """One tenant's share of each worker that serves it."""

    #: Slots that it is always owed there.
    reserve_slots: int = 0
    #: Slots that it may hold there at most, not below the reserve; null: half the usable slots, or the reserve where
    #: that is more.
    limit_slots: int | None = None
    #: Loads that it may cause there in a minute; null: the worker's own default.
    loads_per_minute: float | None = None


DEFAULT_QUOTA = Quota()


class QuotaChange(TypedDict, total=False):
    """The parts of a quota that are to change: one that is left out stays, None is the default."""

    reserve_slots: int | None
    limit_slots: int | None
    loads_per_minute: float | None


def change_quota(quota: Quota, change: QuotaChange) -> Quota:
    """Return the quota with the change made.

    Raises:
        InvalidRequestError: what comes of it is no quota; `param` is the part at fault.
    """
    parts = {name: getattr(DEFAULT_QUOTA, name) if value is None else value for name, value in change.items()}
    changed = replace(quota, **parts)
    check_quota(changed)
    return changed


def check_quota(quota: Quota) -> None:
    """Pass if these numbers make a quota.

    Raises:
        InvalidRequestError: one is out of bounds, or the limit is below the reserve; `param` is the part at fault.
    """
    for name, (least, greatest) in BOUNDS.items():
        number: float | None = getattr(quota, name)
        if number is not None and not least <= number <= greatest:
            raise InvalidRequestError(f"{name} is from {least:g} to {greatest:g}.", param=name)
    if quota.limit_slots is not None and quota.limit_slots < quota.reserve_slots:
        message = f"limit_slots ({quota.limit_slots}) is below reserve_slots ({quota.reserve_slots})."
        raise InvalidRequestError(message, param="limit_slots")
