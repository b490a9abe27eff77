"""What the admin API shows of the catalogue: rows turned into answers, within one read."""

from collections import Counter
from dataclasses import asdict
from typing import Any

import msgspec

from hotset.control import answers
from hotset.control.keys import IssuedKey
from hotset.control.operators import IssuedOperator
from hotset.control.publishing import Verdict
from hotset.core.ids import AdapterId, BaseName, Digest, TenantId, VersionRef, engine_name
from hotset.core.terms import Terms
from hotset.core.versions import Manifest
from hotset.registry.lifecycle import VersionState
from hotset.storage.catalogue import Catalogue
from hotset.storage.rows import AdapterRow, AuditRow, BaseRow, GrantRow, KeyRow, OperatorRow, TenantRow, VersionRow


def base_answer(row: BaseRow) -> answers.BaseAnswer:
    """Show a base."""
    shape = row.base.shape
    return answers.BaseAnswer(
        name=row.base.name,
        digest=row.base.digest,
        synonyms=list(row.base.synonyms),
        folder=row.folder,
        family=shape.family,
        num_layers=shape.num_layers,
        hidden_size=shape.hidden_size,
        vocab_size=shape.vocab_size,
        context_len=shape.context_len,
        num_files=len(row.base.files),
        created_at_s=row.created_at_s,
    )


def operator_answer(row: OperatorRow) -> answers.OperatorAnswer:
    """Show an operator."""
    return answers.OperatorAnswer(
        id=row.operator,
        name=row.name,
        roles=sorted(row.roles),
        created_at_s=row.created_at_s,
        revoked_at_s=row.revoked_at_s,
    )


def issued_operator_answer(issued: IssuedOperator) -> answers.IssuedOperatorAnswer:
    """Show a new operator with its token."""
    return answers.IssuedOperatorAnswer(operator=operator_answer(issued.row), token=issued.token)


def key_answer(row: KeyRow) -> answers.KeyAnswer:
    """Show a key."""
    return answers.KeyAnswer(
        id=row.key,
        tenant=row.tenant,
        label=row.label,
        aliases=None if row.aliases is None else sorted(row.aliases),
        created_at_s=row.created_at_s,
        expires_at_s=row.expires_at_s,
        revoked_at_s=row.revoked_at_s,
        terms=terms_answer(row.terms),
    )


def terms_answer(terms: Terms) -> answers.TermsAnswer:
    """Show terms."""
    return answers.TermsAnswer.model_validate(asdict(terms))


def issued_key_answer(issued: IssuedKey) -> answers.IssuedKeyAnswer:
    """Show a new key with its token."""
    return answers.IssuedKeyAnswer(key=key_answer(issued.row), token=issued.token)


def tenant_answers(catalogue: Catalogue, rows: list[TenantRow]) -> list[answers.TenantAnswer]:
    """Show tenants, each with its quota and how many live keys, grants and adapters it has."""
    keys = Counter(row.tenant for row in catalogue.keys.all() if row.revoked_at_s is None)
    grants = Counter(row.tenant for row in catalogue.grants.all())
    adapters = Counter(row.adapter.owner for row in catalogue.adapters.all())
    return [
        answers.TenantAnswer(
            tenant=row.tenant,
            state=row.state,
            created_at_s=row.created_at_s,
            num_keys=keys[row.tenant],
            num_grants=grants[row.tenant],
            num_adapters=adapters[row.tenant],
            **asdict(row.quota),
            terms=terms_answer(row.terms),
            allows_jobs=row.allows_jobs,
        )
        for row in rows
    ]


def grant_answers(catalogue: Catalogue, rows: list[GrantRow]) -> list[answers.GrantAnswer]:
    """Show grants."""
    names = _base_names(catalogue)
    return [
        answers.GrantAnswer(
            tenant=row.tenant,
            alias=row.alias,
            adapter=None if row.adapter is None else str(row.adapter),
            base=None if row.base is None else names[row.base],
            created_at_s=row.created_at_s,
            first_token_budget_ms=row.first_token_budget_ms,
        )
        for row in rows
    ]


def audit_answer(row: AuditRow) -> answers.AuditEntryAnswer:
    """Show an audit entry."""
    return answers.AuditEntryAnswer(
        number=row.number,
        at_s=row.at_s,
        actor=row.actor,
        action=row.action,
        subject=row.subject,
        details=msgspec.json.decode(row.details_json, type=dict[str, Any]),
        hash=row.hash,
    )


