"""Tenants and what they may call: their keys (as hashes) and their grants."""

from dataclasses import asdict

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select, update

from hotset.core.ids import AdapterId, Alias, Digest, KeyId, TenantId
from hotset.core.quotas import Quota
from hotset.core.terms import Terms
from hotset.storage.rows import GrantRow, KeyRow, TenantRow, TenantState
from hotset.storage.schema import GRANTS, KEYS, TENANTS


class Tenants:
    """Typed reads and writes of tenants."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, tenant: TenantId, now_s: float) -> None:
        """Add a tenant whose name was never used."""
        self._connection.execute(insert(TENANTS).values(tenant=tenant, state="active", created_at_s=now_s))

    def change_state(self, tenant: TenantId, state: TenantState) -> None:
        """Put the tenant into `state`."""
        self._connection.execute(update(TENANTS).where(TENANTS.c.tenant == tenant).values(state=state))

    def change_quota(self, tenant: TenantId, quota: Quota) -> None:
        """Give the tenant this quota in place of the one it has."""
        self._connection.execute(update(TENANTS).where(TENANTS.c.tenant == tenant).values(**asdict(quota)))

    def change_terms(self, tenant: TenantId, terms: Terms) -> None:
        """Give the tenant these terms in place of the ones it has."""
        self._connection.execute(update(TENANTS).where(TENANTS.c.tenant == tenant).values(**asdict(terms)))

    def allow_jobs(self, tenant: TenantId, *, allowed: bool) -> None:
        """Let the tenant's requests be accepted as jobs, or not."""
        self._connection.execute(update(TENANTS).where(TENANTS.c.tenant == tenant).values(allows_jobs=int(allowed)))

    def get(self, tenant: TenantId) -> TenantRow | None:
        """Return the tenant, in whatever state."""
        row = self._connection.execute(select(TENANTS).where(TENANTS.c.tenant == tenant)).one_or_none()
        return None if row is None else _tenant(row)

    def all(self) -> list[TenantRow]:
        """Return every tenant, removed ones too, by name."""
        return [_tenant(row) for row in self._connection.execute(select(TENANTS).order_by(TENANTS.c.tenant))]


