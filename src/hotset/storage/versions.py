"""Adapters and their versions: what was published (never changed) and the state it is in (with its history)."""

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, Table, and_, func, insert, select, update

from hotset.core.ids import AdapterId, Digest, TenantId, VersionRef
from hotset.core.versions import Approval, Manifest
from hotset.storage.rows import AdapterRow, HistoryRow, VersionRow
from hotset.storage.schema import (
    ADAPTERS,
    APPROVALS,
    BANS,
    PURGES,
    QUARANTINES,
    RELEASES,
    VERSION_FILES,
    VERSION_HISTORY,
    VERSION_KEY,
    VERSION_STATES,
    VERSIONS,
)


class Adapters:
    """Typed reads and writes of adapters."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, adapter: AdapterId, now_s: float) -> None:
        """Add an adapter whose name is free among its owner's."""
        self._connection.execute(
            insert(ADAPTERS).values(
                owner=adapter.owner, name=adapter.name, name_fold=adapter.name.lower(), created_at_s=now_s
            )
        )

    def by_folded_name(self, adapter: AdapterId) -> AdapterRow | None:
        """Return the owner's adapter whose name differs from this one at most in case."""
        found = self._where(ADAPTERS.c.owner == adapter.owner, ADAPTERS.c.name_fold == adapter.name.lower())
        return found[0] if found else None

    def get(self, adapter: AdapterId) -> AdapterRow | None:
        """Return the adapter of exactly this name."""
        found = self._where(ADAPTERS.c.owner == adapter.owner, ADAPTERS.c.name == adapter.name)
        return found[0] if found else None

    def all(self, owner: TenantId | None = None) -> list[AdapterRow]:
        """Return every adapter, of one owner where given, by owner and name."""
        return self._where() if owner is None else self._where(ADAPTERS.c.owner == owner)

    def _where(self, *conditions: ColumnElement[bool]) -> list[AdapterRow]:
        query = select(ADAPTERS).where(*conditions).order_by(ADAPTERS.c.owner, ADAPTERS.c.name)
        return [
            AdapterRow(AdapterId(TenantId(row.owner), row.name), row.created_at_s)
            for row in self._connection.execute(query)
        ]


