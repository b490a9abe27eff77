"""Registered base versions."""

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, insert, select, update

from hotset.core.base import BaseVersion
from hotset.core.ids import BaseName, Digest
from hotset.storage.rows import BaseRow
from hotset.storage.schema import BASES


class Bases:
    """Typed reads and writes of base versions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, base: BaseVersion, folder: str, now_s: float) -> None:
        """Register a base whose digest and name are new."""
        self._connection.execute(
            insert(BASES).values(
                digest=base.digest,
                name=base.name,
                name_fold=base.name.lower(),
                folder=folder,
                base_json=msgspec.json.encode(base).decode(),
                created_at_s=now_s,
            )
        )

    def change(self, base: BaseVersion, folder: str) -> None:
        """Record new synonyms of a registered base, or the folder its files moved to."""
        self._connection.execute(
            update(BASES)
            .where(BASES.c.digest == base.digest)
            .values(folder=folder, base_json=msgspec.json.encode(base).decode())
        )

    def all(self) -> list[BaseRow]:
        """Return every base, by name."""
        return [_base(row) for row in self._connection.execute(select(BASES).order_by(BASES.c.name))]

    def by_name(self, name: BaseName) -> BaseRow | None:
        """Return the base of exactly this name."""
        return self._one(BASES.c.name == name)

    def by_folded_name(self, name: str) -> BaseRow | None:
        """Return the base whose name differs from `name` at most in case."""
        return self._one(BASES.c.name_fold == name.lower())

    def by_digest(self, digest: Digest) -> BaseRow | None:
        """Return the base of this digest."""
        return self._one(BASES.c.digest == digest)

    def _one(self, condition: ColumnElement[bool]) -> BaseRow | None:
        row = self._connection.execute(select(BASES).where(condition)).one_or_none()
        return None if row is None else _base(row)


def _base(row: Row[tuple[object, ...]]) -> BaseRow:
    return BaseRow(msgspec.json.decode(row.base_json, type=BaseVersion), row.folder, row.created_at_s)
