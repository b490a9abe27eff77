"""What the admin API shows of adapters, their versions and verdicts: rows turned into answers, within one read."""

from typing import Any

import msgspec

from hotset.control.adapter_answers import (
    AdapterAnswer,
    ApprovalAnswer,
    HistoryAnswer,
    ModuleAnswer,
    ProofAnswer,
    VerdictAnswer,
    VersionAnswer,
    VersionFileAnswer,
    WarningAnswer,
)
from hotset.control.publishing import Verdict
from hotset.control.views import base_names
from hotset.core.ids import AdapterId, BaseName, Digest, TenantId, VersionRef, engine_name
from hotset.core.versions import Manifest
from hotset.registry.lifecycle import VersionState
from hotset.storage.catalogue import Catalogue
from hotset.storage.rows import AdapterRow, VersionRow


def verdict_answer(verdict: Verdict) -> VerdictAnswer:
    """Show a verdict."""
    if verdict.verified is None:
        assert verdict.refused is not None, "a verdict is one or the other"
        refused = verdict.refused
        return VerdictAnswer(
            verdict="refused",
            code=refused.reason,
            message=refused.message,
            subject=refused.param,
            warnings=[],
            digest=None,
            modules=[],
        )
    manifest = verdict.verified.manifest
    return VerdictAnswer(
        verdict="accepted",
        code=None,
        message=f"Accepted: {len(manifest.modules)} modules, rank at most {manifest.rank_max}.",
        subject=None,
        warnings=_warnings(manifest),
        digest=verdict.verified.digest,
        modules=[
            ModuleAnswer(module=spec.module, rank=spec.rank, alpha=spec.alpha, scaling=spec.scaling)
            for spec in manifest.modules
        ],
    )


def version_answer(catalogue: Catalogue, row: VersionRow, *, is_new: bool = False) -> VersionAnswer:
    """Show a version with its history, proofs and approval."""
    history = [
        HistoryAnswer(state=step.state, reason=step.reason, actor=step.actor, at_s=step.at_s)
        for step in catalogue.versions.history(row.ref)
    ]
    told = {
        "history": history,
        "proofs": _proofs(catalogue, row.ref),
        "reason": history[-1].reason if history else "",
        "is_new": is_new,
    }
    return _summary(row, base_names(catalogue)).model_copy(update=told)


def adapter_answers(catalogue: Catalogue, owner: TenantId | None = None) -> list[AdapterAnswer]:
    """Show every adapter, of one owner where given; its versions without history and proofs."""
    names = base_names(catalogue)
    by_adapter: dict[AdapterId, list[VersionAnswer]] = {}
    for row in catalogue.versions.all():
        by_adapter.setdefault(row.ref.adapter, []).append(_summary(row, names))
    return [_adapter(row, by_adapter.get(row.adapter, [])) for row in catalogue.adapters.all(owner)]


def adapter_answer(catalogue: Catalogue, row: AdapterRow) -> AdapterAnswer:
    """Show an adapter and its versions, oldest first, each with its history and proofs."""
    rows = catalogue.versions.of_adapter(row.adapter)
    return _adapter(row, [version_answer(catalogue, version) for version in rows])


def _adapter(row: AdapterRow, versions: list[VersionAnswer]) -> AdapterAnswer:
    return AdapterAnswer(
        adapter=str(row.adapter),
        owner=row.adapter.owner,
        name=row.adapter.name,
        active=next((version.number for version in versions if version.state == VersionState.ACTIVE), None),
        created_at_s=row.created_at_s,
        versions=versions,
    )


def _summary(row: VersionRow, names: dict[Digest, BaseName]) -> VersionAnswer:
    return VersionAnswer(
        ref=str(row.ref),
        owner=row.ref.adapter.owner,
        name=row.ref.adapter.name,
        number=row.ref.number,
        state=row.state,
        reason="",
        base=names[row.base],
        digest=row.digest,
        engine_name=engine_name(row.record.route) or "",
        rank_max=row.manifest.rank_max,
        num_modules=len(row.manifest.modules),
        size_bytes=sum(entry.size_bytes for entry in row.manifest.files),
        files=[
            VersionFileAnswer(name=entry.name, size_bytes=entry.size_bytes, digest=entry.digest)
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


def _approval(row: VersionRow) -> ApprovalAnswer | None:
    if row.approval is None:
        return None
    return ApprovalAnswer(
        reviewer=row.reviewer or "", reviewer_key=row.approval.reviewer_key, at_s=row.approved_at_s or 0.0
    )


def _proofs(catalogue: Catalogue, ref: VersionRef) -> list[ProofAnswer]:
    return [
        ProofAnswer(
            engine=proof.engine,
            dtype=proof.dtype,
            hardware_class=proof.hardware_class,
            fingerprint=msgspec.json.decode(proof.fingerprint_json, type=dict[str, Any]),
            at_s=proof.at_s,
        )
        for proof in catalogue.trust.proofs(ref)
    ]


def _warnings(manifest: Manifest) -> list[WarningAnswer]:
    return [WarningAnswer(code=code, message=message) for code, message in manifest.warnings]
