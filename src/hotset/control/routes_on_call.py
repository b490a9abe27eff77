"""Admin API for whoever is on call: explain a request, report usage, show what goes on now."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from hotset.control.control import Control
from hotset.control.endpoints import Call, Endpoint, Reply
from hotset.control.explaining import explained
from hotset.control.on_call_answers import (
    RequestAnswer,
    TopAnswer,
    TopLaneAnswer,
    TopSlotAnswer,
    TopTenantAnswer,
    TopWorkerAnswer,
    UsageAnswer,
    UsageRowAnswer,
)
from hotset.control.routes_residency import version_names
from hotset.core.errors import EngineUnavailableError, NotFoundError
from hotset.core.ids import EngineName, parse_tenant
from hotset.core.residency_report import WorkerReport
from hotset.telemetry.activity import Activity

#: Returns what the request log says of a request id; None where it says nothing.
Explain = Callable[[str], Mapping[str, Any] | None]

_NO_SERVER = "Nothing goes on: this needs a running server (hotset serve)."


def on_call_endpoints(control: Control, explain: Explain | None) -> list[Endpoint]:
    """Return the endpoints; without a request log none is explained."""

    async def show_request(call: Call) -> Reply:
        entry = None if explain is None else explain(call.param("request_id"))
        if entry is None:
            raise NotFoundError("The request log holds no such request.", param="request_id")
        workers = _workers(control)
        names = await version_names(control, workers)
        bases = {digest: base.name for digest, base in control.commits.snapshot.bases.items()}
        return Reply(explained(entry, bases, workers, names, control.commits.now_s()))

    async def usage(call: Call) -> Reply:
        tenant = call.query("tenant")
        now_s = control.commits.now_s()
        since_s = max(0.0, now_s - call.number("last_s", int(now_s)))
        sums = await control.usage.sums(call.actor, since_s, None if tenant is None else parse_tenant(tenant))
        rows = [UsageRowAnswer.model_validate(msgspec.structs.asdict(usage)) for usage in sums]
        return Reply(UsageAnswer(since_s=since_s, until_s=now_s, rows=rows))

    async def top(_call: Call) -> Reply:
        if not control.viewers:
            raise EngineUnavailableError(_NO_SERVER)
        workers = _workers(control)
        names = await version_names(control, workers)
        return Reply(_top(control.activity(), workers, names, control.commits.now_s()))

    usage_query = {"last_s": "integer", "tenant": "string"}
    return [
        Endpoint("GET", "/requests/{request_id}", "Explain a request", show_request, RequestAnswer),
        Endpoint("GET", "/usage", "Report usage by tenant and adapter", usage, UsageAnswer, query=usage_query),
        Endpoint("GET", "/top", "Show what goes on now", top, TopAnswer),
    ]


def _workers(control: Control) -> list[WorkerReport]:
    return [worker for viewer in control.viewers for worker in viewer.view_residency()]


def _top(
    activity: Activity, workers: Sequence[WorkerReport], names: Mapping[EngineName, str], now_s: float
) -> TopAnswer:
    slowest_first = sorted(activity.first_token_s.items(), key=lambda item: (-item[1][1], item[0]))
    return TopAnswer(
        at_s=now_s,
        in_flight=activity.in_flight,
        per_minute=activity.per_minute,
        batch_efficiency=activity.batch_efficiency,
        worst_tenant=activity.worst_tenant,
        workers=[_worker(worker, names) for worker in workers],
        queue=[
            TopLaneAnswer(lane=lane, num_waiting=count, oldest_s=oldest_s)
            for lane, (count, oldest_s) in sorted(activity.queue.items())
        ],
        tenants=[
            TopTenantAnswer(tenant=tenant, first_token_p50_s=p50_s, first_token_p95_s=p95_s)
            for tenant, (p50_s, p95_s) in slowest_first
        ],
    )


def _worker(worker: WorkerReport, names: Mapping[EngineName, str]) -> TopWorkerAnswer:
    slots = [
        TopSlotAnswer(
            state=slot.state,
            version=None if slot.version is None else names.get(slot.version, slot.version),
            account=slot.account,
            num_running=slot.num_running,
            num_waiting=slot.num_waiting,
        )
        for slot in (worker.residency.slots if worker.residency is not None else ())
    ]
    return TopWorkerAnswer(
        base=worker.base,
        engine=worker.engine,
        num_running=worker.num_running,
        num_waiting=worker.num_waiting,
        num_places=worker.num_places,
        slots=slots,
    )
