"""From what is seen of an engine's slots, look after look, to what tenants used."""

from dataclasses import dataclass

from hotset.core.ids import EngineName, TenantId
from hotset.core.residency_report import SlotEvent
from hotset.core.usage import Usage, UsageSums
from hotset.worker.metering import SlotMeter

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
A, B = EngineName("hs-a"), EngineName("hs-b")


@dataclass
class Held:
    """A slot as it is charged."""

    name: EngineName | None
    account: TenantId | None
    successor: EngineName | None = None


def load(number: int, version: EngineName = A, tenant: TenantId = ACME, seconds: float = 0.5) -> SlotEvent:
    return SlotEvent(kind="loaded", version=version, tenant=tenant, number=number, tier="cold", seconds=seconds)


def told(usages: list[Usage]) -> dict[tuple[str, str], tuple[int, float, float]]:
    return {(each.tenant, each.adapter): (each.loads, each.load_seconds, each.slot_seconds) for each in usages}


def test_a_slot_is_charged_for_the_time_between_two_looks_and_for_what_comes_next() -> None:
    sums, served = UsageSums(), {A: "acme/a", B: "acme/b"}
    meter = SlotMeter(sums, lambda name: served.get(name, ""))
    held = [Held(A, ACME), Held(A, GLOBEX, successor=B), Held(None, None)]
    meter.look(held, (), 100.0)
    assert {slot_s for _, _, slot_s in told(sums.take()).values()} == {0.0}
    meter.look(held, (), 110.0)
    assert told(sums.take()) == {("acme", "acme/a"): (0, 0.0, 10.0), ("globex", "acme/b"): (0, 0.0, 10.0)}
    served.clear()  # withdrawn, and still on its way out
    meter.look(held, (), 111.0)
    assert ("acme", "acme/a") in told(sums.take())
    meter.look(held, (), 10_000.0)
    assert told(sums.take())["acme", "acme/a"] == (0, 0.0, 60.0)


def test_each_load_counts_once() -> None:
    sums = UsageSums()
    meter = SlotMeter(sums, lambda name: {A: "acme/a", B: "acme/b"}[name])
    evicted = SlotEvent(kind="evicted", version=A, tenant=ACME, number=2)
    meter.look((), (load(1), evicted, load(3)), 0.0)
    assert told(sums.take()) == {("acme", "acme/a"): (2, 1.0, 0.0)}
    meter.look((), (load(1), evicted, load(3)), 1.0)
    assert sums.take() == []
    meter.look((), (load(3), load(4, B, GLOBEX)), 2.0)
    assert told(sums.take()) == {("globex", "acme/b"): (1, 0.5, 0.0)}
