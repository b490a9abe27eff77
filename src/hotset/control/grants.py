"""Commands on grants: what a tenant's aliases stand for."""

from dataclasses import replace

from hotset.control.actors import Actor
from hotset.control.commits import Change, Commits
from hotset.control.tenants import need_tenant
from hotset.core.errors import ConflictError, InvalidRequestError, NotFoundError
from hotset.core.ids import AdapterId, Alias, BaseName, Digest, TenantId
from hotset.core.ports import Withdrawal
from hotset.core.terms import check_term
from hotset.storage.catalogue import Catalogue
from hotset.storage.rows import GrantRow


class Grants:
    """Grants: one method a command."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits

    async def add(
        self,
        actor: Actor,
        tenant: TenantId,
        *,
        alias: Alias | None = None,
        adapter: AdapterId | None = None,
        base: BaseName | None = None,
        first_token_budget_ms: int | None = None,
    ) -> GrantRow:
        """Let a tenant call an adapter (its own or another's) or a base, under an alias.

        With `first_token_budget_ms`, requests that name no budget have this one; 0 sets none.

        Raises:
            PermissionDeniedError: the actor is neither deployer nor admin.
            InvalidRequestError: not exactly one of `adapter` and `base` is given, or the budget is out of bounds.
            NotFoundError: no such tenant, adapter or base.
            ConflictError: the alias is taken, or is a base's name.
        """
        actor.require("deployer")
        if (adapter is None) == (base is None):
            raise InvalidRequestError("A grant names an adapter or a base, one of the two.", param="adapter")
        check_term("first_token_budget_ms", first_token_budget_ms)

        def act(change: Change) -> GrantRow:
            catalogue = change.catalogue
            need_tenant(catalogue, tenant)
            row = _new_grant(catalogue, tenant, alias, adapter, base, change.now_s)
            row = replace(row, first_token_budget_ms=first_token_budget_ms)
            check_alias_is_free(catalogue, row)
            catalogue.grants.add(row)
            change.audit("grant.add", f"{tenant}:{row.alias}", adapter=adapter and str(adapter), base=base)
            return row

        return await self._commits.run(actor, act)

    async def remove(self, actor: Actor, tenant: TenantId, alias: Alias, *, cut: bool = False) -> GrantRow:
        """Take an alias back; with `cut`, end what runs under it, unless another alias of the tenant allows it.

        Raises:
            PermissionDeniedError: the actor is neither deployer nor admin.
            NotFoundError: the tenant has no such alias.
        """
        actor.require("deployer")

        def act(change: Change) -> GrantRow:
            catalogue = change.catalogue
            row = need_grant(catalogue, tenant, alias)
            catalogue.grants.remove(tenant, alias)
            change.audit("grant.remove", f"{tenant}:{alias}", cut=cut)
            left = [(grant.adapter, grant.base) for grant in catalogue.grants.all(tenant)]
            if cut and (row.adapter, row.base) not in left:
                change.withdrawals.append(Withdrawal(tenant=tenant, adapter=row.adapter, base=row.base))
            return row

        return await self._commits.run(actor, act)


def need_grant(catalogue: Catalogue, tenant: TenantId, alias: Alias) -> GrantRow:
    """Return the tenant's grant of exactly this alias.

    Raises:
        NotFoundError: the tenant has no such alias.
    """
    row = catalogue.grants.get(tenant, alias)
    if row is None:
        raise NotFoundError(f"Tenant {tenant!r} has no alias {alias!r}; see `hotset grant list`.", param="alias")
    return row


def check_alias_is_free(catalogue: Catalogue, grant: GrantRow) -> None:
    """Pass if the grant's alias collides with no alias of the tenant and with no base's name.

    Raises:
        ConflictError: it is taken, or differs from one that is only in case.
    """
    taken = catalogue.grants.by_folded_alias(grant.tenant, grant.alias)
    if taken is not None:
        meaning = taken.adapter or "a base"
        raise ConflictError(
            f"Alias {taken.alias!r} of tenant {grant.tenant!r} already stands for {meaning}"
            f"{'' if taken.alias == grant.alias else '; aliases that differ only in case are the same'}.",
            param="alias",
        )
    base = catalogue.bases.by_folded_name(grant.alias)
    if base is not None and (base.base.digest != grant.base or base.base.name != grant.alias):
        raise ConflictError(
            f"{grant.alias!r} is the name of base {base.base.name!r}; take another alias.", param="alias"
        )


def _new_grant(
    catalogue: Catalogue,
    tenant: TenantId,
    alias: Alias | None,
    adapter: AdapterId | None,
    base: BaseName | None,
    now_s: float,
) -> GrantRow:
    if adapter is not None:
        if catalogue.adapters.get(adapter) is None:
            raise NotFoundError(f"There is no adapter {adapter}; see `hotset adapter list`.", param="adapter")
        need_tenant(catalogue, adapter.owner)
        return GrantRow(tenant, alias or Alias(adapter.name), adapter, None, now_s)
    assert base is not None, "checked by the caller"
    row = catalogue.bases.by_name(base)
    if row is None:
        raise NotFoundError(f"There is no base {base!r}; see `hotset base list`.", param="base")
    return GrantRow(tenant, alias or Alias(base), None, Digest(row.base.digest), now_s)
