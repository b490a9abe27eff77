"""Migrations of the database, run at every start; each is one transaction."""

from pathlib import Path

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext, RevisionStep
from alembic.script import ScriptDirectory
from sqlalchemy import Connection


def upgrade(connection: Connection, *, to: str = "head") -> None:
    """Bring the database up to a revision, by default the newest, within the caller's transaction."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)

    def steps(revision: tuple[str, ...], _context: MigrationContext) -> list[RevisionStep]:
        return script._upgrade_revs(to, revision)  # pyright: ignore

    with EnvironmentContext(config, script, fn=steps) as environment:
        environment.configure(connection=connection)
        environment.run_migrations()
