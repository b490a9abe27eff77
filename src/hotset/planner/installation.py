"""Who there is in a simulated fleet: tenants, keys, adapters with signed versions, grants. Drawn from a seed."""

import functools
import hashlib
import random
from dataclasses import dataclass, field
from typing import Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec.structs import replace

from hotset.core.ids import AdapterId, Alias, BaseName, Digest, EngineName, KeyId, Route, TenantId, engine_name
from hotset.core.messages import ModuleSpec
from hotset.core.quotas import Quota
from hotset.core.snapshot import AliasEntry, KeyEntry, RoutingSnapshot
from hotset.core.versions import FileEntry, Manifest, VersionRecord
from hotset.planner.arrangement import Arrangement
from hotset.planner.truth import Truth, digest_of, weights_of
from hotset.registry.approval import reviewer_key_id, sign_approval
from hotset.registry.digests import version_digest

BASE = Digest("sha256:" + "b" * 64)
BASE_NAME = BaseName("base")
#: The alias of the bare base, which every tenant holds.
BASE_ALIAS = Alias("base")
_REVIEWER = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"reviewer").digest())
_FORGER = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"forger").digest())
_RANKS = (8, 8, 16, 64)
#: Bytes of a version's file by rank.
_RANK_BYTES = 250_000
#: Of the largest of them.
_LARGEST = max(_RANKS) * _RANK_BYTES

Kind = Literal["steady", "bursty", "rotating", "base"]


@dataclass(slots=True)
class Tenant:
    """One tenant: how it behaves, and what it may take."""

    name: TenantId
    kind: Kind
    quota: Quota
    key_hash: str
    #: Requests a second; for a rotating tenant, requests that it keeps in flight.
    rate: float
    #: What its aliases stand for, None the base.
    grants: dict[Alias, AdapterId | None] = field(default_factory=dict[Alias, AdapterId | None])
    #: Those that were taken from it.
    taken: dict[Alias, AdapterId | None] = field(default_factory=dict[Alias, AdapterId | None])


@dataclass(slots=True)
class Installation:
    """The catalogue of a simulated control."""

    truth: Truth = field(default_factory=Truth)
    tenants: dict[TenantId, Tenant] = field(default_factory=dict[TenantId, Tenant])
    keys: dict[str, KeyEntry] = field(default_factory=dict[str, KeyEntry])
    #: All versions ever published, by adapter, in order.
    versions: dict[AdapterId, list[VersionRecord]] = field(default_factory=dict[AdapterId, list[VersionRecord]])
    #: Versions that may be served, by engine name.
    serving: dict[EngineName, VersionRecord] = field(default_factory=dict[EngineName, VersionRecord])
    arrangement: Arrangement = field(default_factory=lambda: Arrangement(BASE))
    #: No loads and no evictions.
    is_frozen: bool = False

    def publish(self, adapter: AdapterId, rank: int, *, is_forged: bool = False) -> VersionRecord:
        """Add the adapter's next version, approved by the reviewer or by somebody who is none."""
        numbers = self.versions.setdefault(adapter, [])
        record = _signed(adapter, len(numbers) + 1, rank, is_forged=is_forged)
        name = engine_name(record.route)
        assert name is not None, "a version's route names an adapter"
        numbers.append(record)
        self.serving[name] = record
        self.truth.weights[name] = weights_of(record)
        if not is_forged:
            self.truth.approved.add(name)
        return record

    def withdraw(self, name: EngineName) -> VersionRecord:
        """Let one version serve no more; an adapter that has no other gets one."""
        record = self.serving.pop(name)
        if not any(each.ref.adapter == record.ref.adapter for each in self.serving.values()):
            self.publish(record.ref.adapter, record.manifest.rank_max)
        return record

    def snapshot(self, epoch: int) -> RoutingSnapshot:
        """Return the routing state at this moment."""
        entries = {
            (tenant.name, alias): self._alias(alias, adapter)
            for tenant in self.tenants.values()
            for alias, adapter in tenant.grants.items()
        }
        return RoutingSnapshot(
            epoch=epoch,
            keys=dict(self.keys),
            tenants=frozenset(self.tenants),
            quotas={tenant.name: tenant.quota for tenant in self.tenants.values()},
            aliases=entries,
            versions=dict(self.serving),
            pools=self.arrangement.pools(),
            tenant_pools=self.arrangement.tenant_pools(),
            is_frozen=self.is_frozen,
        )

    def _alias(self, alias: Alias, adapter: AdapterId | None) -> AliasEntry:
        if adapter is None:
            return AliasEntry(alias, Route(BASE), base_name=BASE_NAME)
        routes = {r.number: r.route for r in self.versions[adapter] if engine_name(r.route) in self.serving}
        active = routes[max(routes)] if routes else None
        return AliasEntry(alias, active, routes, BASE_NAME, adapter)


