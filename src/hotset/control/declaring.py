"""Bringing an installation to what a file declares: idempotent, forward only, no failure stops the rest.

What was declared and is there is left alone. What an operator did by hand stays: a suspended tenant is not resumed, a
version that was rejected, retired or rolled back is not published or promoted again. Quotas, terms and pools alone are
brought to the file's numbers each time, as editing the file is how they are changed; a number that it leaves out stays.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hotset.control.actors import Actor
from hotset.control.control import Control
from hotset.control.declaring_pools import DesiredPool, declare_pool
from hotset.control.progress import Report, silent
from hotset.control.publishing import Submission
from hotset.core.errors import HotsetError
from hotset.core.ids import AdapterId, Alias, BaseName, Digest, TenantId
from hotset.core.quotas import QuotaChange
from hotset.core.terms import TermsChange
from hotset.registry.lifecycle import VersionState
from hotset.storage.rows import GrantRow, VersionRow


@dataclass(frozen=True, slots=True)
class DesiredBase:
    """A base that is to be registered."""

    name: BaseName
    folder: Path
    synonyms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DesiredQuota:
    """What a tenant's quota is to be, as far as it is declared."""

    tenant: TenantId
    parts: QuotaChange


@dataclass(frozen=True, slots=True)
class DesiredTerms:
    """What a tenant's terms are to be, as far as they are declared."""

    tenant: TenantId
    parts: TermsChange


@dataclass(frozen=True, slots=True)
class DesiredAdapter:
    """An adapter whose folder's bytes are to be served."""

    adapter: AdapterId
    folder: Path
    base: BaseName
    overrides: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class DesiredGrant:
    """An alias that is to exist; exactly one of `adapter` and `base`."""

    tenant: TenantId
    alias: Alias | None = None
    adapter: AdapterId | None = None
    base: BaseName | None = None


@dataclass(frozen=True, slots=True)
class Desired:
    """What a file declares."""

    bases: tuple[DesiredBase, ...] = ()
    tenants: tuple[TenantId, ...] = ()
    quotas: tuple[DesiredQuota, ...] = ()
    terms: tuple[DesiredTerms, ...] = ()
    pools: tuple[DesiredPool, ...] = ()
    adapters: tuple[DesiredAdapter, ...] = ()
    grants: tuple[DesiredGrant, ...] = ()


@dataclass(slots=True)
class Declared:
    """What came of it."""

    #: One sentence a change, in order.
    changed: list[str] = field(default_factory=list[str])
    #: What could not be done, each with why.
    failed: list[tuple[str, HotsetError]] = field(default_factory=list[tuple[str, HotsetError]])


async def declare(control: Control, actor: Actor, desired: Desired, report: Report = silent) -> Declared:
    """Bring the installation to what is declared, as far as it goes; doing so twice changes nothing more.

    Args:
        control: The commands.
        actor: A local admin, as folders on this machine are named.
        desired: What the file declares.
        report: Told about hashing, verifying and proving.
    """
    outcome = Declared()
    for base in desired.bases:
        await _attempt(outcome, f"base {base.name}", lambda base=base: _base(control, actor, base, report))
    for tenant in desired.tenants:
        await _attempt(outcome, f"tenant {tenant}", lambda tenant=tenant: _tenant(control, actor, tenant))
    for quota in desired.quotas:
        await _attempt(outcome, f"quota of {quota.tenant}", lambda quota=quota: _quota(control, actor, quota))
    for terms in desired.terms:
        await _attempt(outcome, f"terms of {terms.tenant}", lambda terms=terms: _terms(control, actor, terms))
    for pool in desired.pools:
        await _attempt(outcome, f"pool {pool.pool}", lambda pool=pool: declare_pool(control, actor, pool))
    for adapter in desired.adapters:
        subject = f"adapter {adapter.adapter}"
        await _attempt(outcome, subject, lambda adapter=adapter: _adapter(control, actor, adapter, report))
    for grant in desired.grants:
        subject = f"grant {grant.tenant}:{grant.alias or grant.base or grant.adapter}"
        await _attempt(outcome, subject, lambda grant=grant: _grant(control, actor, grant))
    return outcome


