"""A whole operator plane over a real state folder, with a prover that answers from a script and a clock that is set.

Everything else is the real thing: SQLite, blobs, signatures, the ASGI app.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec

from hotset.control.api import build_admin_app
from hotset.control.control import Control, ControlSettings
from hotset.control.progress import Progress, Report
from hotset.control.prover import Proof
from hotset.control.witnesses import OwnProcess
from hotset.core.base import BaseVersion
from hotset.core.errors import HotsetError
from hotset.core.ids import RequestId
from hotset.core.messages import AdapterLoad, EngineFacts
from hotset.core.on_call import RequestEntry
from hotset.core.ports import Withdrawal
from hotset.core.snapshot import RoutingSnapshot
from hotset.registry.fingerprint import Fingerprint
from hotset.storage.staging import UploadLimits
from hotset.storage.state_folder import StateFolder
from tests.support.adapters import make_adapter, tiny_base_shape
from tests.support.bases import make_tiny_base

SHAPE = tiny_base_shape()


@dataclass
class SetClock:
    """A clock that shows what it was set to."""

    now_s: float = 1_000_000.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_s(self) -> float:
        return self.now_s


@dataclass
class ScriptedProver:
    """Proves everything, or fails as told; keeps what it was shown."""

    fails_with: HotsetError | None = None
    distance: float = 2.0
    seen: list[dict[str, bytes]] = field(default_factory=list)
    hold: asyncio.Event | None = None

    async def prove(self, base: BaseVersion, base_folder: Path, load: AdapterLoad, report: Report) -> Proof:
        self.seen.append({name: (Path(load.folder) / name).read_bytes() for name in load.files})
        report(Progress("start_engine", subject=base.name))
        if self.hold is not None:
            await self.hold.wait()
        if self.fails_with is not None:
            raise self.fails_with
        facts = EngineFacts(
            engine="scripted 1",
            base=base.digest,
            dtype="float32",
            hardware_class="none",
            num_slots=1,
            rank_max=64,
            model_len_max=1024,
            num_sequences_max=1,
        )
        fingerprint = Fingerprint(
            text="probe",
            base=(-1.0,),
            version=(-1.0 - self.distance,),
            distance=self.distance,
            noise=0.01,
            engine=facts.engine,
            dtype=facts.dtype,
            hardware_class=facts.hardware_class,
        )
        return Proof(facts, msgspec.json.encode(fingerprint).decode())


@dataclass
class Holder:
    """Keeps every snapshot it was given."""

    applied: list[RoutingSnapshot] = field(default_factory=list)

    def apply(self, snapshot: RoutingSnapshot) -> None:
        self.applied.append(snapshot)

    @property
    def newest(self) -> RoutingSnapshot:
        return self.applied[-1]

    @property
    def cuts(self) -> list[Withdrawal]:
        return [cut.withdrawal for cut in self.newest.cuts]


class Installation:
    """One running operator plane."""

    def __init__(self, root: Path, settings: ControlSettings) -> None:
        self.root = root
        self.folder = StateFolder(root / "state")
        self.clock = SetClock()
        self.prover = ScriptedProver()
        self.holder = Holder()
        self.control = Control(self.folder, self.clock, self.prover, settings)
        self.first_token: str | None = None
        self.local = self._client(is_local=True)
        self.remote = self._client(is_local=False)

    def _client(self, *, is_local: bool) -> httpx.AsyncClient:
        app = build_admin_app(self.control, lambda: "hotset_build_info 1\n", is_local=is_local)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://control")

    async def call(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> httpx.Response:
        """Call the admin API, as the local admin or, with a token, from afar."""
        client = self.local if token is None else self.remote
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return await client.request(method, f"/admin/v1{path}", json=body, headers=headers)

    async def ok(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> Any:
        """Call the admin API and return the answer of a call that must succeed."""
        response = await self.call(method, path, body, token=token)
        assert response.is_success, response.text
        return response.json() if response.content else None

    async def add_base(self) -> Any:
        """Register the tiny base."""
        folder = self.root / "tiny"
        if not folder.exists():
            make_tiny_base(folder)
        return await self.ok("POST", "/bases", {"folder": str(folder), "name": "tiny", "synonyms": ["acme/tiny-llama"]})

    def adapter(self, name: str = "good", **bends: Any) -> Path:
        """Write an adapter folder."""
        return make_adapter(self.root / "adapters" / name, SHAPE, **bends)

    async def upload(self, folder: Path, *, token: str | None = None) -> str:
        """Send a folder's files; return the upload's id."""
        upload = (await self.ok("POST", "/uploads", {}, token=token))["upload"]
        client = self.local if token is None else self.remote
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        for path in files_of(folder):
            url = f"/admin/v1/uploads/{upload}/{path.name}"
            response = await client.put(url, content=path.read_bytes(), headers=headers)
            assert response.status_code == 201, response.text
        return upload

    async def push(self, ref: str, folder: Path, *, token: str | None = None) -> Any:
        """Upload and publish."""
        upload = await self.upload(folder, token=token)
        return await self.ok("POST", f"/adapters/{ref}/versions", {"upload": upload, "base": "tiny"}, token=token)

    async def step(self, ref: str, verb: str, body: Any = None, *, token: str | None = None) -> Any:
        """Do one verb to ``owner/name@N``."""
        return await self.ok("POST", f"{version_path(ref)}/{verb}", body or {}, token=token)

    async def serve(self, ref: str, folder: Path) -> Any:
        """Publish, prove, approve and promote; return the version."""
        version = await self.push(ref, folder)
        for verb in ("prove", "approve", "promote"):
            version = await self.step(version["ref"], verb)
        return version


def files_of(folder: Path) -> list[Path]:
    """Return the folder's files, by name."""
    return sorted(folder.iterdir())


