"""Operator tokens (as hashes) and their roles."""

import msgspec
from sqlalchemy import Connection, Row, insert, select, update

from hotset.storage.rows import OperatorRow
from hotset.storage.schema import OPERATORS


class Operators:
    """Typed reads and writes of operator tokens."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, operator: OperatorRow) -> None:
        """Record a newly made operator token."""
        self._connection.execute(
            insert(OPERATORS).values(
                id=operator.operator,
                name=operator.name,
                token_sha256=operator.token_sha256,
                roles_json=msgspec.json.encode(sorted(operator.roles)).decode(),
                created_at_s=operator.created_at_s,
                revoked_at_s=operator.revoked_at_s,
            )
        )

    def revoke(self, operator: str, now_s: float) -> None:
        """Mark the token revoked; the first time counts."""
        self._connection.execute(
            update(OPERATORS)
            .where(OPERATORS.c.id == operator, OPERATORS.c.revoked_at_s.is_(None))
            .values(revoked_at_s=now_s)
        )

    def by_token(self, token_sha256: str) -> OperatorRow | None:
        """Return the unrevoked operator whose token has this SHA-256 (hex)."""
        query = select(OPERATORS).where(OPERATORS.c.token_sha256 == token_sha256, OPERATORS.c.revoked_at_s.is_(None))
        row = self._connection.execute(query).one_or_none()
        return None if row is None else _operator(row)

    def all(self) -> list[OperatorRow]:
        """Return every operator, revoked ones too, oldest first."""
        query = select(OPERATORS).order_by(OPERATORS.c.created_at_s, OPERATORS.c.id)
        return [_operator(row) for row in self._connection.execute(query)]


def _operator(row: Row[tuple[object, ...]]) -> OperatorRow:
    return OperatorRow(
        operator=row.id,
        name=row.name,
        token_sha256=row.token_sha256,
        roles=msgspec.json.decode(row.roles_json, type=frozenset[str]),
        created_at_s=row.created_at_s,
        revoked_at_s=row.revoked_at_s,
    )
