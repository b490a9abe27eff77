"""What the admin API shows of pools and workers: rows and what was heard turned into answers, within one read."""

from collections import Counter
from collections.abc import Iterable, Mapping

from hotset.control.fleet_answers import FleetWorkerAnswer, PoolAnswer
from hotset.control.views import base_names
from hotset.core.fleet import DEFAULT_POOL, Heartbeat
from hotset.core.ids import BaseName, Digest, PoolName, WorkerId
from hotset.routing.pick import Sight
from hotset.routing.reserves import ReserveGap
from hotset.storage.catalogue import Catalogue
from hotset.storage.rows import PoolRow, WorkerRow


def pool_answers(catalogue: Catalogue, gaps: Iterable[ReserveGap]) -> list[PoolAnswer]:
    """Show every pool: the default one of each base, then those that were added, by name."""
    workers, tenants, told = catalogue.workers.all(), catalogue.pools.tenants(), list(gaps)
    names = base_names(catalogue)
    defaults = [PoolRow(DEFAULT_POOL, digest, "shared", None, None, 0.0) for digest in names]
    return [
        PoolAnswer(
            pool=row.pool,
            base=names[row.base],
            kind=row.kind,
            rank_class=row.rank_class,
            release_schedule=row.release_schedule,
            tenants=None if row.pool == DEFAULT_POOL else [t for (t, _), pool in tenants.items() if pool == row.pool],
            workers=_within(workers, row.base, row.pool),
            warnings=[gap.message for gap in told if (gap.base, gap.pool) == (row.base, row.pool)],
        )
        for row in (*defaults, *catalogue.pools.all())
    ]


def worker_answers(catalogue: Catalogue, sights: Mapping[WorkerId, Sight]) -> list[FleetWorkerAnswer]:
    """Show every worker, lost ones too, by id."""
    names = base_names(catalogue)
    homes = Counter(worker for workers in catalogue.homes.all().values() for worker in workers)
    return [
        _worker(row, names, homes[row.facts.worker], sights.get(row.facts.worker)) for row in catalogue.workers.all()
    ]


def _worker(row: WorkerRow, names: Mapping[Digest, BaseName], num_homes: int, sight: Sight | None) -> FleetWorkerAnswer:
    facts, beat = row.facts, _present(row, sight)
    return FleetWorkerAnswer(
        worker=facts.worker,
        base=names.get(facts.base, BaseName(facts.base)),
        pool=row.pool,
        state=row.state,
        is_lost=row.is_lost,
        is_ready=beat and beat.is_ready,
        is_leaving=beat and beat.is_leaving,
        engine=facts.engine,
        hardware_class=facts.hardware_class,
        rank_class=facts.rank_class,
        slot_bytes=facts.slot_bytes,
        num_slots=facts.num_slots,
        num_free_slots=beat and beat.num_free_slots,
        num_resident=beat and len(beat.resident),
        num_homes=num_homes,
        num_running=beat and beat.num_running,
        num_waiting=beat and beat.num_waiting,
        oldest_wait_s=beat and beat.oldest_wait_s,
        heard_ago_s=None if beat is None or sight is None else sight.age_s,
        fence=row.fence,
        snapshot_epoch=beat and beat.snapshot_epoch,
        address=facts.address,
    )


def _present(row: WorkerRow, sight: Sight | None) -> Heartbeat | None:
    """Return what the agent that serves under the worker's identity said last; none while it only registered."""
    if sight is None or sight.heartbeat.fence != row.fence or sight.heartbeat.number == 0 or row.is_lost:
        return None
    return sight.heartbeat


def _within(workers: Iterable[WorkerRow], base: Digest, pool: PoolName) -> list[str]:
    return [row.facts.worker for row in workers if (row.facts.base, row.pool) == (base, pool)]
