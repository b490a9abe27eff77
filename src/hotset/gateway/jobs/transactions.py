"""Runs transactions on jobs for the event loop, on threads of its own: a slow disk stalls jobs and nothing else."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from hotset.core.errors import JobsUnavailableError
from hotset.storage.database import Database, DatabaseFailedError
from hotset.storage.jobs import Jobs

T = TypeVar("T")

_THREADS = 4


class Transactions:
    """Short transactions on the table of jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="jobs")

    async def write(self, act: Callable[[Jobs], T]) -> T:
        """Return what `act` returns, once what it wrote is committed; what it raises undoes all of it.

        A caller that goes away meanwhile changes nothing: the transaction ends whole.

        Raises:
            JobsUnavailableError: the database failed.
        """

        def transact() -> T:
            with self._database.write() as catalogue:
                return act(catalogue.jobs)

        return await self._on_thread(transact)

    async def read(self, look: Callable[[Jobs], T]) -> T:
        """Return what `look` finds at one moment.

        Raises:
            JobsUnavailableError: the database failed.
        """

        def transact() -> T:
            with self._database.read() as catalogue:
                return look(catalogue.jobs)

        return await self._on_thread(transact)

    def close(self) -> None:
        """Let what runs end, then close the database."""
        self._threads.shutdown(wait=True)
        self._database.close()

    async def _on_thread(self, transact: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, transact)
        except DatabaseFailedError as error:
            raise JobsUnavailableError(f"The database failed: {error}") from error