def version_path(ref: str) -> str:
    """Return the API path of ``owner/name@N``."""
    adapter, _, number = ref.rpartition("@")
    return f"/adapters/{adapter}/versions/{number}"


def look_up(request: RequestId) -> tuple[str | None, RequestEntry] | None:
    """Stand in for the request log."""
    return (None, request_entry(request)) if request == "req-1" else None


def request_entry(request: str = "req-1", **parts: Any) -> RequestEntry:
    """One line of a request log, of a request that waited for a load."""
    line = {
        "request_id": request,
        "at": 900.0,
        "tenant": "acme",
        "key": "k",
        "alias": "support",
        "adapter": "acme/a",
        "version": 1,
        "base": "sha256:b",
        "endpoint": "chat",
        "stream": False,
        "lane": "loading",
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "queue_s": 0.5,
        "load_s": 1.0,
        "first_token_s": 2.0,
        "total_s": 5.0,
        "outcome": "completed",
        "code": "",
    }
    return RequestEntry(**{**line, **parts})


@asynccontextmanager
async def installation(
    root: Path, *, one_person: bool = True, uploads: UploadLimits | None = None
) -> AsyncIterator[Installation]:
    """Run an operator plane over ``root/state`` for the length of the block."""
    settings = ControlSettings(one_person=one_person, uploads=uploads or UploadLimits())
    folder = StateFolder(root / "state")
    with folder.locked():
        running = Installation(root, settings)
        running.control.witness = OwnProcess(look_up)
        running.first_token = (await running.control.open()).first_token
        running.control.add_holder(running.holder)
        try:
            yield running
        finally:
            await running.local.aclose()
            await running.remote.aclose()
            await running.control.close()


def run(story: Coroutine[Any, Any, None]) -> None:
    """Run an asynchronous test to its end."""
    asyncio.run(story)


def events_of(response: httpx.Response) -> list[dict[str, Any]]:
    """Return the events of an NDJSON answer."""
    return [json.loads(line) for line in response.text.splitlines()]
