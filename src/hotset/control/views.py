"""What the admin API shows of the installation and its tenants: rows turned into answers, within one read."""

from collections import Counter
from dataclasses import asdict
from typing import Any

import msgspec

from hotset.control import answers
from hotset.control.keys import IssuedKey
from hotset.control.operators import IssuedOperator
from hotset.core.ids import BaseName, Digest
from hotset.core.terms import Terms
from hotset.storage.catalogue import Catalogue
from hotset.storage.rows import AuditRow, BaseRow, GrantRow, KeyRow, OperatorRow, TenantRow


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
    names = base_names(catalogue)
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


def base_names(catalogue: Catalogue) -> dict[Digest, BaseName]:
    """Return by which name each base is shown."""
    return {row.base.digest: row.base.name for row in catalogue.bases.all()}
