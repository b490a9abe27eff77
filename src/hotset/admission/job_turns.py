"""Which job a gateway runs next, and whether it runs one more now. Pure.

Jobs run below interactive work, but not for ever; among themselves their tenants take turns. What may become of one is
`job_life`'s.
"""

from collections.abc import Iterable, Mapping

from hotset.core.ids import JobId, TenantId


def next_job(
    oldest: Iterable[tuple[TenantId, JobId]], running: Mapping[TenantId, int], running_max: int
) -> JobId | None:
    """Return which tenant's oldest job is claimed next; None where none may be.

    That of the tenant with fewest running here. None may have more than it leaves free, so that the jobs of one, which
    may all wait for adapters, never keep another's from running.

    Args:
        oldest: Each tenant's oldest claimable job, the oldest of all first.
        running: Jobs of each tenant that run here; one that is not in it has none.
        running_max: How many may run here.
    """
    num_left = running_max - sum(running.values())
    may_have = [(tenant, job) for tenant, job in oldest if running.get(tenant, 0) < num_left]
    return min(may_have, key=lambda entry: running.get(entry[0], 0))[1] if may_have else None


def may_start(*, num_running: int, running_max: int, num_waiting: int, yielded_s: float, yield_s_max: float) -> bool:
    """Whether one more job may run here now: below interactive work, but not below it for ever.

    Args:
        num_running: Jobs that run here.
        running_max: How many may.
        num_waiting: Interactive requests that wait for a slot or for a place in an engine.
        yielded_s: How long none of the jobs that could have started did, because of such requests.
        yield_s_max: After how long one at a time does all the same.
    """
    if num_running >= running_max:
        return False
    return num_waiting == 0 or (num_running == 0 and yielded_s >= yield_s_max)
