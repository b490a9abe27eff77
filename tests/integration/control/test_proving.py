"""Proving on real engine processes: the instant one, and the embedded one with a tiny model."""

from pathlib import Path
from typing import Literal

import pytest

from hotset.control.prover import EngineProver
from hotset.core.base import BaseVersion
from hotset.engines.hosted import HostedEngine
from hotset.engines.wire import EngineSpec
from tests.support.installation import Installation, installation, run, version_path


def prover(kind: Literal["embedded", "instant"]) -> EngineProver:
    def make(base: BaseVersion, folder: Path) -> HostedEngine:
        spec = EngineSpec(
            kind=kind,
            base=base,
            base_folder=str(folder),
            num_slots=1,
            rank_max=16,
            dtype="float32",
            kv_bytes_max=8 << 20,
            num_threads=1,
        )
        return HostedEngine(spec, start_timeout_s=180)

    return EngineProver(make, timeout_s=200)


async def pushed(inst: Installation, kind: Literal["embedded", "instant"]) -> None:
    inst.control.proving._prover = prover(kind)
    await inst.add_base()
    await inst.ok("POST", "/tenants", {"tenant": "acme"})
    await inst.push("acme/support", inst.adapter())


@pytest.mark.parametrize("kind", ["instant", "embedded"])
def test_a_sound_version_is_proved(tmp_path: Path, kind: Literal["embedded", "instant"]) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await pushed(inst, kind)
            proved = await inst.step("acme/support@1", "prove")
            assert proved["state"] == "proved"
            fingerprint = proved["proofs"][0]["fingerprint"]
            assert proved["proofs"][0]["engine"].startswith(kind)
            assert fingerprint["distance"] > 3 * fingerprint["noise"]
            assert list(inst.folder.staging.glob("scratch-*")) == []

    run(story())


def test_a_base_that_changed_on_disk_starts_no_engine(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await pushed(inst, "embedded")
            weights = tmp_path / "tiny" / "model.safetensors"
            content = bytearray(weights.read_bytes())
            content[-1] ^= 1
            weights.write_bytes(content)
            answer = await inst.call("POST", f"{version_path('acme/support@1')}/prove", {})
            assert answer.status_code in (422, 503), answer.text
            assert (await inst.ok("GET", version_path("acme/support@1")))["state"] == "verified"

    run(story())
