"""Admin API for whoever is on call: explain a request, report usage, show what goes on now."""

from collections.abc import Mapping, Sequence

import msgspec

from hotset.control.control import Control
from hotset.control.endpoints import Call, Endpoint, Reply
from hotset.control.explaining import explained, unreached_answers
from hotset.control.on_call_answers import (
    RequestAnswer,
    TopAnswer,
    TopGatewayAnswer,
    TopLaneAnswer,
    TopSlotAnswer,
    TopTenantAnswer,
    TopWorkerAnswer,
    UsageAnswer,
    UsageRowAnswer,
)
from hotset.control.routes_residency import version_names
from hotset.control.witnesses import Activities, RequestSeen
from hotset.core.errors import EngineUnavailableError, NotFoundError
from hotset.core.ids import EngineName, RequestId, parse_tenant
from hotset.core.on_call import RequestAtWorker, merged
from hotset.core.residency_report import WorkerReport

_NO_SERVER = "Nothing goes on: this needs a running hotset serve or hotset control."
#: Of the times to the first token that are told.
_SHARES = (0.5, 0.95)


def on_call_endpoints(control: Control) -> list[Endpoint]:
    """Return the endpoints."""

    async def show_request(call: Call) -> Reply:
        request = RequestId(call.param("request_id"))
        seen = await control.witness.request(request)
        workers = _workers(control)
        mentioned = {name for each in seen.at_workers for name in _mentioned(each)}
        names = await version_names(control, workers, mentioned)
        bases = {digest: base.name for digest, base in control.commits.snapshot.bases.items()}
        answer = explained(request, seen, bases, workers, names, control.commits.now_s())
        if answer is None:
            raise _unknown(seen)
        return Reply(answer)

    async def usage(call: Call) -> Reply:
        tenant = call.query("tenant")
        unreached = await control.witness.settle_usage()
        now_s = control.commits.now_s()
        since_s = max(0.0, now_s - call.number("last_s", int(now_s)))
        sums = await control.usage.sums(call.actor, since_s, None if tenant is None else parse_tenant(tenant))
        rows = [UsageRowAnswer.model_validate(msgspec.structs.asdict(usage)) for usage in sums]
        told = unreached_answers(unreached)
        return Reply(UsageAnswer(since_s=since_s, until_s=now_s, rows=rows, unreached=told))

    async def top(_call: Call) -> Reply:
        if not control.viewers:
            raise EngineUnavailableError(_NO_SERVER)
        activities = await control.witness.activities()
        workers = _workers(control)
        names = await version_names(control, workers)
        return Reply(_top(activities, workers, names, control.commits.now_s()))

    usage_query = {"last_s": "integer", "tenant": "string"}
    return [
        Endpoint("GET", "/requests/{request_id}", "Explain a request", show_request, RequestAnswer),
        Endpoint("GET", "/usage", "Report usage by tenant and adapter", usage, UsageAnswer, query=usage_query),
        Endpoint("GET", "/top", "Show what goes on now", top, TopAnswer),
    ]


def _workers(control: Control) -> list[WorkerReport]:
    return [worker for viewer in control.viewers for worker in viewer.view_residency()]


def _mentioned(at_worker: RequestAtWorker) -> list[EngineName]:
    evicted = at_worker.evicted
    found = (at_worker.version, None if evicted is None else evicted.successor)
    return [name for name in found if name is not None]


def _unknown(seen: RequestSeen) -> NotFoundError:
    not_asked = "; ".join(map(str, seen.unreached))
    rest = f" These could not be asked: {not_asked}." if not_asked else ""
    return NotFoundError(f"The request log holds no such request.{rest}", param="request_id")


def _top(
    activities: Activities, workers: Sequence[WorkerReport], names: Mapping[EngineName, str], now_s: float
) -> TopAnswer:
    activity = merged(activities.by_process.values())
    quantiles = activity.first_token_quantiles(_SHARES)
    slowest_first = sorted(quantiles.items(), key=lambda item: (-item[1][1], item[0]))
    return TopAnswer(
        at_s=now_s,
        in_flight=activity.in_flight,
        per_minute=activity.per_minute,
        batch_efficiency=activity.batch_efficiency,
        worst_tenant=slowest_first[0][0] if slowest_first else None,
        gateways=[
            TopGatewayAnswer(gateway=name, in_flight=each.in_flight, per_minute=each.per_minute)
            for (role, name), each in sorted(activities.by_process.items())
            if role == "gateway"
        ],
        workers=[_worker(worker, names) for worker in workers],
        queue=[
            TopLaneAnswer(lane=lane, num_waiting=count, oldest_s=oldest_s)
            for lane, (count, oldest_s) in sorted(activity.queue.items())
        ],
        tenants=[
            TopTenantAnswer(tenant=tenant, first_token_p50_s=p50_s, first_token_p95_s=p95_s)
            for tenant, (p50_s, p95_s) in slowest_first
        ],
        unreached=unreached_answers(activities.unreached),
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
        worker=worker.worker,
        base=worker.base,
        engine=worker.engine,
        num_running=worker.num_running,
        num_waiting=worker.num_waiting,
        num_places=worker.num_places,
        slots=slots,
    )
