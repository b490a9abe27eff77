"""The doors to jobs that are there: ``/v1/jobs/{id}`` for all, ``/v1/responses/{id}`` for background responses.

Every look-up is by tenant and id together, so another tenant's job and one that never was end in the same 404 (I2).
A key that is bound to some aliases sees the jobs of these alone.
"""

import re
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from hotset.core.errors import JobNotFoundError, JobsUnavailableError, MethodNotAllowedError, UnsupportedParameterError
from hotset.core.snapshot import KeyEntry
from hotset.gateway.endpoints import RESPONSES
from hotset.gateway.jobs.book import JobBook, KeptJob
from hotset.gateway.jobs.showing import POLL_AFTER, is_unended, job_json, response_json
from hotset.gateway.outlet import HeaderList
from hotset.gateway.plane import Plane
from hotset.routing.resolve import alias_of
from hotset.storage.rows import JobRow

JOBS = "/v1/jobs/"
_RESPONSES = RESPONSES.path + "/"
_CANCEL = "/cancel"
_ID_CHARS_MAX = 64
#: An id has no slash, so nothing below or beside these pages is one of them.
_PATHS = re.compile(rf"{JOBS}[^/]+|{_RESPONSES}[^/]+(?:{_CANCEL})?")

JobPage = tuple[int, bytes, HeaderList]


class JobPages:
    """Answers requests for one job."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._response_methods = {"GET": self._show_response, "DELETE": self._delete_response}

    @staticmethod
    def covers(path: str) -> bool:
        """Whether these pages answer this path."""
        return _PATHS.fullmatch(path) is not None

    @staticmethod
    def allowed(path: str) -> bytes:
        """Return the methods that a path takes, as ``Allow`` names them."""
        return b"POST" if path.endswith(_CANCEL) and path.startswith(_RESPONSES) else b"GET, DELETE"

    async def page(self, method: str, path: str, query: bytes, key: KeyEntry) -> JobPage:
        """Return one answer.

        Raises:
            UnsupportedParameterError: a stream is asked for.
            JobNotFoundError: there is no such job for this key.
            MethodNotAllowedError: the path does not take the method.
            JobsUnavailableError: the database failed, or no jobs are kept.
        """
        methods: Mapping[str, Callable[[KeyEntry, str], Awaitable[JobPage]]]
        if path.startswith(JOBS):
            job, methods = path[len(JOBS) :], {"GET": self._show, "DELETE": self._delete}
        elif path.endswith(_CANCEL):
            job, methods = path[len(_RESPONSES) : -len(_CANCEL)], {"POST": self._cancel_response}
        else:
            job, methods = path[len(_RESPONSES) :], self._response_methods
        act = methods.get(method)
        if act is None:
            raise MethodNotAllowedError
        if b"stream=true" in query.lower():
            raise UnsupportedParameterError("A background response is not streamed here: retrieve it.", param="stream")
        return await act(key, job)

    async def _show(self, key: KeyEntry, job: str) -> JobPage:
        kept = await self._find(key, job)
        return 200, job_json(kept), [POLL_AFTER] if is_unended(kept) else []

    async def _delete(self, key: KeyEntry, job: str) -> JobPage:
        row = await self._remove(key, job)
        return 200, _deleted(row.job, "job"), []

    async def _show_response(self, key: KeyEntry, job: str) -> JobPage:
        kept = await self._find(key, job, only=RESPONSES.name)
        return 200, response_json(kept), [POLL_AFTER] if is_unended(kept) else []

    async def _delete_response(self, key: KeyEntry, job: str) -> JobPage:
        row = await self._remove(key, job, only=RESPONSES.name)
        return 200, _deleted(row.job, "response"), []

    async def _cancel_response(self, key: KeyEntry, job: str) -> JobPage:
        await self._peek(key, job, RESPONSES.name)
        return 200, response_json(await self._book.cancel(key.tenant, job)), []

    async def _find(self, key: KeyEntry, job: str, *, only: str | None = None) -> KeptJob:
        kept = await self._book.find(key.tenant, job[:_ID_CHARS_MAX])
        _check_scope(kept.row, key, only)
        return kept

    async def _remove(self, key: KeyEntry, job: str, *, only: str | None = None) -> JobRow:
        await self._peek(key, job, only)
        return await self._book.delete(key.tenant, job)

    async def _peek(self, key: KeyEntry, job: str, only: str | None) -> None:
        _check_scope(await self._book.peek(key.tenant, job[:_ID_CHARS_MAX]), key, only)

    @property
    def _book(self) -> JobBook:
        if self._plane.jobs is None:
            raise JobsUnavailableError
        return self._plane.jobs


def _check_scope(row: JobRow, key: KeyEntry, only: str | None) -> None:
    is_other = only is not None and row.endpoint != only
    if is_other or (key.aliases is not None and alias_of(row.model) not in key.aliases):
        raise JobNotFoundError


def _deleted(job: str, kind: str) -> bytes:
    return msgspec.json.encode({"id": job, "object": kind, "deleted": True})
