"""Admin API: who holds which slot of the workers, by the agents' own account of this moment."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from hotset.control.control import Control
from hotset.control.endpoints import Call, Endpoint, Reply
from hotset.control.explaining import unreached_answers
from hotset.control.residency_answers import (
    CutByteReserveAnswer,
    CutReserveAnswer,
    InventoryAnswer,
    NextAnswer,
    ResidencyAnswer,
    SlotAnswer,
    TenantShareAnswer,
    WarmAnswer,
    WarmVersionAnswer,
    WorkerAnswer,
)
from hotset.core.errors import EngineUnavailableError
from hotset.core.ids import EngineName, TenantId, engine_name, parse_base_name
from hotset.core.quotas import DEFAULT_QUOTA, Quota
from hotset.core.residency_report import (
    InventoryReport,
    ResidencyReport,
    SlotReport,
    TenantReport,
    WarmReport,
    WorkerReport,
)
from hotset.core.snapshot import RoutingSnapshot
from hotset.core.versions import VersionRecord
from hotset.storage.catalogue import Catalogue

_NO_ENGINE = "No engine runs, so there are no slots to show: this needs a running hotset serve or hotset control."


def residency_endpoints(control: Control) -> list[Endpoint]:
    """Return the endpoint that shows the slots."""

    async def show(call: Call) -> Reply:
        name = call.query("base")
        base = None if name is None else (await control.bases.get(parse_base_name(name))).base.name
        if not control.viewers:
            raise EngineUnavailableError(_NO_ENGINE)
        workers = [worker for viewer in control.viewers for worker in viewer.view_residency()]
        shown = [worker for worker in workers if base in (None, worker.base)]
        names = await version_names(control, shown)
        told = [_worker(worker, names, control.commits.snapshot) for worker in shown]
        return Reply(
            ResidencyAnswer(workers=told, unreached=unreached_answers(await control.witness.missing("worker")))
        )

    query = {"base": "string"}
    return [Endpoint("GET", "/residency", "Show who holds which slot", show, ResidencyAnswer, query=query)]


async def version_names(
    control: Control, workers: Iterable[WorkerReport], besides: Iterable[EngineName] = ()
) -> Mapping[EngineName, str]:
    """Return ``owner/name@N`` for each engine name in the reports and besides, from the snapshot if it has them all."""
    wanted = {*besides, *(name for worker in workers for name in _mentioned(worker))}
    serving = control.commits.snapshot.versions
    if wanted <= serving.keys():
        return {name: str(serving[name].ref) for name in wanted}
    return await control.commits.read(_all_version_names)  # a withdrawn one is still on its way out of its slot


def _all_version_names(catalogue: Catalogue) -> Mapping[EngineName, str]:
    routes = ((row.ref, engine_name(row.record.route)) for row in catalogue.versions.all())
    return {name: str(ref) for ref, name in routes if name is not None}


def _mentioned(worker: WorkerReport) -> Iterator[EngineName]:
    for place in (*(worker.residency.slots if worker.residency is not None else ()), *worker.events):
        yield from (name for name in (place.version, place.successor) if name is not None)
    if worker.residency is not None:
        yield from (name for name, _ in worker.residency.warm.largest)
    yield from worker.inventory.loaded if worker.inventory is not None else ()


def _worker(worker: WorkerReport, names: Mapping[EngineName, str], snapshot: RoutingSnapshot) -> WorkerAnswer:
    found, quotas = worker.residency, snapshot.quotas
    return WorkerAnswer(
        worker=worker.worker,
        base=worker.base,
        engine=worker.engine,
        num_slots=worker.num_slots,
        rank_class=worker.rank_class,
        slot_bytes=worker.slot_bytes,
        computes_own_rank=worker.computes_own_rank,
        slots=[] if found is None else [_slot(slot, names, snapshot.versions) for slot in found.slots],
        next=None if found is None else NextAnswer(slot=found.next.slot, leaves=_name(found.next.leaves, names)),
        tenants=[] if found is None else [_tenant(tenant) for tenant in found.tenants],
        warm=None if found is None else _warm(found.warm, names),
        reserves_cut=[] if found is None else list(_cut(found, quotas)),
        byte_reserves_cut=[] if found is None else list(_bytes_cut(found, quotas)),
        inventory=None if worker.inventory is None else _inventory(worker.inventory, names),
    )


def _inventory(found: InventoryReport, names: Mapping[EngineName, str]) -> InventoryAnswer:
    loaded = sorted(names.get(name, name) for name in found.loaded)
    return InventoryAnswer(loaded=loaded, num_running=found.num_running, age_s=found.age_s)


def _warm(warm: WarmReport, names: Mapping[EngineName, str]) -> WarmAnswer:
    largest = [WarmVersionAnswer(version=names.get(name, name), bytes=num_bytes) for name, num_bytes in warm.largest]
    return WarmAnswer(num_versions=warm.num_versions, bytes=warm.num_bytes, bytes_max=warm.bytes_max, largest=largest)


def _cut(found: ResidencyReport, quotas: Mapping[TenantId, Quota]) -> Iterator[CutReserveAnswer]:
    """Yield the reserves that do not fit, beside what the quota says."""
    for tenant in found.tenants:
        if tenant.tenant in found.reserves_cut:
            asked = quotas.get(tenant.tenant, DEFAULT_QUOTA).reserve_slots
            yield CutReserveAnswer(tenant=tenant.tenant, reserve_slots=asked, given=tenant.reserve)


def _bytes_cut(found: ResidencyReport, quotas: Mapping[TenantId, Quota]) -> Iterator[CutByteReserveAnswer]:
    """Yield the byte reserves that do not fit, beside what the quota says."""
    for tenant in found.tenants:
        if tenant.tenant in found.byte_reserves_cut:
            asked = quotas.get(tenant.tenant, DEFAULT_QUOTA).reserve_bytes
            yield CutByteReserveAnswer(tenant=tenant.tenant, reserve_bytes=asked, given=tenant.reserve_bytes)


def _tenant(tenant: TenantReport) -> TenantShareAnswer:
    return TenantShareAnswer.model_validate(msgspec.structs.asdict(tenant))


def _slot(
    slot: SlotReport, names: Mapping[EngineName, str], versions: Mapping[EngineName, VersionRecord]
) -> SlotAnswer:
    told = msgspec.structs.asdict(slot)
    record = None if slot.version is None else versions.get(slot.version)
    told["rank"] = None if record is None else record.manifest.rank_max
    told |= {"version": _name(slot.version, names), "successor": _name(slot.successor, names)}
    return SlotAnswer.model_validate(told)


def _name(name: EngineName | None, names: Mapping[EngineName, str]) -> str | None:
    return None if name is None else names.get(name, name)