def verdict_answer(verdict: Verdict) -> answers.VerdictAnswer:
    """Show a verdict."""
    if verdict.verified is None:
        assert verdict.refused is not None, "a verdict is one or the other"
        refused = verdict.refused
        return answers.VerdictAnswer(
            verdict="refused",
            code=refused.reason,
            message=refused.message,
            subject=refused.param,
            warnings=[],
            digest=None,
            modules=[],
        )
    manifest = verdict.verified.manifest
    return answers.VerdictAnswer(
        verdict="accepted",
        code=None,
        message=f"Accepted: {len(manifest.modules)} modules, rank at most {manifest.rank_max}.",
        subject=None,
        warnings=_warnings(manifest),
        digest=verdict.verified.digest,
        modules=[
            answers.ModuleAnswer(module=spec.module, rank=spec.rank, alpha=spec.alpha, scaling=spec.scaling)
            for spec in manifest.modules
        ],
    )


def version_answer(catalogue: Catalogue, row: VersionRow, *, is_new: bool = False) -> answers.VersionAnswer:
    """Show a version with its history, proofs and approval."""
    history = [
        answers.HistoryAnswer(state=step.state, reason=step.reason, actor=step.actor, at_s=step.at_s)
        for step in catalogue.versions.history(row.ref)
    ]
    told = {
        "history": history,
        "proofs": _proofs(catalogue, row.ref),
        "reason": history[-1].reason if history else "",
        "is_new": is_new,
    }
    return _summary(row, _base_names(catalogue)).model_copy(update=told)


def adapter_answers(catalogue: Catalogue, owner: TenantId | None = None) -> list[answers.AdapterAnswer]:
    """Show every adapter, of one owner where given; its versions without history and proofs."""
    names = _base_names(catalogue)
    by_adapter: dict[AdapterId, list[answers.VersionAnswer]] = {}
    for row in catalogue.versions.all():
        by_adapter.setdefault(row.ref.adapter, []).append(_summary(row, names))
    return [_adapter(row, by_adapter.get(row.adapter, [])) for row in catalogue.adapters.all(owner)]


def adapter_answer(catalogue: Catalogue, row: AdapterRow) -> answers.AdapterAnswer:
    """Show an adapter and its versions, oldest first, each with its history and proofs."""
    rows = catalogue.versions.of_adapter(row.adapter)
    return _adapter(row, [version_answer(catalogue, version) for version in rows])


def _adapter(row: AdapterRow, versions: list[answers.VersionAnswer]) -> answers.AdapterAnswer:
    return answers.AdapterAnswer(
        adapter=str(row.adapter),
        owner=row.adapter.owner,
        name=row.adapter.name,
        active=next((version.number for version in versions if version.state == VersionState.ACTIVE), None),
        created_at_s=row.created_at_s,
        versions=versions,
    )


def _summary(row: VersionRow, base_names: dict[Digest, BaseName]) -> answers.VersionAnswer:
    return answers.VersionAnswer(
        ref=str(row.ref),
        owner=row.ref.adapter.owner,
        name=row.ref.adapter.name,
        number=row.ref.number,
        state=row.state,
        reason="",
        base=base_names[row.base],
        digest=row.digest,
        engine_name=engine_name(row.record.route) or "",
        rank_max=row.manifest.rank_max,
        num_modules=len(row.manifest.modules),
        size_bytes=sum(entry.size_bytes for entry in row.manifest.files),
        files=[
            answers.VersionFileAnswer(name=entry.name, size_bytes=entry.size_bytes, digest=entry.digest)
            for entry in row.manifest.files
        ],
        overrides=list(row.manifest.overrides),
        warnings=_warnings(row.manifest),
        publisher=row.publisher,
        created_at_s=row.created_at_s,
        is_banned=row.is_banned,
        is_quarantined=row.is_quarantined,
        is_purged=row.purged_at_s is not None,
        approval=_approval(row),
        history=[],
        proofs=[],
    )


def _approval(row: VersionRow) -> answers.ApprovalAnswer | None:
    if row.approval is None:
        return None
    return answers.ApprovalAnswer(
        reviewer=row.reviewer or "", reviewer_key=row.approval.reviewer_key, at_s=row.approved_at_s or 0.0
    )


def _proofs(catalogue: Catalogue, ref: VersionRef) -> list[answers.ProofAnswer]:
    return [
        answers.ProofAnswer(
            engine=proof.engine,
            dtype=proof.dtype,
            hardware_class=proof.hardware_class,
            fingerprint=msgspec.json.decode(proof.fingerprint_json, type=dict[str, Any]),
            at_s=proof.at_s,
        )
        for proof in catalogue.trust.proofs(ref)
    ]


def _warnings(manifest: Manifest) -> list[answers.WarningAnswer]:
    return [answers.WarningAnswer(code=code, message=message) for code, message in manifest.warnings]


def _base_names(catalogue: Catalogue) -> dict[Digest, BaseName]:
    return {row.base.digest: row.base.name for row in catalogue.bases.all()}
