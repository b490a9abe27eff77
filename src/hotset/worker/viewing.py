"""What an agent shows of its engine's slots: to the person on call whole, to the metrics as bytes by tier and rank."""

from collections.abc import Iterator, Mapping

from hotset.core.fleet import DEFAULT_POOL
from hotset.core.ids import BaseName, EngineName, WorkerId
from hotset.core.residency_report import WorkerReport
from hotset.core.versions import VersionRecord
from hotset.residency.report import report
from hotset.worker.engine_life import EngineLife


def view_worker(
    base: BaseName,
    life: EngineLife | None,
    now_s: float,
    worker: WorkerId | None = None,
) -> WorkerReport:
    """Return the report of one worker.

    Args:
        base: What it serves.
        life: Of its present engine; None while none serves.
        now_s: Monotonic seconds.
        worker: Who it is in a fleet.
    """
    if life is None:
        return WorkerReport(base=base, worker=worker)
    facts = life.facts
    num_running = life.num_running()
    return WorkerReport(
        base=base,
        worker=worker,
        engine=facts.engine,
        num_slots=facts.num_slots,
        rank_class=facts.rank_max,
        slot_bytes=facts.slot_bytes,
        computes_own_rank=facts.computes_own_rank,
        residency=report(life.residency, now_s, wanting=life.num_wanting()),
        num_running=num_running,
        num_waiting=life.num_leases() - num_running,
        num_places=life.num_places,
        events=life.observer.events(),
        inventory=life.stocktaking.report(),
    )


def waits(life: EngineLife | None, records: Mapping[EngineName, VersionRecord]) -> Iterator[tuple[str, str, float]]:
    """Yield lane, version (empty for a base) and seconds so far of each request that waits."""
    if life is None:
        return
    for name, lane, age_s in life.observer.waits():
        yield lane, "" if name is None else _shown(name, records), age_s


def places(base: BaseName, life: EngineLife | None) -> Iterator[tuple[str, str, int, int]]:
    """Yield the base, the pool, requests that run or wait, and places in the engine."""
    if life is not None:
        yield base, DEFAULT_POOL, life.num_leases(), life.num_places


def slot_bytes(life: EngineLife | None) -> Iterator[tuple[int, int]]:
    """Yield the highest rank that the engine's slots take, and what they take together, where it says so."""
    if life is not None and life.facts.slot_bytes:
        yield life.facts.rank_max, life.facts.slot_bytes * life.facts.num_slots


def _shown(name: EngineName, records: Mapping[EngineName, VersionRecord]) -> str:
    record = records.get(name)
    return name if record is None else str(record.ref)


def resident_bytes(
    life: EngineLife | None, records: Mapping[EngineName, VersionRecord]
) -> Iterator[tuple[str, str, int | None, int]]:
    """Yield tier, version, rank (None where it is not known) and bytes of each version in a slot or in the local store.

    What is in a slot is in the local store as well, and counts in each tier.
    """
    if life is None:
        return

    def rank(name: EngineName) -> int | None:
        record = records.get(name)
        return None if record is None else record.manifest.rank_max

    state = life.residency.state
    for slot in state.slots:
        if slot.name is not None:
            yield "hot", _shown(slot.name, records), rank(slot.name), slot.slot_bytes
    for name, num_bytes in state.warm.items():
        yield "warm", _shown(name, records), rank(name), num_bytes
