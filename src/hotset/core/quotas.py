"""What a tenant is owed of a worker's slots and local store, and what it may take beyond that.

Here is what a quota may say at all. Whether the reserves of several tenants fit one worker is residency's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypedDict

from hotset.core.errors import InvalidRequestError

#: No engine has more slots.
SLOTS_MAX = 1024
#: No local store is larger.
STORE_BYTES_MAX = 1 << 44
#: Part of a quota → its least and greatest number. Loads: from one in a hundred minutes, so that the time between two
#: is a time to reckon with, to a thousand a second, which bound nothing.
BOUNDS: Mapping[str, tuple[float, float]] = {
    "reserve_slots": (0, SLOTS_MAX),
    "limit_slots": (1, SLOTS_MAX),
    "loads_per_minute": (0.01, 60_000.0),
    "reserve_bytes": (0, STORE_BYTES_MAX),
    "limit_bytes": (1, STORE_BYTES_MAX),
}
#: What has a reserve and a limit.
_UNITS = ("slots", "bytes")


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
    #: Bytes of version files that it is always owed in the worker's local store; those of versions in slots count.
    reserve_bytes: int = 0
    #: Bytes that it may hold there at most beside what slots keep there, not below the reserve; null: all of it.
    limit_bytes: int | None = None


DEFAULT_QUOTA = Quota()


class QuotaChange(TypedDict, total=False):
    """The parts of a quota that are to change: one that is left out stays, None is the default."""

    reserve_slots: int | None
    limit_slots: int | None
    loads_per_minute: float | None
    reserve_bytes: int | None
    limit_bytes: int | None


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
            raise InvalidRequestError(f"{name} is from {least:.15g} to {greatest:.15g}.", param=name)
    for unit in _UNITS:
        reserve, limit = getattr(quota, f"reserve_{unit}"), getattr(quota, f"limit_{unit}")
        if limit is not None and limit < reserve:
            message = f"limit_{unit} ({limit}) is below reserve_{unit} ({reserve})."
            raise InvalidRequestError(message, param=f"limit_{unit}")