class Versions:
    """Typed reads and writes of versions. There is no way here to change one, only to say its next state."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def next_number(self, adapter: AdapterId) -> int:
        """Return the number the adapter's next version takes; race-free within a write transaction."""
        query = select(func.max(VERSIONS.c.number)).where(
            VERSIONS.c.owner == adapter.owner, VERSIONS.c.name == adapter.name
        )
        return (self._connection.execute(query).scalar_one() or 0) + 1

    def add(
        self, ref: VersionRef, base: Digest, digest: Digest, manifest: Manifest, *, publisher: str, now_s: float
    ) -> None:
        """Record a version and its files; its state is said by `enter_state`."""
        key = _key(ref)
        self._connection.execute(
            insert(VERSIONS).values(
                **key,
                base=base,
                digest=digest,
                manifest_json=msgspec.json.encode(manifest).decode(),
                publisher=publisher,
                created_at_s=now_s,
            )
        )
        files = [
            {**key, "file": entry.name, "digest": entry.digest, "size_bytes": entry.size_bytes}
            for entry in manifest.files
        ]
        self._connection.execute(insert(VERSION_FILES), files)

    def enter_state(self, ref: VersionRef, state: str, *, actor: str, now_s: float, reason: str = "") -> None:
        """Put the version into `state` and append the step to its history."""
        key = _key(ref)
        changed = self._connection.execute(update(VERSION_STATES).where(*_is(VERSION_STATES, ref)).values(state=state))
        if changed.rowcount == 0:
            self._connection.execute(insert(VERSION_STATES).values(**key, state=state))
        self._append(ref, state, reason=reason, actor=actor, now_s=now_s)

    def remark(self, row: VersionRow, remark: str, *, actor: str, now_s: float) -> None:
        """Append to a version's history what leaves its state as it is."""
        self._append(row.ref, row.state, reason=remark, actor=actor, now_s=now_s)

    def get(self, ref: VersionRef) -> VersionRow | None:
        """Return the version."""
        found = self._where(*_is(VERSIONS, ref))
        return found[0] if found else None

    def of_adapter(self, adapter: AdapterId) -> list[VersionRow]:
        """Return the adapter's versions, oldest first."""
        return self._where(VERSIONS.c.owner == adapter.owner, VERSIONS.c.name == adapter.name)

    def in_states(self, *states: str) -> list[VersionRow]:
        """Return every version that is in one of these states, by owner, name and number."""
        return self._where(VERSION_STATES.c.state.in_(states))

    def with_digest(self, digest: Digest) -> list[VersionRow]:
        """Return every version of this digest."""
        return self._where(VERSIONS.c.digest == digest)

    def all(self) -> list[VersionRow]:
        """Return every version, by owner, name and number."""
        return self._where()

    def history(self, ref: VersionRef) -> list[HistoryRow]:
        """Return the version's steps, oldest first."""
        query = select(VERSION_HISTORY).where(*_is(VERSION_HISTORY, ref)).order_by(VERSION_HISTORY.c.id)
        return [HistoryRow(row.state, row.reason, row.actor, row.at_s) for row in self._connection.execute(query)]

    def named_blobs(self) -> set[Digest]:
        """Return the digest of every blob that an unpurged version names."""
        purged = select(PURGES.c.number).where(and_(*(PURGES.c[c] == VERSION_FILES.c[c] for c in VERSION_KEY)))
        query = select(VERSION_FILES.c.digest).where(~purged.exists()).distinct()
        return {Digest(digest) for digest in self._connection.execute(query).scalars()}

    def _append(self, ref: VersionRef, state: str, *, reason: str, actor: str, now_s: float) -> None:
        self._connection.execute(
            insert(VERSION_HISTORY).values(**_key(ref), state=state, reason=reason, actor=actor, at_s=now_s)
        )

    def _where(self, *conditions: ColumnElement[bool]) -> list[VersionRow]:
        joined = VERSIONS.join(VERSION_STATES).outerjoin(APPROVALS, _same(APPROVALS)).outerjoin(PURGES, _same(PURGES))
        query = (
            select(
                VERSIONS,
                VERSION_STATES.c.state,
                APPROVALS.c.approval_json,
                APPROVALS.c.reviewer,
                APPROVALS.c.at_s.label("approved_at_s"),
                PURGES.c.at_s.label("purged_at_s"),
                BANS.c.digest.label("banned_digest"),
                QUARANTINES.c.digest.label("quarantined_digest"),
                RELEASES.c.num_releases,
            )
            .select_from(
                joined.outerjoin(BANS, VERSIONS.c.digest == BANS.c.digest)
                .outerjoin(QUARANTINES, VERSIONS.c.digest == QUARANTINES.c.digest)
                .outerjoin(RELEASES, VERSIONS.c.digest == RELEASES.c.digest)
            )
            .where(*conditions)
            .order_by(*(VERSIONS.c[column] for column in VERSION_KEY))
        )
        return [_version(row) for row in self._connection.execute(query)]


def _key(ref: VersionRef) -> dict[str, str | int]:
    return {"owner": ref.adapter.owner, "name": ref.adapter.name, "number": ref.number}


def _is(table: Table, ref: VersionRef) -> list[ColumnElement[bool]]:
    return [table.c[column] == value for column, value in _key(ref).items()]


def _same(table: Table) -> ColumnElement[bool]:
    return and_(*(table.c[column] == VERSIONS.c[column] for column in VERSION_KEY))


def _version(row: Row[tuple[object, ...]]) -> VersionRow:
    has_approval = row.approval_json is not None
    return VersionRow(
        ref=VersionRef(AdapterId(TenantId(row.owner), row.name), row.number),
        base=Digest(row.base),
        digest=Digest(row.digest),
        manifest=msgspec.json.decode(row.manifest_json, type=Manifest),
        publisher=row.publisher,
        created_at_s=row.created_at_s,
        state=row.state,
        approval=msgspec.json.decode(row.approval_json, type=Approval) if has_approval else None,
        reviewer=row.reviewer,
        approved_at_s=row.approved_at_s,
        purged_at_s=row.purged_at_s,
        is_banned=row.banned_digest is not None,
        is_quarantined=row.quarantined_digest is not None,
        num_releases=row.num_releases or 0,
    )
