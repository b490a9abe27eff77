"""Snapshots for tests: three tenants, each with an adapter of its own."""

import hashlib
from collections.abc import Iterable, Mapping

from hotset.core.ids import AdapterId, Alias, BaseName, Digest, KeyId, Route, TenantId, engine_name
from hotset.core.snapshot import AliasEntry, KeyEntry, RoutingSnapshot
from hotset.core.versions import Manifest, VersionRecord

BASE = Digest("sha256:" + "a" * 64)
ACME, GLOBEX, INITECH = TenantId("acme"), TenantId("globex"), TenantId("initech")
TENANTS = (ACME, GLOBEX, INITECH)


def token_of(tenant: str) -> str:
    """The API key of a tenant of this world."""
    return f"hs_{tenant}_0123456789abcdef"


def key_hash(token: str) -> str:
    """What the snapshot keeps of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def adapter_route(owner: str, name: str, number: int = 1) -> Route:
    """The route to one version; its digest is made of its name."""
    digest = Digest("sha256:" + hashlib.sha256(f"{owner}/{name}@{number}".encode()).hexdigest())
    return Route(BASE, AdapterId(TenantId(owner), name), number, digest)


def alias_entry(alias: str, active: Route | None, *others: Route) -> AliasEntry:
    """What an alias stands for: its active version, and others that a number may name."""
    numbered = {route.number: route for route in (active, *others) if route is not None and route.number}
    adapter = next((route.adapter for route in (active, *others) if route is not None), None)
    return AliasEntry(Alias(alias), active, numbered, BaseName("smol"), adapter, 1_700_000_000.0)


def snapshot_of(
    aliases: Mapping[tuple[str, str], AliasEntry], *, epoch: int = 1, keys: Iterable[str] = TENANTS
) -> RoutingSnapshot:
    """A snapshot with these aliases, one key for each tenant, and every version they name."""
    routes = [
        route
        for entry in aliases.values()
        for route in (entry.active, *entry.numbered.values())
        if route is not None and route.adapter is not None
    ]
    return RoutingSnapshot(
        epoch=epoch,
        keys={key_hash(token_of(name)): KeyEntry(KeyId(f"key-{name}"), TenantId(name)) for name in sorted(keys)},
        tenants=frozenset(TENANTS),
        aliases={(TenantId(tenant), Alias(alias)): entry for (tenant, alias), entry in aliases.items()},
        versions={engine_name(route): _record(route) for route in routes},
        bases={},
    )


def three_tenants(
    *,
    epoch: int = 1,
    keys: Iterable[str] = TENANTS,
    active: int = 2,
    without: tuple[str, str] | None = None,
) -> RoutingSnapshot:
    """Each tenant with an adapter of its own; acme also with the base, a draft and an alias with a slash.

    Args:
        epoch: The snapshot's number.
        keys: Tenants with a live key.
        active: Which version of acme/support is active; those below it may be named by number.
        without: An alias of a tenant that is missing.
    """
    aliases = {
        ("acme", "support"): alias_entry(
            "support", *(adapter_route("acme", "support", number) for number in range(active, 0, -1))
        ),
        ("acme", "eu/faq"): alias_entry("eu/faq", adapter_route("acme", "faq")),
        ("acme", "smol"): alias_entry("smol", Route(BASE)),
        ("acme", "draft"): alias_entry("draft", None),
        ("globex", "contracts"): alias_entry("contracts", adapter_route("globex", "contracts")),
        ("initech", "tps-reports"): alias_entry("tps-reports", adapter_route("initech", "tps-reports")),
    }
    return snapshot_of({place: entry for place, entry in aliases.items() if place != without}, epoch=epoch, keys=keys)


def _record(route: Route) -> VersionRecord:
    assert route.adapter is not None
    return VersionRecord(
        owner=route.adapter.owner,
        name=route.adapter.name,
        number=route.number,
        base=route.base,
        digest=route.digest,
        manifest=Manifest(files=(), modules=(), rank_max=8),
    )
