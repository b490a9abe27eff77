"""Admin API: pools, workers, the freeze."""

from typing import cast

from hotset.control import bodies
from hotset.control.control import Control
from hotset.control.endpoints import Call, Endpoint, Reply
from hotset.control.explaining import unreached_answers
from hotset.control.fleet_answers import (
    FleetAnswer,
    FleetWorkerAnswer,
    FreezeAnswer,
    PickAnswer,
    PoolAnswer,
    PoolsAnswer,
    WorkerStateAnswer,
)
from hotset.control.fleet_views import pool_answers, worker_answers
from hotset.control.pool_rules import need_pool
from hotset.core.errors import InvalidRequestError
from hotset.core.fleet import WorkerState
from hotset.core.ids import (
    KeyId,
    PoolName,
    WorkerId,
    engine_name,
    parse_base_name,
    parse_pool,
    parse_tenant,
    parse_worker,
)
from hotset.core.snapshot import KeyEntry
from hotset.routing.pick import pick
from hotset.routing.resolve import resolve


def pool_endpoints(control: Control) -> list[Endpoint]:
    """Return the endpoints of pools."""

    async def shown(pool: PoolName) -> PoolAnswer:
        await control.commits.read(lambda catalogue: need_pool(catalogue, pool))
        return next(each for each in await listed() if each.pool == pool)

    async def listed() -> list[PoolAnswer]:
        return await control.commits.read(lambda catalogue: pool_answers(catalogue, control.fleet.gaps))

    async def add(call: Call) -> Reply:
        body = cast("bodies.PoolBody", call.body)
        row = await control.pools.add(
            call.actor,
            parse_pool(body.pool),
            parse_base_name(body.base),
            kind=body.kind,
            rank_class=body.rank_class,
            release_schedule=body.release_schedule,
        )
        return Reply(await shown(row.pool), 201)

    async def list_all(_call: Call) -> Reply:
        return Reply(PoolsAnswer(pools=await listed()))

    async def assign(call: Call) -> Reply:
        pool = parse_pool(call.param("pool"))
        await _assign(control, call, pool)
        return Reply(PoolsAnswer(pools=[each for each in await listed() if each.pool == pool]))

    async def set_schedule(call: Call) -> Reply:
        body = cast("bodies.ScheduleBody", call.body)
        row = await control.pools.set_schedule(call.actor, parse_pool(call.param("pool")), body.release_schedule)
        return Reply(await shown(row.pool))

    async def remove(call: Call) -> Reply:
        answer = await shown(parse_pool(call.param("pool")))
        await control.pools.remove(call.actor, parse_pool(answer.pool))
        return Reply(answer)

    schedule = "Say when new versions may come to a pool"
    return [
        Endpoint("POST", "/pools", "Add a pool", add, PoolAnswer, bodies.PoolBody, 201),
        Endpoint("GET", "/pools", "List pools", list_all, PoolsAnswer),
        Endpoint("POST", "/pools/{pool}/assign", "Put who into a pool", assign, PoolsAnswer, bodies.AssignBody),
        Endpoint("POST", "/pools/{pool}/schedule", schedule, set_schedule, PoolAnswer, bodies.ScheduleBody),
        Endpoint("DELETE", "/pools/{pool}", "Remove an empty pool", remove, PoolAnswer),
    ]


def worker_endpoints(control: Control) -> list[Endpoint]:
    """Return the endpoints of workers."""

    async def listed() -> list[FleetWorkerAnswer]:
        sights = control.fleet.sights()
        return await control.commits.read(lambda catalogue: worker_answers(catalogue, sights))

    async def list_all(_call: Call) -> Reply:
        return Reply(FleetAnswer(workers=await listed()))

    async def put(call: Call, state: WorkerState) -> Reply:
        row = await control.workers.set_state(call.actor, _worker(call), state)
        late = [
            each for each in await control.witness.applied() if each.role == "gateway" or each.name == row.facts.worker
        ]
        answer = next(each for each in await listed() if each.worker == row.facts.worker)
        return Reply(WorkerStateAnswer(**answer.model_dump(), unreached=unreached_answers(late)))

    async def cordon(call: Call) -> Reply:
        return await put(call, "cordoned")

    async def drain(call: Call) -> Reply:
        return await put(call, "draining")

    async def uncordon(call: Call) -> Reply:
        return await put(call, "serving")

    async def remove(call: Call) -> Reply:
        worker = _worker(call)
        answer = next((each for each in await listed() if each.worker == worker), None)
        await control.workers.remove(call.actor, worker)
        return Reply(answer)

    async def show_pick(call: Call) -> Reply:
        return Reply(_picked(control, call.query("tenant") or "", call.query("model") or ""))

    nothing, answer, query = bodies.Nothing, WorkerStateAnswer, {"tenant": "string", "model": "string"}
    return [
        Endpoint("GET", "/workers", "List workers", list_all, FleetAnswer),
        Endpoint("POST", "/workers/{worker}/cordon", "Pick it no more", cordon, answer, nothing),
        Endpoint("POST", "/workers/{worker}/drain", "Have it take nothing more", drain, answer, nothing),
        Endpoint("POST", "/workers/{worker}/uncordon", "Take it back", uncordon, answer, nothing),
        Endpoint("DELETE", "/workers/{worker}", "Forget a lost worker", remove, FleetWorkerAnswer),
        Endpoint("GET", "/pick", "Show where a request would go", show_pick, PickAnswer, query=query),
    ]


def freeze_endpoints(control: Control) -> list[Endpoint]:
    """Return the endpoints that stop loads, evictions and rollouts, and let them go on."""

    async def put(call: Call, *, is_frozen: bool) -> Reply:
        await control.workers.freeze(call.actor, is_frozen=is_frozen)
        late = await control.witness.applied("worker")
        return Reply(FreezeAnswer(is_frozen=is_frozen, unreached=unreached_answers(late)))

    async def freeze(call: Call) -> Reply:
        return await put(call, is_frozen=True)

    async def unfreeze(call: Call) -> Reply:
        return await put(call, is_frozen=False)

    answer, nothing = FreezeAnswer, bodies.Nothing
    return [
        Endpoint("POST", "/freeze", "Stop loads, evictions, rollouts", freeze, answer, nothing),
        Endpoint("POST", "/unfreeze", "Let them go on", unfreeze, answer, nothing),
    ]


async def _assign(control: Control, call: Call, pool: PoolName) -> None:
    body = cast("bodies.AssignBody", call.body)
    if (body.tenant is None) == (body.worker is None):
        raise InvalidRequestError("Name a tenant or a worker, one of the two.", param="tenant")
    if body.worker is not None:
        await control.pools.assign_worker(call.actor, pool, parse_worker(body.worker))
    elif body.tenant is not None:
        base = None if body.base is None else parse_base_name(body.base)
        await control.pools.assign_tenant(call.actor, pool, parse_tenant(body.tenant), base)


def _picked(control: Control, tenant_text: str, model: str) -> PickAnswer:
    """Return where a request of a tenant for a model would go by what control knows."""
    snapshot, tenant = control.commits.snapshot, parse_tenant(tenant_text)
    route = resolve(snapshot, KeyEntry(KeyId(""), tenant), model).route
    name = engine_name(route)
    homes = () if name is None else snapshot.homes.get(name, ())
    return PickAnswer(
        model=model,
        pool=snapshot.pool_of(tenant, route.base),
        workers=list(pick(snapshot, tenant, route, control.fleet.sights())),
        homes=list(homes),
    )


def _worker(call: Call) -> WorkerId:
    return parse_worker(call.param("worker"))
