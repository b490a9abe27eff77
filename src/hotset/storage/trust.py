"""What is said of versions by those who answer for them: proofs, approvals, bans, purges, quarantines.

Only ever added to, but for quarantines, which are lifted; how often is counted.
"""

import msgspec
from sqlalchemy import Connection, delete, func, insert, select, update

from hotset.core.ids import Digest, VersionRef
from hotset.core.versions import Approval
from hotset.storage.rows import ProofRow
from hotset.storage.schema import APPROVALS, BANS, PROOFS, PURGES, QUARANTINES, RELEASES


class Trust:
    """Typed reads and writes of proofs, approvals, bans, purges and quarantines."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add_proof(self, ref: VersionRef, proof: ProofRow) -> None:
        """Record one proof; a version may have one for each engine, dtype and hardware class, and several of each."""
        self._connection.execute(
            insert(PROOFS).values(
                **_key(ref),
                engine=proof.engine,
                dtype=proof.dtype,
                hardware_class=proof.hardware_class,
                fingerprint_json=proof.fingerprint_json,
                at_s=proof.at_s,
            )
        )

    def proofs(self, ref: VersionRef) -> list[ProofRow]:
        """Return the version's proofs, oldest first."""
        query = select(PROOFS).where(*(PROOFS.c[column] == value for column, value in _key(ref).items()))
        return [
            ProofRow(row.engine, row.dtype, row.hardware_class, row.fingerprint_json, row.at_s)
            for row in self._connection.execute(query.order_by(PROOFS.c.id))
        ]

    def add_approval(self, ref: VersionRef, approval: Approval, *, reviewer: str, now_s: float) -> None:
        """Record the version's one approval."""
        encoded = msgspec.json.encode(approval).decode()
        self._connection.execute(
            insert(APPROVALS).values(**_key(ref), reviewer=reviewer, approval_json=encoded, at_s=now_s)
        )

    def add_purge(self, ref: VersionRef, now_s: float) -> None:
        """Record that the version's bytes are erased."""
        self._connection.execute(insert(PURGES).values(**_key(ref), at_s=now_s))

    def add_ban(self, digest: Digest, reason: str, *, actor: str, now_s: float) -> None:
        """Ban a digest for ever; the first reason stays."""
        if not self.is_banned(digest):
            self._connection.execute(insert(BANS).values(digest=digest, reason=reason, actor=actor, at_s=now_s))

    def is_banned(self, digest: Digest) -> bool:
        """Whether the digest was ever banned."""
        return self._connection.execute(select(BANS.c.digest).where(BANS.c.digest == digest)).first() is not None

    def quarantine(self, digest: Digest, reason: str, *, code: str, actor: str, now_s: float) -> None:
        """Hold a digest back until it is lifted; the newest reason counts."""
        self._connection.execute(delete(QUARANTINES).where(QUARANTINES.c.digest == digest))
        self._connection.execute(
            insert(QUARANTINES).values(digest=digest, reason=reason, code=code, actor=actor, at_s=now_s)
        )

    def lift_quarantine(self, digest: Digest) -> None:
        """Hold a digest back no more, and count the release; harmless where it is not held back."""
        lifted = self._connection.execute(delete(QUARANTINES).where(QUARANTINES.c.digest == digest))
        if not lifted.rowcount:
            return
        one_more = update(RELEASES).where(RELEASES.c.digest == digest).values(num_releases=RELEASES.c.num_releases + 1)
        if not self._connection.execute(one_more).rowcount:
            self._connection.execute(insert(RELEASES).values(digest=digest, num_releases=1))

    def num_quarantined(self) -> int:
        """Return how many digests are held back."""
        return self._connection.execute(select(func.count()).select_from(QUARANTINES)).scalar_one()


def _key(ref: VersionRef) -> dict[str, str | int]:
    return {"owner": ref.adapter.owner, "name": ref.adapter.name, "number": ref.number}
