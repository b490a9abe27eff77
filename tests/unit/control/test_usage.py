"""From what workers report, look after look, to what tenants used."""

from hotset.control.usage import SlotMeter
from hotset.core.ids import BaseName, EngineName, TenantId
from hotset.core.residency_report import NextRoom, ResidencyReport, SlotEvent, SlotReport, WarmReport, WorkerReport
from hotset.core.usage import Usage, UsageSums

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
A, B = EngineName("hs-a"), EngineName("hs-b")
ADAPTERS = {A: "acme/a", B: "acme/b"}


def adapter_of(name: EngineName) -> str:
    return ADAPTERS.get(name, "")


def worker(*slots: SlotReport, events: tuple[SlotEvent, ...] = ()) -> WorkerReport:
    residency = ResidencyReport(
        slots=slots,
        next=NextRoom(slot=None),
        tenants=(),
        warm=WarmReport(num_versions=0, num_bytes=0, largest=()),
        reserves_cut=(),
    )
    return WorkerReport(base=BaseName("smol"), engine="e", num_slots=len(slots), residency=residency, events=events)


def slot(version: EngineName | None, account: TenantId | None, successor: EngineName | None = None) -> SlotReport:
    return SlotReport(index=0, state="hot", version=version, account=account, successor=successor)


def load(number: int, version: EngineName = A, tenant: TenantId = ACME, seconds: float = 0.5) -> SlotEvent:
    return SlotEvent(kind="loaded", version=version, tenant=tenant, number=number, tier="cold", seconds=seconds)


def told(usages: list[Usage]) -> dict[tuple[str, str], tuple[int, float, float]]:
    return {(each.tenant, each.adapter): (each.loads, each.load_seconds, each.slot_seconds) for each in usages}


def test_a_slot_is_charged_for_the_time_between_two_looks_and_for_what_comes_next() -> None:
    meter = SlotMeter()
    held = [worker(slot(A, ACME), slot(A, GLOBEX, successor=B), slot(None, None))]
    assert told(meter.look(held, adapter_of, 100.0)) == {
        ("acme", "acme/a"): (0, 0.0, 0.0),
        ("globex", "acme/b"): (0, 0.0, 0.0),
    }
    assert told(meter.look(held, adapter_of, 110.0)) == {
        ("acme", "acme/a"): (0, 0.0, 10.0),
        ("globex", "acme/b"): (0, 0.0, 10.0),
    }
    assert told(meter.look(held, adapter_of, 10_000.0))["acme", "acme/a"] == (0, 0.0, 60.0)
    assert meter.look([WorkerReport(base=BaseName("smol"))], adapter_of, 10_010.0) == []


def test_each_load_counts_once_and_anew_after_the_engine_started_again() -> None:
    meter = SlotMeter()
    evicted = SlotEvent(kind="evicted", version=A, tenant=ACME, number=2)
    assert told(meter.look([worker(events=(load(1), evicted, load(3)))], adapter_of, 0.0)) == {
        ("acme", "acme/a"): (2, 1.0, 0.0)
    }
    assert meter.look([worker(events=(load(1), evicted, load(3)))], adapter_of, 1.0) == []
    assert told(meter.look([worker(events=(load(3), load(4, B, GLOBEX)))], adapter_of, 2.0)) == {
        ("globex", "acme/b"): (1, 0.5, 0.0)
    }
    assert told(meter.look([worker(events=(load(1),))], adapter_of, 3.0)) == {("acme", "acme/a"): (1, 0.5, 0.0)}


def test_what_is_put_back_is_counted_once_more() -> None:
    sums = UsageSums()
    sums.of(ACME, "acme/a").requests += 2
    taken = sums.take()
    assert sums.take() == []
    sums.of(ACME, "acme/a").prompt_tokens += 5
    sums.put_back(taken)
    assert sums.take() == [Usage(tenant=ACME, adapter="acme/a", requests=2, prompt_tokens=5)]
