"""Bringing pools to what a file declares: each is there, takes new versions when it says, and has the tenants it names.

Membership and schedule are brought to the file's each time, as editing the file is how they are changed; tenants that
the file does not name stay where they are. Workers are not declared: they say themselves which pool they ask for.
"""

from dataclasses import dataclass

from hotset.control.actors import Actor
from hotset.control.bases import need_base
from hotset.control.control import Control
from hotset.core.errors import ConflictError
from hotset.core.fleet import DEFAULT_POOL, PoolKind
from hotset.core.ids import BaseName, PoolName, TenantId


@dataclass(frozen=True, slots=True)
class DesiredPool:
    """A pool that is to be there."""

    pool: PoolName
    base: BaseName
    kind: PoolKind = "shared"
    rank_class: int | None = None
    release_schedule: str | None = None
    tenants: tuple[TenantId, ...] = ()


async def declare_pool(control: Control, actor: Actor, desired: DesiredPool) -> list[str]:
    """Return what was changed, one sentence a change.

    Raises:
        ConflictError: it is there as another kind, of another base or rank class, or can't take one of the tenants.
        NotFoundError: there is no such base or tenant.
        InvalidRequestError: what is declared is no pool.
    """
    changed: list[str] = []
    known = await control.commits.read(lambda catalogue: catalogue.pools.get(desired.pool))
    if known is None:
        known = await control.pools.add(
            actor,
            desired.pool,
            desired.base,
            kind=desired.kind,
            rank_class=desired.rank_class,
            release_schedule=desired.release_schedule,
        )
        changed.append(f"added pool {desired.pool}")
    digest = await control.commits.read(lambda catalogue: need_base(catalogue, desired.base).base.digest)
    if (known.base, known.kind, known.rank_class) != (digest, desired.kind, desired.rank_class):
        raise ConflictError(f"Pool {desired.pool!r} is there, of another base, kind or rank class; remove it first.")
    if desired.release_schedule not in (None, known.release_schedule):
        await control.pools.set_schedule(actor, desired.pool, desired.release_schedule)
        changed.append(f"set release schedule of pool {desired.pool}")
    within = await control.commits.read(lambda catalogue: catalogue.pools.tenants())
    for tenant in desired.tenants:
        if within.get((tenant, digest), DEFAULT_POOL) != desired.pool:
            await control.pools.assign_tenant(actor, desired.pool, tenant)
            changed.append(f"put {tenant} into pool {desired.pool}")
    return changed
