"""The audit log: every operator act, written in the act's own transaction and chained by hashes.

Entry n's hash covers its fields and the hash of entry n-1, so an entry that was changed, taken out or put in
breaks the chain from there on.
"""

import hashlib
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection, insert, select

from hotset.storage.rows import AuditRow
from hotset.storage.schema import AUDIT

_FIRST = "0" * 64


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    """What `Audit.verify` found."""

    num_entries: int
    #: Number of the first entry that does not follow from the one before it; None where the chain holds.
    first_broken: int | None


class Audit:
    """Typed reads and writes of the audit log."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, actor: str, action: str, subject: str, details: dict[str, object], *, now_s: float) -> None:
        """Append one act. `details` must be plain JSON values and hold no token."""
        last = self._connection.execute(select(AUDIT).order_by(AUDIT.c.number.desc()).limit(1)).one_or_none()
        number, previous = (1, _FIRST) if last is None else (last.number + 1, last.hash)
        details_json = msgspec.json.encode(details, order="deterministic").decode()
        row = AuditRow(number, now_s, actor, action, subject, details_json, hash="")
        self._connection.execute(
            insert(AUDIT).values(
                number=number,
                at_s=now_s,
                actor=actor,
                action=action,
                subject=subject,
                details_json=details_json,
                hash=entry_hash(previous, row),
            )
        )

    def entries(self, after: int = 0, limit: int = 100) -> list[AuditRow]:
        """Return at most `limit` entries whose number is above `after`, oldest first."""
        query = select(AUDIT).where(AUDIT.c.number > after).order_by(AUDIT.c.number).limit(limit)
        return [AuditRow(*row) for row in self._connection.execute(query)]

    def verify(self) -> AuditVerdict:
        """Walk the whole chain."""
        previous, expected = _FIRST, 1
        for row in self._connection.execute(select(AUDIT).order_by(AUDIT.c.number)):
            entry = AuditRow(*row)
            if entry.number != expected or entry.hash != entry_hash(previous, entry):
                return AuditVerdict(expected - 1, expected)
            previous, expected = entry.hash, expected + 1
        return AuditVerdict(expected - 1, None)


def entry_hash(previous: str, entry: AuditRow) -> str:
    """Return the hash of an entry that follows one whose hash is `previous`; the entry's own hash plays no part."""
    fields = (previous, entry.number, entry.at_s, entry.actor, entry.action, entry.subject, entry.details_json)
    return hashlib.sha256(msgspec.json.encode(fields)).hexdigest()
