"""What an agent shows of its engine's slots: to the person on call whole, to the metrics as bytes by tier and rank."""

from collections.abc import Iterator, Mapping

from hotset.core.ids import BaseName, EngineName
from hotset.core.residency_report import WorkerReport
from hotset.core.versions import VersionRecord
from hotset.residency.report import report
from hotset.worker.engine_life import EngineLife


def view_worker(base: BaseName, life: EngineLife | None, now_s: float) -> WorkerReport:
    """Return the report of one worker.

    Args:
        base: What it serves.
        life: Of its present engine; None while none serves.
        now_s: Monotonic seconds.
    """
    if life is None:
        return WorkerReport(base=base)
    facts = life.facts
    found = report(life.residency, now_s, wanting=life.num_wanting())
    return WorkerReport(base=base, engine=facts.engine, num_slots=facts.num_slots, residency=found)


def resident_bytes(
    life: EngineLife | None, records: Mapping[EngineName, VersionRecord]
) -> Iterator[tuple[str, int | None, int]]:
    """Yield tier, rank and bytes of each version in a slot or in the local store; a rank is None where it is not known.

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
            yield "hot", rank(slot.name), slot.slot_bytes
    for name, num_bytes in state.warm.items():
        yield "warm", rank(name), num_bytes
