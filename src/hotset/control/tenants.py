"""Commands on tenants."""

from dataclasses import asdict, replace

from hotset.control.actors import Actor
from hotset.control.commits import Change, Commits
from hotset.core.errors import ConflictError, NotFoundError
from hotset.core.ids import TenantId
from hotset.core.ports import Withdrawal
from hotset.core.quotas import QuotaChange, change_quota
from hotset.storage.catalogue import Catalogue
from hotset.storage.rows import TenantRow


class Tenants:
    """Tenants: one method a command."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits

    async def add(self, actor: Actor, tenant: TenantId) -> TenantRow:
        """Add a tenant.

        Raises:
            PermissionDeniedError: the actor is no admin.
            ConflictError: the name is or was a tenant's.
        """
        actor.require("admin")

        def act(change: Change) -> TenantRow:
            known = change.catalogue.tenants.get(tenant)
            if known is not None:
                raise ConflictError(_taken(known), param="tenant")
            change.catalogue.tenants.add(tenant, change.now_s)
            change.audit("tenant.add", tenant)
            return need_tenant(change.catalogue, tenant)

        return await self._commits.run(actor, act)

    async def suspend(self, actor: Actor, tenant: TenantId, *, cut: bool = False) -> TenantRow:
        """Refuse all of the tenant's requests from now on; with `cut`, end those that run.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: there is no such tenant.
        """
        actor.require("admin")

        def act(change: Change) -> TenantRow:
            need_tenant(change.catalogue, tenant)
            change.catalogue.tenants.change_state(tenant, "suspended")
            change.audit("tenant.suspend", tenant, cut=cut)
            if cut:
                change.withdrawals.append(Withdrawal(tenant=tenant))
            return need_tenant(change.catalogue, tenant)

        return await self._commits.run(actor, act)

    async def resume(self, actor: Actor, tenant: TenantId) -> TenantRow:
        """Take the tenant's requests again.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: there is no such tenant.
        """
        actor.require("admin")

        def act(change: Change) -> TenantRow:
            need_tenant(change.catalogue, tenant)
            change.catalogue.tenants.change_state(tenant, "active")
            change.audit("tenant.resume", tenant)
            return need_tenant(change.catalogue, tenant)

        return await self._commits.run(actor, act)

    async def set_quota(self, actor: Actor, tenant: TenantId, quota_change: QuotaChange) -> TenantRow:
        """Change what the tenant is owed and may take of each worker; a change to what it has already is none.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: there is no such tenant.
            InvalidRequestError: what comes of it is no quota.
        """
        actor.require("admin")

        def act(change: Change) -> TenantRow:
            row = need_tenant(change.catalogue, tenant)
            quota = change_quota(row.quota, quota_change)
            if quota != row.quota:
                change.catalogue.tenants.change_quota(tenant, quota)
                change.audit("tenant.quota", tenant, **asdict(quota))
            return need_tenant(change.catalogue, tenant)

        return await self._commits.run(actor, act)

    async def allow_jobs(self, actor: Actor, tenant: TenantId, *, allowed: bool) -> TenantRow:
        """Let the tenant's requests be accepted as jobs, or not; those that were accepted stay.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: there is no such tenant.
        """
        actor.require("admin")

        def act(change: Change) -> TenantRow:
            if need_tenant(change.catalogue, tenant).allows_jobs != allowed:
                change.catalogue.tenants.allow_jobs(tenant, allowed=allowed)
                change.audit("tenant.jobs", tenant, allowed=allowed)
            return need_tenant(change.catalogue, tenant)

        return await self._commits.run(actor, act)

    async def remove(self, actor: Actor, tenant: TenantId, *, cut: bool = False) -> TenantRow:
        """Revoke the tenant's keys, drop its grants and jobs, never serve its adapters again; its name stays taken.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: there is no such tenant.
            ConflictError: other tenants hold grants to its adapters.
        """
        actor.require("admin")

        def act(change: Change) -> TenantRow:
            catalogue = change.catalogue
            row = need_tenant(catalogue, tenant)
            others = [grant for grant in catalogue.grants.to_adapters_of(tenant) if grant.tenant != tenant]
            if others:
                listed = ", ".join(f"{grant.tenant}:{grant.alias}" for grant in others[:5])
                raise ConflictError(f"Other tenants use adapters of {tenant}: {listed}. Remove these grants first.")
            catalogue.keys.revoke_all(tenant, change.now_s)
            catalogue.grants.remove_all(tenant)
            catalogue.jobs.delete_all(tenant)
            catalogue.pools.remove_tenant(tenant)
            catalogue.tenants.change_state(tenant, "removed")
            change.audit("tenant.remove", tenant, cut=cut)
            if cut:
                change.withdrawals.append(Withdrawal(tenant=tenant))
            return replace(row, state="removed")

        return await self._commits.run(actor, act)


def need_tenant(catalogue: Catalogue, tenant: TenantId) -> TenantRow:
    """Return the tenant, suspended or not.

    Raises:
        NotFoundError: there is no such tenant, or it was removed.
    """
    row = catalogue.tenants.get(tenant)
    if row is None or row.state == "removed":
        raise NotFoundError(f"There is no tenant {tenant!r}; see `hotset tenant list`.", param="tenant")
    return row


def _taken(row: TenantRow) -> str:
    if row.state == "removed":
        return (
            f"{row.tenant!r} was a tenant and was removed; its name stays taken, so that its adapters pass to nobody."
        )
    return f"Tenant {row.tenant!r} is already there."