async def _attempt(outcome: Declared, subject: str, act: Callable[[], Awaitable[list[str]]]) -> None:
    try:
        outcome.changed += await act()
    except HotsetError as error:
        outcome.failed.append((subject, error))


async def _base(control: Control, actor: Actor, desired: DesiredBase, report: Report) -> list[str]:
    added = await control.bases.add(actor, desired.folder, desired.name, desired.synonyms, report)
    return [f"registered base {desired.name}"] if added.is_new else []


async def _tenant(control: Control, actor: Actor, tenant: TenantId) -> list[str]:
    if await control.commits.read(lambda catalogue: catalogue.tenants.get(tenant)) is not None:
        return []
    await control.tenants.add(actor, tenant)
    return [f"added tenant {tenant}"]


async def _quota(control: Control, actor: Actor, desired: DesiredQuota) -> list[str]:
    before = await control.commits.read(lambda catalogue: catalogue.tenants.get(desired.tenant))
    if before is not None and before.state == "removed":
        return []
    after = await control.tenants.set_quota(actor, desired.tenant, desired.parts)
    if before is not None and after.quota == before.quota:
        return []
    return [f"set quota of {desired.tenant}: {_told(desired.parts)}"]


async def _terms(control: Control, actor: Actor, desired: DesiredTerms) -> list[str]:
    before = await control.commits.read(lambda catalogue: catalogue.tenants.get(desired.tenant))
    if before is not None and before.state == "removed":
        return []
    after = await control.terms.of_tenant(actor, desired.tenant, desired.parts)
    if before is not None and after.terms == before.terms:
        return []
    return [f"set terms of {desired.tenant}: {_told(desired.parts)}"]


def _told(parts: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {'default' if value is None else value}" for name, value in parts.items())


async def _adapter(control: Control, actor: Actor, desired: DesiredAdapter, report: Report) -> list[str]:
    submission = Submission(base=desired.base, overrides=desired.overrides, folder=desired.folder)
    verdict = await control.publishing.verify(actor, submission, report)
    if verdict.verified is None:
        assert verdict.refused is not None, "a verdict is one or the other"
        raise verdict.refused
    changed: list[str] = []
    row = await _newest_of(control, desired.adapter, verdict.verified.digest)
    if row is None:
        row = (await control.publishing.publish(actor, desired.adapter, submission, report)).row
        changed.append(f"published {row.ref}")
    return changed + await _bring_forward(control, actor, row, report)


async def _newest_of(control: Control, adapter: AdapterId, digest: Digest) -> VersionRow | None:
    rows = await control.commits.read(lambda catalogue: catalogue.versions.of_adapter(adapter))
    return next((row for row in reversed(rows) if row.digest == digest), None)


async def _bring_forward(control: Control, actor: Actor, row: VersionRow, report: Report) -> list[str]:
    """Prove, approve and promote, as far as the version's state and the separation of duties allow."""
    changed: list[str] = []
    if row.state == VersionState.VERIFIED:
        row = await control.proving.prove(actor, row.ref, report)
        changed.append(f"proved {row.ref}")
    if row.state == VersionState.PROVED and control.is_one_person:
        row = await control.approving.approve(actor, row.ref)
        changed.append(f"approved {row.ref}")
    if row.state == VersionState.APPROVED:
        row = await control.approving.promote(actor, row.ref)
        changed.append(f"promoted {row.ref}")
    return changed


async def _grant(control: Control, actor: Actor, desired: DesiredGrant) -> list[str]:
    held = await _held(control, desired)
    if held is not None and held.adapter == desired.adapter and await _is_base(control, held, desired.base):
        return []
    row = await control.grants.add(
        actor, desired.tenant, alias=desired.alias, adapter=desired.adapter, base=desired.base
    )
    return [f"granted {row.tenant}:{row.alias}"]


async def _held(control: Control, desired: DesiredGrant) -> GrantRow | None:
    name = desired.adapter.name if desired.adapter is not None else desired.base or ""
    alias = desired.alias or Alias(name)
    return await control.commits.read(lambda catalogue: catalogue.grants.get(desired.tenant, alias))


async def _is_base(control: Control, held: GrantRow, name: BaseName | None) -> bool:
    if held.base is None or name is None:
        return held.base is None and name is None
    return (await control.bases.get(name)).base.digest == held.base
