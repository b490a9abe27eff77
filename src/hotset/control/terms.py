"""Commands on terms: what tenants and keys may ask of the gateways, and default first-token budgets."""

from dataclasses import asdict

from hotset.control.actors import Actor
from hotset.control.commits import Change, Commits
from hotset.control.grants import need_grant
from hotset.control.keys import need_key
from hotset.control.tenants import need_tenant
from hotset.core.ids import Alias, KeyId, TenantId
from hotset.core.terms import TermsChange, change_terms, check_term
from hotset.storage.rows import GrantRow, KeyRow, TenantRow


class TermsCommands:
    """Terms: one method a command. A change to what is there already is none."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits

    async def of_tenant(self, actor: Actor, tenant: TenantId, terms_change: TermsChange) -> TenantRow:
        """Change a tenant's terms.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: there is no such tenant.
            InvalidRequestError: a number is out of bounds.
        """
        actor.require("admin")

        def act(change: Change) -> TenantRow:
            row = need_tenant(change.catalogue, tenant)
            terms = change_terms(row.terms, terms_change)
            if terms != row.terms:
                change.catalogue.tenants.change_terms(tenant, terms)
                change.audit("tenant.terms", tenant, **asdict(terms))
            return need_tenant(change.catalogue, tenant)

        return await self._commits.run(actor, act)

    async def of_key(self, actor: Actor, key: KeyId, terms_change: TermsChange) -> KeyRow:
        """Change a key's terms; they hold beside its tenant's.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: there is no such key.
            InvalidRequestError: a number is out of bounds.
        """
        actor.require("admin")

        def act(change: Change) -> KeyRow:
            row = need_key(change.catalogue, key)
            terms = change_terms(row.terms, terms_change)
            if terms != row.terms:
                change.catalogue.keys.change_terms(key, terms)
                change.audit("key.terms", key, tenant=row.tenant, **asdict(terms))
            return need_key(change.catalogue, key)

        return await self._commits.run(actor, act)

    async def of_alias(self, actor: Actor, tenant: TenantId, alias: Alias, budget_ms: int | None) -> GrantRow:
        """Set an alias's default first-token budget in milliseconds; 0 sets none, None leaves it to the tenant's terms.

        Raises:
            PermissionDeniedError: the actor is neither deployer nor admin.
            NotFoundError: the tenant has no such alias.
            InvalidRequestError: it is out of bounds.
        """
        actor.require("deployer")
        check_term("first_token_budget_ms", budget_ms)

        def act(change: Change) -> GrantRow:
            row = need_grant(change.catalogue, tenant, alias)
            if row.first_token_budget_ms != budget_ms:
                change.catalogue.grants.change_budget(tenant, alias, budget_ms)
                change.audit("grant.budget", f"{tenant}:{alias}", first_token_budget_ms=budget_ms)
            return need_grant(change.catalogue, tenant, alias)

        return await self._commits.run(actor, act)
