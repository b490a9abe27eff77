"""What commands speak to: the admin API, wherever it is.

A server elsewhere (``HOTSET_URL``), the one that runs over this state folder (its Unix socket), or none: then the
folder is opened under its lock for the length of the command. The calls are the same.
"""

import contextlib
import json
import socket
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import httpx

from hotset.cli.local_control import LocalControl
from hotset.cli.settings import Settings
from hotset.core.clock import Clock
from hotset.core.errors import (
    HotsetError,
    InvalidNameError,
    InvalidRequestError,
    ServerUnreachableError,
    StateLockedError,
    VersionRefusedError,
    leaf_errors,
)
from hotset.storage.folder import open_artifact
from hotset.storage.state_folder import StateFolder

PREFIX = "/admin/v1"
NDJSON = "application/x-ndjson"
_CONNECT_TIMEOUT_S = 5.0
_ANSWER_TIMEOUT_S = 600.0
#: A server that starts holds the lock a little before it listens.
_LOCK_WAIT_S = 5.0
_LOCK_RETRY_S = 0.05

OnProgress = Callable[[dict[str, Any]], None]
_LEAVES: dict[str, type[HotsetError]] = {leaf.code: leaf for leaf in leaf_errors()}


class AdminClient:
    """Calls of the admin API; errors come back as those of the error tree."""

    def __init__(self, http: httpx.Client, *, is_local: bool) -> None:
        self._http = http
        #: Whether the other end may read folders of this machine itself.
        self.is_local = is_local

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """Read; a query value of None is left out."""
        return self.call("GET", path, query={name: value for name, value in query.items() if value is not None})

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Act; a body value of None is left out."""
        return self.call("POST", path, body=_given(body))

    def delete(self, path: str, **query: Any) -> dict[str, Any]:
        """Remove."""
        return self.call("DELETE", path, query=query)

    def call(
        self, method: str, path: str, *, body: Mapping[str, Any] | None = None, query: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Make one call and return its answer, empty where there is none.

        Raises:
            HotsetError: what the server answered, or `ServerUnreachableError`.
        """
        with _reachable():
            response = self._http.request(method, PREFIX + path, json=body, params=query)
        if not response.is_success:
            raise error_of(response.content)
        return _answer_of(response.content) if response.content else {}

    def long(self, path: str, body: Mapping[str, Any] | None, on_progress: OnProgress) -> dict[str, Any]:
        """Do long work, hearing of its progress; return its result.

        Raises:
            HotsetError: what the server answered, or `ServerUnreachableError`.
        """
        with (
            _reachable(),
            self._http.stream("POST", PREFIX + path, json=_given(body), headers={"Accept": NDJSON}) as response,
        ):
            if not response.is_success:
                raise error_of(response.read())
            for line in response.iter_lines():
                event = json.loads(line)
                if event["event"] == "progress":
                    on_progress(event)
                elif event["event"] == "error":
                    raise error_of(json.dumps(event["problem"]).encode())
                else:
                    return event["result"] or {}
        raise ServerUnreachableError("The server went away while it worked; look with `hotset adapter list`.")

    @contextlib.contextmanager
    def submitted(self, folder: Path, on_progress: OnProgress) -> Generator[dict[str, Any], None, None]:
        """Give the part of a submission that says where the adapter's files are: the folder itself, or an upload.

        Links are never followed on either way.

        Raises:
            VersionRefusedError: the folder can't be read, or holds a link.
        """
        if self.is_local:
            yield {"folder": str(folder.absolute())}
            return
        with open_artifact(folder) as artifact:
            upload = self.post("/uploads", {})["upload"]
            total, done = sum(view.nbytes for view in artifact.files.values()), 0
            for name, view in artifact.files.items():
                with _reachable():
                    response = self._http.put(f"{PREFIX}/uploads/{upload}/{name}", content=bytes(view))
                if not response.is_success:
                    raise error_of(response.content)
                done += view.nbytes
                on_progress({"phase": "upload", "done": done, "total": total, "unit": "bytes", "subject": name})
            ignored = list(artifact.ignored)
        try:
            yield {"upload": upload, "ignored": ignored}
        finally:
            with contextlib.suppress(HotsetError):  # used up by a publication, or the server is gone: both are fine
                self.delete(f"/uploads/{upload}")


@contextlib.contextmanager
def open_client(settings: Settings, clock: Clock, on_first_token: Callable[[str], None]) -> Generator[AdminClient]:
    """Give a client of the installation that the settings name.

    Args:
        settings: Which state folder, or which server elsewhere.
        clock: Bounds the wait for the folder's lock.
        on_first_token: Told the first admin token, the one time there is one.

    Raises:
        StateLockedError: another command holds the state folder.
    """
    if settings.remote is not None:
        headers = {"Authorization": f"Bearer {settings.remote.token}"}
        with httpx.Client(base_url=settings.remote.url, headers=headers, timeout=_timeout()) as http:
            yield AdminClient(http, is_local=False)
        return
    deadline_s = clock.monotonic_s() + _LOCK_WAIT_S
    path = StateFolder(settings.home).admin_socket
    while not is_listening(path):
        local = LocalControl(settings, clock)
        try:
            entered = local.__enter__()
        except StateLockedError:
            if clock.monotonic_s() > deadline_s:
                raise
            time.sleep(_LOCK_RETRY_S)
            continue
        with contextlib.ExitStack() as stack:
            stack.push(entered)
            if entered.first_token is not None:
                on_first_token(entered.first_token)
            yield stack.enter_context(unix_client(entered.socket))
        return
    with unix_client(path) as client:
        yield client


@contextlib.contextmanager
def unix_client(path: Path) -> Generator[AdminClient]:
    """Give a client of the API on a Unix socket."""
    transport = httpx.HTTPTransport(uds=str(path))
    with httpx.Client(base_url="http://hotset", transport=transport, timeout=_timeout(), trust_env=False) as http:
        yield AdminClient(http, is_local=True)


def is_listening(path: Path) -> bool:
    """Whether somebody answers on a Unix socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def error_of(content: bytes) -> HotsetError:
    """Return a problem body (RFC 9457) as the error it stands for."""
    try:
        problem = json.loads(content)
        code, detail, param = problem["code"], problem["detail"], problem.get("param")
    except (ValueError, KeyError, TypeError):
        return ServerUnreachableError("What answered is not Hotset's operator plane; check HOTSET_URL.")
    if code == VersionRefusedError.code:
        return VersionRefusedError(problem.get("reason", code), detail, subject=param)
    kind = InvalidRequestError if code == InvalidNameError.code else _LEAVES.get(code, HotsetError)
    error = kind(detail)
    error.param = param
    return error


def _answer_of(content: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(content)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise error_of(b"")  # some other server, which says yes to everything
    return answer


@contextlib.contextmanager
def _reachable() -> Generator[None]:
    try:
        yield
    except httpx.TransportError as error:
        raise ServerUnreachableError(f"The server can't be reached: {error}.") from error


def _given(body: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (body or {}).items() if value is not None}


def _timeout() -> httpx.Timeout:
    return httpx.Timeout(_ANSWER_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S)