class Keys:
    """Typed reads and writes of API keys."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, key: KeyRow) -> None:
        """Record a newly issued key."""
        aliases = None if key.aliases is None else msgspec.json.encode(sorted(key.aliases)).decode()
        self._connection.execute(
            insert(KEYS).values(
                id=key.key,
                tenant=key.tenant,
                token_sha256=key.token_sha256,
                label=key.label,
                aliases_json=aliases,
                created_at_s=key.created_at_s,
                expires_at_s=key.expires_at_s,
                revoked_at_s=key.revoked_at_s,
                **asdict(key.terms),
            )
        )

    def change_terms(self, key: KeyId, terms: Terms) -> None:
        """Give the key these terms in place of the ones it has."""
        self._connection.execute(update(KEYS).where(KEYS.c.id == key).values(**asdict(terms)))

    def revoke(self, key: KeyId, now_s: float) -> None:
        """Mark the key revoked; the first time counts."""
        self._connection.execute(
            update(KEYS).where(KEYS.c.id == key, KEYS.c.revoked_at_s.is_(None)).values(revoked_at_s=now_s)
        )

    def revoke_all(self, tenant: TenantId, now_s: float) -> None:
        """Mark every live key of the tenant revoked."""
        self._connection.execute(
            update(KEYS).where(KEYS.c.tenant == tenant, KEYS.c.revoked_at_s.is_(None)).values(revoked_at_s=now_s)
        )

    def get(self, key: KeyId) -> KeyRow | None:
        """Return the key, revoked or not."""
        row = self._connection.execute(select(KEYS).where(KEYS.c.id == key)).one_or_none()
        return None if row is None else _key(row)

    def all(self, tenant: TenantId | None = None) -> list[KeyRow]:
        """Return every key, of one tenant where given, oldest first."""
        query = select(KEYS).order_by(KEYS.c.created_at_s, KEYS.c.id)
        if tenant is not None:
            query = query.where(KEYS.c.tenant == tenant)
        return [_key(row) for row in self._connection.execute(query)]


class Grants:
    """Typed reads and writes of aliases and what they stand for."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, grant: GrantRow) -> None:
        """Add an alias that is free in the tenant's namespace."""
        self._connection.execute(
            insert(GRANTS).values(
                tenant=grant.tenant,
                alias=grant.alias,
                alias_fold=grant.alias.lower(),
                adapter_owner=None if grant.adapter is None else grant.adapter.owner,
                adapter_name=None if grant.adapter is None else grant.adapter.name,
                base=grant.base,
                created_at_s=grant.created_at_s,
                first_token_budget_ms=grant.first_token_budget_ms,
            )
        )

    def change_budget(self, tenant: TenantId, alias: Alias, first_token_budget_ms: int | None) -> None:
        """Give an alias this default first-token budget."""
        self._connection.execute(
            update(GRANTS)
            .where(GRANTS.c.tenant == tenant, GRANTS.c.alias == alias)
            .values(first_token_budget_ms=first_token_budget_ms)
        )

    def remove(self, tenant: TenantId, alias: Alias) -> None:
        """Remove one alias."""
        self._connection.execute(delete(GRANTS).where(GRANTS.c.tenant == tenant, GRANTS.c.alias == alias))

    def remove_all(self, tenant: TenantId) -> None:
        """Remove every alias of the tenant."""
        self._connection.execute(delete(GRANTS).where(GRANTS.c.tenant == tenant))

    def get(self, tenant: TenantId, alias: Alias) -> GrantRow | None:
        """Return the grant of exactly this alias."""
        found = self._where(GRANTS.c.tenant == tenant, GRANTS.c.alias == alias)
        return found[0] if found else None

    def by_folded_alias(self, tenant: TenantId, alias: str) -> GrantRow | None:
        """Return the tenant's grant whose alias differs from `alias` at most in case."""
        found = self._where(GRANTS.c.tenant == tenant, GRANTS.c.alias_fold == alias.lower())
        return found[0] if found else None

    def named(self, alias: str) -> list[GrantRow]:
        """Return every tenant's grant whose alias differs from `alias` at most in case."""
        return self._where(GRANTS.c.alias_fold == alias.lower())

    def to_adapters_of(self, owner: TenantId) -> list[GrantRow]:
        """Return every grant, whoever holds it, to an adapter of this owner."""
        return self._where(GRANTS.c.adapter_owner == owner)

    def all(self, tenant: TenantId | None = None) -> list[GrantRow]:
        """Return every grant, of one tenant where given, by tenant and alias."""
        return self._where() if tenant is None else self._where(GRANTS.c.tenant == tenant)

    def _where(self, *conditions: ColumnElement[bool]) -> list[GrantRow]:
        query = select(GRANTS).where(*conditions).order_by(GRANTS.c.tenant, GRANTS.c.alias)
        return [_grant(row) for row in self._connection.execute(query)]


def _tenant(row: Row[tuple[object, ...]]) -> TenantRow:
    quota = Quota(row.reserve_slots, row.limit_slots, row.loads_per_minute, row.reserve_bytes, row.limit_bytes)
    return TenantRow(TenantId(row.tenant), row.state, row.created_at_s, quota, _terms(row), bool(row.allows_jobs))


def _key(row: Row[tuple[object, ...]]) -> KeyRow:
    aliases = None if row.aliases_json is None else msgspec.json.decode(row.aliases_json, type=frozenset[str])
    return KeyRow(
        key=KeyId(row.id),
        tenant=TenantId(row.tenant),
        token_sha256=row.token_sha256,
        label=row.label,
        aliases=None if aliases is None else frozenset(Alias(alias) for alias in aliases),
        created_at_s=row.created_at_s,
        expires_at_s=row.expires_at_s,
        revoked_at_s=row.revoked_at_s,
        terms=_terms(row),
    )


def _terms(row: Row[tuple[object, ...]]) -> Terms:
    return Terms(row.requests_per_minute, row.tokens_per_minute, row.requests_in_flight_max, row.first_token_budget_ms)


def _grant(row: Row[tuple[object, ...]]) -> GrantRow:
    is_base = row.adapter_owner is None
    return GrantRow(
        tenant=TenantId(row.tenant),
        alias=Alias(row.alias),
        adapter=None if is_base else AdapterId(TenantId(row.adapter_owner), row.adapter_name),
        base=Digest(row.base) if is_base else None,
        created_at_s=row.created_at_s,
        first_token_budget_ms=row.first_token_budget_ms,
    )
