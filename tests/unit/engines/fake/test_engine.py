"""The fake engine as a `StepEngine`: its times by the clock, its slots, its files."""

import hashlib
from pathlib import Path

import msgspec
import pytest

from hotset.core.errors import LoadFailedError
from hotset.core.ids import Digest
from hotset.core.messages import Delta, Failed
from hotset.engines.fake.profiles import PROFILES, ProfileName
from tests.support.fake_clock import FakeClock
from tests.support.fake_engines import ask, fake_engine, load_of

PLAIN = PROFILES["plain"].timing


def test_a_step_lasts_as_long_as_its_profile_says() -> None:
    clock = FakeClock()
    engine = fake_engine(clock)
    engine.add(ask("r"))
    began_s = clock.monotonic_s()
    engine.step()
    assert clock.monotonic_s() - began_s == pytest.approx(
        PLAIN.of_step(num_sequences=1, num_adapters=0, num_prompt_tokens=4)
    )


def test_a_faster_one_is_faster_in_everything() -> None:
    took_s = {}
    for speed in (1.0, 10.0):
        clock = FakeClock()
        engine = fake_engine(clock, speed=speed)
        began_s = clock.monotonic_s()
        engine.place(engine.stage(load_of("a")))
        engine.add(ask("r", load_of("a").engine_name))
        engine.step()
        took_s[speed] = clock.monotonic_s() - began_s
    assert took_s[1.0] == pytest.approx(10 * took_s[10.0])


@pytest.mark.parametrize(("profile", "stalls_to_read"), [("plain", False), ("vllm", True), ("sglang", True)])
def test_reading_stops_the_loop_where_the_real_engine_reads_on_it(
    tmp_path: Path, profile: ProfileName, *, stalls_to_read: bool
) -> None:
    (tmp_path / "f").write_bytes(b"1" * (2 << 20))
    clock = FakeClock()
    engine = fake_engine(clock, profile)
    load = msgspec.structs.replace(load_of("a"), folder=str(tmp_path), files={"f": Digest("sha256:" + "0" * 64)})
    with pytest.raises(LoadFailedError, match="digest"):
        engine.stage(load)
    load = msgspec.structs.replace(load, files={"f": _digest(tmp_path / "f")})
    report = engine.place(engine.stage(load))
    timing = PROFILES[profile].timing
    tier = "disk" if stalls_to_read else "host"
    assert report.stall_seconds == pytest.approx(timing.of_load(2 << 20, tier))
    assert report.seconds == pytest.approx(timing.of_load(2 << 20, "disk"))
    assert report.slot_bytes == 2 << 20


def _digest(path: Path) -> Digest:
    return Digest("sha256:" + hashlib.sha256(path.read_bytes()).hexdigest())


def test_slots_are_bounded_and_those_in_use_kept() -> None:
    engine = fake_engine(FakeClock(), num_slots=1)
    a, b = load_of("a"), load_of("b")
    engine.place(engine.stage(a))
    engine.place(engine.stage(a))
    with pytest.raises(LoadFailedError, match="no free slot"):
        engine.place(engine.stage(b))
    engine.add(ask("r", a.engine_name, max_tokens=1))
    with pytest.raises(LoadFailedError, match="in use"):
        engine.unload(a.engine_name)
    engine.step()
    engine.unload(a.engine_name)
    engine.unload(a.engine_name)
    engine.place(engine.stage(b))
    assert engine.inventory().loaded == (b.engine_name,)
    (refused,) = engine.add(ask("s", a.engine_name))
    assert isinstance(refused, Failed)


def test_base_traffic_takes_no_usable_slot() -> None:
    engine = fake_engine(FakeClock(), "sglang", num_slots=1)
    a = load_of("a")
    engine.place(engine.stage(a))
    engine.add(ask("r", max_tokens=1))
    engine.add(ask("s", a.engine_name, max_tokens=1))
    assert len([event for event in engine.step() if isinstance(event, Delta)]) == 2
    assert engine.inventory().loaded == (a.engine_name,)
    assert engine.facts.num_slots == 1


def test_a_rank_above_the_slots_own_does_not_fit() -> None:
    engine = fake_engine(FakeClock())
    with pytest.raises(LoadFailedError, match="rank 65"):
        engine.stage(load_of("a", rank=65))
