"""The SQLite database: one writer at a time, durable at commit, migrated before use.

WAL, foreign keys and ``synchronous=FULL`` on every connection; a write transaction takes the write lock at its
start, so what it reads is what it changes.
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.exc import DatabaseError, OperationalError, SQLAlchemyError

from hotset.core.errors import ConfigError
from hotset.storage.catalogue import Catalogue
from hotset.storage.migrations import upgrade

_BUSY_TIMEOUT_MS = 10_000

#: What a transaction raises where the database can't carry it out: locked, full, unreadable, gone.
DatabaseFailedError = SQLAlchemyError


class Database:
    """Opens transactions on the metadata database; safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._engine = create_engine(URL.create("sqlite", database=str(path)))
        event.listen(self._engine, "connect", _configure)

    def migrate(self) -> None:
        """Bring the schema up to date; a crash within leaves the former schema.

        Raises:
            ConfigError: the file is no database, or a damaged one.
        """
        try:
            with self._begin("BEGIN IMMEDIATE") as connection:
                found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
                if found != "ok":
                    raise self._damaged(str(found))
                upgrade(connection)
        except OperationalError:  # locked, full or unreadable: not damage
            raise
        except DatabaseError as error:
            raise self._damaged(str(error.orig)) from error
        self._path.chmod(0o600)

    @contextmanager
    def write(self) -> Generator[Catalogue]:
        """Open a transaction that commits at the end of the block, or rolls back if it raises."""
        with self._begin("BEGIN IMMEDIATE") as connection:
            yield Catalogue(connection)

    @contextmanager
    def read(self) -> Generator[Catalogue]:
        """Open a transaction that sees one moment and changes nothing."""
        with self._begin("BEGIN") as connection:
            yield Catalogue(connection)

    def close(self) -> None:
        """Close every pooled connection."""
        self._engine.dispose()

    def _damaged(self, reason: str) -> ConfigError:
        return ConfigError(f"{self._path} is damaged ({reason}); restore it from a backup.")

    @contextmanager
    def _begin(self, statement: str) -> Generator[Connection]:
        with self._engine.connect() as connection:
            connection.exec_driver_sql(statement)
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.commit()


def _configure(connection: Any, _record: object) -> None:
    # The driver's own implicit BEGIN is switched off: transactions begin where this module says.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout={_BUSY_TIMEOUT_MS}",
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        "recursive_triggers=ON",
        "trusted_schema=OFF",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
