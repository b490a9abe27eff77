"""A version that makes NaN and got past verify, on the real engine: found before it serves anybody, and quarantined."""

import asyncio
import logging
import time
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec
import numpy as np
import pytest

from hotset.control.actors import LOCAL_ADMIN
from hotset.control.commits import Change
from hotset.core.ids import AdapterId, TenantId, VersionRef
from hotset.core.versions import FileEntry
from hotset.engines.settings import EngineSettings
from hotset.registry.approval import sign_approval
from hotset.registry.digests import version_digest
from tests.support.adapters import Tensors, make_adapter, tiny_base_shape
from tests.support.live_server import LiveServer, live_server

_log = logging.getLogger(__name__)
ADAPTER = AdapterId(TenantId("acme"), "bad")
BAD = VersionRef(ADAPTER, 2)
#: Of the adapter that `live_server` makes first.
TARGETS = ("q_proj", "k_proj", "o_proj", "gate_proj", "down_proj")
WEIGHTS = "adapter_model.safetensors"


def _spoil(tensors: Tensors) -> None:
    for values in tensors.values():
        values[:] = np.float32(1e30)  # finite by themselves, as the engine checks too; their product is not


async def plant(live: LiveServer, root: Path) -> None:
    """Put weights that make NaN under the next number of an adapter, signed, as no publisher could."""
    control = live.server.control
    make_adapter(root / "spoiled", tiny_base_shape(), rank=4, targets=TARGETS, edit=_spoil)
    digest, size = control.blobs.ingest(root / "spoiled" / WEIGHTS)

    def act(change: Change) -> None:
        good = change.catalogue.versions.get(VersionRef(ADAPTER, 1))
        assert good is not None
        kept = [entry for entry in good.manifest.files if entry.name != WEIGHTS]
        files = tuple(sorted([*kept, FileEntry(name=WEIGHTS, digest=digest, size_bytes=size)], key=lambda e: e.name))
        manifest = msgspec.structs.replace(good.manifest, files=files)
        row = replace(good, ref=BAD, digest=version_digest(good.base, files), manifest=manifest, approval=None)
        versions, told = change.catalogue.versions, {"actor": "test", "now_s": 1.0}
        versions.add(BAD, row.base, row.digest, manifest, publisher="test", now_s=1.0)
        versions.enter_state(BAD, "approved", **told)  # pyright: ignore[reportArgumentType]
        approval = sign_approval(live.server.folder.reviewer_private_key(), row.record)
        change.catalogue.trust.add_approval(BAD, approval, reviewer="test", now_s=1.0)
        change.audit("test.plant", BAD)

    await control.commits.run(LOCAL_ADMIN, act)
    await control.approving.promote(LOCAL_ADMIN, BAD)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_makes_nan_and_got_past_verify_is_found_and_quarantined(tmp_path: Path) -> None:
    async def story() -> None:
        engine = EngineSettings(kind="embedded", dtype="float32", num_slots=2, num_threads=1, kv_bytes_max=1 << 22)
        async with live_server(tmp_path, {"acme": ("bad", "good")}, engine) as live:
            await plant(live, tmp_path)
            headers = {"authorization": f"Bearer {live.tokens['acme']}"}
            async with httpx.AsyncClient(base_url=live.addresses.tenant_url, headers=headers, timeout=120) as client:

                async def ask(model: str) -> httpx.Response:
                    body = {"model": model, "prompt": "one two", "max_tokens": 4, "temperature": 0}
                    return await client.post("/v1/completions", json=body)

                before = (await ask("good")).json()["choices"][0]["text"]
                began_s = time.monotonic()
                refused = await ask("bad")
                found_s = time.monotonic() - began_s
                assert refused.status_code == 503
                assert refused.json()["error"]["code"] == "engine_unavailable"
                async with asyncio.timeout(120):
                    while not (row := await live.server.control.approving.get(BAD)).is_quarantined:
                        await asyncio.sleep(0.02)
                _log.warning("refused in %.2f s, quarantined in %.2f s", found_s, time.monotonic() - began_s)
                assert row.state == "active"
                entries = await live.server.control.upkeep.audit_entries(LOCAL_ADMIN, 0, 1000)
                assert [e.actor for e in entries if e.action == "version.quarantine"] == ["watchdog"]
                assert (await ask("bad")).status_code == 404
                assert (await ask("good")).json()["choices"][0]["text"] == before
                assert live.agent.suspicions() == ()

    asyncio.run(story())