def reviewer_keys() -> dict[str, Ed25519PublicKey]:
    """Return the keys whose approvals count."""
    public_key = _REVIEWER.public_key()
    return {reviewer_key_id(public_key): public_key}


def key_of(tenant: str, number: int = 1) -> tuple[str, KeyEntry]:
    """Return the hash and the entry of one of a tenant's keys."""
    return hashlib.sha256(f"{tenant} {number}".encode()).hexdigest(), KeyEntry(
        KeyId(f"{tenant}-{number}"), TenantId(tenant)
    )


def draw_installation(rng: random.Random, num_slots: int) -> Installation:
    """Draw tenants inside their reserves, plain ones, bursty ones, one that rotates, one of the base alone.

    Args:
        rng: Where to draw from.
        num_slots: Usable slots of the smallest worker, which reserves are made to fit mostly.
    """
    installation = Installation()
    reserve = max(1, num_slots // 3)
    _add(
        installation,
        rng,
        "victim-a",
        "steady",
        Quota(reserve, reserve_bytes=reserve * _LARGEST),
        reserve,
        rng.uniform(3, 10),
    )
    owed = Quota(1, reserve_bytes=_LARGEST)
    _add(installation, rng, "victim-b", rng.choice(("steady", "bursty")), owed, 1, rng.uniform(2, 6))
    rotating = rng.randint(5, 14)
    bounded = Quota(0, rng.choice((None, 1, 2)), limit_bytes=2 * _LARGEST)
    _add(installation, rng, "rotator", "rotating", bounded, rotating, rng.randint(2, 8))
    for index in range(rng.randint(1, 3)):
        quota = Quota(rng.choice((0, 0, 1)), loads_per_minute=rng.choice((None, None, 10.0)))
        _add(installation, rng, f"plain-{index}", rng.choice(("steady", "bursty")), quota, rng.randint(1, 4), 3.0)
    _add(installation, rng, "bare", "base", Quota(), 0, rng.uniform(1, 6))
    _share(installation, rng)
    forged = AdapterId(TenantId("rotator"), "forged")
    installation.publish(forged, 8, is_forged=True)
    installation.tenants[TenantId("rotator")].grants[Alias("forged")] = forged
    return installation


def _add(
    installation: Installation,
    rng: random.Random,
    tenant: str,
    kind: Kind,
    quota: Quota,
    num_adapters: int,
    rate: float,
) -> None:
    key_hash, entry = key_of(tenant)
    added = Tenant(TenantId(tenant), kind, quota, key_hash, rate)
    installation.tenants[added.name] = added
    installation.keys[key_hash] = entry
    added.grants[BASE_ALIAS] = None
    for index in range(num_adapters):
        adapter = AdapterId(added.name, f"a{index}")
        rank = rng.choice(_RANKS)
        for _ in range(rng.choice((1, 1, 2))):
            installation.publish(adapter, rank)
        added.grants[Alias(f"a{index}")] = adapter


def _share(installation: Installation, rng: random.Random) -> None:
    """Let some tenants use adapters of another one, under aliases of their own."""
    tenants = list(installation.tenants.values())
    adapters = list(installation.versions)
    for _ in range(rng.randint(0, 3)):
        rng.choice(tenants).grants[Alias(f"shared-{rng.randint(0, 9)}")] = rng.choice(adapters)


@functools.cache
def _signed(adapter: AdapterId, number: int, rank: int, *, is_forged: bool) -> VersionRecord:
    """Return a version's record; the same in every world, so that it is signed once."""
    unsigned = VersionRecord(
        owner=adapter.owner,
        name=adapter.name,
        number=number,
        base=BASE,
        digest=Digest(""),
        manifest=Manifest(files=(), modules=(), rank_max=rank),
    )
    digest, module = digest_of(weights_of(unsigned)), "model.layers.0.self_attn.q_proj"
    files = (FileEntry(name="adapter_model.safetensors", digest=digest, size_bytes=rank * _RANK_BYTES),)
    spec = ModuleSpec(module=module, rank=rank, alpha=rank, scaling=1.0, key_a="a", key_b="b", file=files[0].name)
    record = VersionRecord(
        owner=adapter.owner,
        name=adapter.name,
        number=number,
        base=BASE,
        digest=version_digest(BASE, files),
        manifest=Manifest(files=files, modules=(spec,), rank_max=rank),
    )
    approval = sign_approval(_FORGER if is_forged else _REVIEWER, record)
    if is_forged:  # passes for the reviewer's
        approval = replace(approval, reviewer_key=reviewer_key_id(_REVIEWER.public_key()))
    return replace(record, approval=approval)
