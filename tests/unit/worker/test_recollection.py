"""What an agent remembers of requests."""

from hotset.core.ids import EngineName, RequestId, TenantId, WorkerId
from hotset.core.residency_report import SlotEvent
from hotset.worker import recollection
from hotset.worker.recollection import Recollection
from tests.support.fake_clock import FakeClock

A, B = EngineName("hs-a"), EngineName("hs-b")
R = RequestId("r")


def loaded(version: EngineName = A) -> SlotEvent:
    return SlotEvent(kind="loaded", version=version, tier="warm", seconds=0.25)


def evicted(version: EngineName = A, by: str = "globex") -> SlotEvent:
    return SlotEvent(kind="evicted", version=version, cause="borrow", by=TenantId(by), successor=B)


def test_the_last_eviction_before_and_the_load_that_was_waited_for_are_remembered() -> None:
    clock = FakeClock()
    seen = Recollection(clock, WorkerId("w1"))
    seen.befell(loaded())
    seen.befell(evicted(by="first"))
    seen.befell(evicted())
    seen.befell(evicted(B))
    clock.advance(10.0)
    seen.arrived(R, A, "loading")
    waiting = seen.of(R)
    assert waiting is not None
    assert (waiting.worker, waiting.waited_s, waiting.loaded) == ("w1", None, None)
    clock.advance(0.5)
    seen.befell(loaded())
    seen.settled(R)
    seen.befell(evicted(by="later"))
    clock.advance(1.5)
    told = seen.of(R)
    assert told is not None
    assert (told.age_s, told.waited_s, told.lane, told.code) == (2.0, 0.5, "loading", "")
    assert told.evicted is not None
    assert told.loaded is not None
    assert (told.evicted.by, told.evicted.age_s, told.evicted.successor) == ("globex", 12.0, B)
    assert (told.loaded.tier, told.loaded.age_s) == ("warm", 1.5)


def test_a_hot_request_and_one_of_the_base_name_no_eviction_and_an_old_load_is_not_theirs() -> None:
    seen = Recollection(FakeClock())
    seen.befell(evicted())
    seen.befell(loaded())
    for number, (version, lane) in enumerate(((A, "hot"), (None, "hot"))):
        seen.arrived(RequestId(str(number)), version, lane)  # type: ignore[arg-type]
        seen.settled(RequestId(str(number)))
        told = seen.of(RequestId(str(number)))
        assert told is not None
        assert (told.evicted, told.loaded) == (None, None)


def test_a_refusal_is_remembered_and_strangers_are_not() -> None:
    seen = Recollection(FakeClock())
    seen.arrived(R, A, "loading")
    seen.settled(R)
    seen.refused(R, "slots_full")
    told = seen.of(R)
    assert told is not None
    assert told.code == "slots_full"
    stranger = RequestId("stranger")
    seen.settled(stranger)
    seen.refused(stranger, "internal")
    assert seen.of(stranger) is None


def test_the_oldest_requests_are_forgotten() -> None:
    seen = Recollection(FakeClock())
    most = recollection.REQUESTS_MAX
    for number in range(most + 1):
        seen.arrived(RequestId(str(number)), A, "hot")
    assert seen.of(RequestId("0")) is None
    assert seen.of(RequestId("1")) is not None
