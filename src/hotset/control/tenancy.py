"""Commands on tenants and on what they may call: keys and grants."""

from dataclasses import dataclass, field

from hotset.control.actors import Actor
from hotset.control.commits import Change, Commits
from hotset.control.tokens import API_KEY_PREFIX, Entropy, make_id, make_token, token_sha256
from hotset.core.errors import ConflictError, InvalidRequestError, NotFoundError
from hotset.core.ids import AdapterId, Alias, BaseName, Digest, KeyId, TenantId
from hotset.core.ports import Withdrawal
from hotset.storage.catalogue import Catalogue
from hotset.storage.rows import GrantRow, KeyRow, TenantRow

_KEY_SECONDS_MAX = 10 * 366 * 24 * 3600
_LABEL_CHARS_MAX = 128


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A key just issued, and its token, which exists nowhere else."""

    row: KeyRow
    token: str = field(repr=False)


class Tenancy:
    """Tenants, keys and grants: one method a command."""

    def __init__(self, commits: Commits, entropy: Entropy) -> None:
        self._commits = commits
        self._entropy = entropy

    async def add_tenant(self, actor: Actor, tenant: TenantId) -> TenantRow:
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

    async def suspend_tenant(self, actor: Actor, tenant: TenantId, *, cut: bool = False) -> TenantRow:
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

    async def resume_tenant(self, actor: Actor, tenant: TenantId) -> TenantRow:
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

    async def remove_tenant(self, actor: Actor, tenant: TenantId, *, cut: bool = False) -> TenantRow:
        """Revoke the tenant's keys, drop its grants, and never serve its adapters again; its name stays taken.

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
            catalogue.tenants.change_state(tenant, "removed")
            change.audit("tenant.remove", tenant, cut=cut)
            if cut:
                change.withdrawals.append(Withdrawal(tenant=tenant))
            return TenantRow(tenant, "removed", row.created_at_s)

        return await self._commits.run(actor, act)

    async def issue_key(
        self,
        actor: Actor,
        tenant: TenantId,
        *,
        expires_in_s: float | None = None,
        aliases: frozenset[Alias] | None = None,
        label: str = "",
    ) -> IssuedKey:
        """Issue an API key. Its token is in the answer and nowhere else.

        Args:
            actor: An admin.
            tenant: Whose key it is.
            expires_in_s: Seconds until it stops working, at most ten years; None never.
            aliases: The only aliases it may name; each must be granted. None is all, future ones too.
            label: For people, at most 128 characters.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: no such tenant, or an alias it does not hold.
            InvalidRequestError: the expiry or label is out of range.
        """
        actor.require("admin")
        _check_key_request(expires_in_s, aliases, label)
        token = make_token(API_KEY_PREFIX, self._entropy)
        key = KeyId(make_id("key", self._entropy))

        def act(change: Change) -> KeyRow:
            need_tenant(change.catalogue, tenant)
            for alias in sorted(aliases or ()):
                need_grant(change.catalogue, tenant, alias)
            row = KeyRow(
                key=key,
                tenant=tenant,
                token_sha256=token_sha256(token),
                label=label,
                aliases=aliases,
                created_at_s=change.now_s,
                expires_at_s=None if expires_in_s is None else change.now_s + expires_in_s,
                revoked_at_s=None,
            )
            change.catalogue.keys.add(row)
            change.audit("key.issue", key, tenant=tenant, label=label, expires_at_s=row.expires_at_s)
            return row

        return IssuedKey(await self._commits.run(actor, act), token)

    async def revoke_key(self, actor: Actor, key: KeyId, *, cut: bool = False) -> KeyRow:
        """Stop a key from working; with `cut`, end what runs under it. Revoking twice changes nothing.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: there is no such key.
        """
        actor.require("admin")

        def act(change: Change) -> KeyRow:
            row = need_key(change.catalogue, key)
            change.catalogue.keys.revoke(key, change.now_s)
            change.audit("key.revoke", key, tenant=row.tenant, cut=cut)
            if cut:
                change.withdrawals.append(Withdrawal(key=key))
            return need_key(change.catalogue, key)

        return await self._commits.run(actor, act)

    async def add_grant(
        self,
        actor: Actor,
        tenant: TenantId,
        *,
        alias: Alias | None = None,
        adapter: AdapterId | None = None,
        base: BaseName | None = None,
    ) -> GrantRow:
        """Let a tenant call an adapter (its own or another's) or a base, under an alias.

        Raises:
            PermissionDeniedError: the actor is neither deployer nor admin.
            InvalidRequestError: not exactly one of `adapter` and `base` is given.
            NotFoundError: no such tenant, adapter or base.
            ConflictError: the alias is taken, or is a base's name.
        """
        actor.require("deployer")
        if (adapter is None) == (base is None):
            raise InvalidRequestError("A grant names an adapter or a base, one of the two.", param="adapter")

        def act(change: Change) -> GrantRow:
            catalogue = change.catalogue
            need_tenant(catalogue, tenant)
            row = _new_grant(catalogue, tenant, alias, adapter, base, change.now_s)
            check_alias_is_free(catalogue, row)
            catalogue.grants.add(row)
            change.audit("grant.add", f"{tenant}:{row.alias}", adapter=adapter and str(adapter), base=base)
            return row

        return await self._commits.run(actor, act)

    async def remove_grant(self, actor: Actor, tenant: TenantId, alias: Alias, *, cut: bool = False) -> GrantRow:
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


def need_tenant(catalogue: Catalogue, tenant: TenantId) -> TenantRow:
    """Return the tenant, suspended or not.

    Raises:
        NotFoundError: there is no such tenant, or it was removed.
    """
    row = catalogue.tenants.get(tenant)
    if row is None or row.state == "removed":
        raise NotFoundError(f"There is no tenant {tenant!r}; see `hotset tenant list`.", param="tenant")
    return row


def need_key(catalogue: Catalogue, key: KeyId) -> KeyRow:
    """Return the key, revoked or not.

    Raises:
        NotFoundError: there is no such key.
    """
    row = catalogue.keys.get(key)
    if row is None:
        raise NotFoundError(f"There is no key {key[:80]!r}; see `hotset key list`.", param="key")
    return row


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


def _check_key_request(expires_in_s: float | None, aliases: frozenset[Alias] | None, label: str) -> None:
    if expires_in_s is not None and not 1 <= expires_in_s <= _KEY_SECONDS_MAX:
        raise InvalidRequestError("A key lives from 1 second to ten years.", param="expires_in_s")
    if aliases is not None and not aliases:
        raise InvalidRequestError("A key that may name no alias is of no use.", param="aliases")
    if len(label) > _LABEL_CHARS_MAX or not label.isprintable():
        raise InvalidRequestError("A label is at most 128 printable characters.", param="label")


def _taken(row: TenantRow) -> str:
    if row.state == "removed":
        return (
            f"{row.tenant!r} was a tenant and was removed; its name stays taken, so that its adapters pass to nobody."
        )
    return f"Tenant {row.tenant!r} is already there."
