"""The sweep before an engine serves: on a real engine it measures, leaves nothing behind, and is kept."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hotset.core.clock import SystemClock
from hotset.core.errors import LoadFailedError
from hotset.core.ids import BaseName
from hotset.core.messages import AdapterLoad, LoadReport
from hotset.engines.fake.server.launch import served_settings
from hotset.engines.fake.server.options import ServerOptions
from hotset.engines.hosted import HostedEngine
from hotset.engines.port import Engine
from hotset.engines.served.engine import ServedEngine
from hotset.engines.wire import EngineSpec
from hotset.storage.base_files import read_base_folder
from hotset.worker.sweep import Sweep
from tests.support.bases import make_tiny_base


class RefusingEngine(HostedEngine):
    """Takes no adapter."""

    async def load(self, load: AdapterLoad) -> LoadReport:
        raise LoadFailedError(f"{load.engine_name} is not welcome")


def engine_of(folder: Path, kind: type[HostedEngine] = HostedEngine) -> HostedEngine:
    base = read_base_folder(folder, BaseName("tiny"), ())
    spec = EngineSpec(
        kind="embedded", base=base, base_folder=str(folder), num_slots=3, rank_max=8, num_sequences_max=4, num_threads=1
    )
    return kind(spec)


def served_engine(folder: Path) -> Engine:
    digest = read_base_folder(folder, BaseName("tiny"), ()).digest
    return ServedEngine(served_settings(ServerOptions(base=digest, max_loras=3, max_lora_rank=8, speed=50.0)))


@pytest.mark.parametrize("make_engine", [engine_of, served_engine])
def test_a_real_engine_is_measured_once_and_holds_nothing_afterwards(
    tmp_path: Path, make_engine: Callable[[Path], Engine]
) -> None:
    folder = tmp_path / "base"
    make_tiny_base(folder)
    base = read_base_folder(folder, BaseName("tiny"), ())
    sweep = Sweep(base, tmp_path / "sweeps", SystemClock(), seconds_max=0.3)

    async def story() -> None:
        engine = make_engine(folder)
        facts = await engine.start()
        rates = await sweep.rates(engine, facts)
        assert list(rates) == [1, 2, 3]
        assert all(rate > 0 for rate in rates.values())
        inventory = await engine.inventory()
        assert (inventory.loaded, inventory.running) == ((), ())
        await engine.stop()
        (kept,) = (tmp_path / "sweeps").iterdir()
        assert {int(number): rate for number, rate in json.loads(kept.read_text()).items()} == rates
        assert await sweep.rates(engine, facts) == rates  # the engine is gone: nothing is measured again

    asyncio.run(story())


def test_what_was_kept_and_can_not_be_read_is_measured_anew(tmp_path: Path) -> None:
    folder = tmp_path / "base"
    make_tiny_base(folder)
    base = read_base_folder(folder, BaseName("tiny"), ())
    sweep = Sweep(base, tmp_path / "sweeps", SystemClock(), seconds_max=0.1)

    async def story() -> None:
        engine = served_engine(folder)
        facts = await engine.start()
        await sweep.rates(engine, facts)
        (kept,) = (tmp_path / "sweeps").iterdir()
        kept.write_bytes(kept.read_bytes()[:5])
        rates = await sweep.rates(engine, facts)
        assert {int(number): rate for number, rate in json.loads(kept.read_text()).items()} == rates
        await engine.stop()

    asyncio.run(story())


def test_an_engine_that_takes_no_such_adapter_is_not_measured(tmp_path: Path) -> None:
    folder = tmp_path / "base"
    make_tiny_base(folder)
    base = read_base_folder(folder, BaseName("tiny"), ())
    sweep = Sweep(base, tmp_path / "sweeps", SystemClock(), seconds_max=0.3)

    async def story() -> None:
        engine = engine_of(folder, RefusingEngine)
        facts = await engine.start()
        with pytest.raises(LoadFailedError):
            await sweep.rates(engine, facts)
        await engine.stop()
        assert list((tmp_path / "sweeps").iterdir()) == []

    asyncio.run(story())
