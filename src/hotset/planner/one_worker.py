"""One simulated worker without network or faults: what tenants get of it, under the production policies."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hotset.core.ids import AdapterId, EngineName, KeyId, RequestId, Route, TenantId, engine_name
from hotset.core.messages import Generate, Sampling
from hotset.core.ports import Lane, Work
from hotset.core.quotas import Quota
from hotset.core.versions import VersionRecord
from hotset.planner.effect_runner import WorkerShape
from hotset.planner.installation import BASE, Installation, reviewer_keys
from hotset.planner.protocol import Stamp
from hotset.planner.virtual_life import VirtualLife
from hotset.planner.virtual_store import VirtualStore
from hotset.residency.reuse import ReuseModel
from hotset.sim.clocks import SkewedClock
from hotset.sim.world import World

#: Who all tenants are where they pass for one.
EVERYBODY = TenantId("everybody")


@dataclass(slots=True, eq=False)
class Served:
    """What one request got; moments in virtual seconds."""

    request: RequestId
    tenant: TenantId
    #: Of its prompt, and that it asks for.
    input_tokens: int
    output_tokens: int
    asked_at_s: float
    #: When its version was in its slot; None where it got no place in the engine.
    hot_at_s: float | None = None
    #: When it got that.
    dispatched_at_s: float | None = None
    first_token_at_s: float | None = None
    ended_at_s: float | None = None
    #: When each of its tokens came.
    token_at_s: list[float] = field(default_factory=list[float])
    #: Empty where the answer is whole.
    code: str = ""

    @property
    def first_token_s(self) -> float | None:
        """Seconds until its first token; None where none came."""
        return None if self.first_token_at_s is None else self.first_token_at_s - self.asked_at_s


OnEnd = Callable[[Served], None]


class OneWorker:
    """Implements `life_requests.LifeOwner`; every request's course is kept."""

    def __init__(
        self,
        world: World,
        shape: WorkerShape,
        adapters: Mapping[TenantId, int],
        *,
        rank: int,
        reuse: ReuseModel | None = None,
        is_one_account: bool = False,
    ) -> None:
        """Start a worker that may serve every tenant's adapters.

        Args:
            world: Where time passes.
            shape: The worker.
            adapters: How many each tenant has.
            rank: Of all of them.
            reuse: Guesses when a version is asked for again, in place of the production one.
            is_one_account: Whether all tenants pass for one: then no quota divides the slots, and the queue's turns are
                those of arrival.
        """
        self.world = world
        installation = Installation()
        self.records: dict[TenantId, list[VersionRecord]] = {
            tenant: [installation.publish(AdapterId(tenant, f"a{index}"), rank) for index in range(count)]
            for tenant, count in adapters.items()
        }
        self._records: dict[EngineName, VersionRecord] = dict(installation.serving)
        self._life = VirtualLife(
            world,
            SkewedClock(world),
            self,
            subject="worker",
            shape=shape,
            store=VirtualStore(installation.truth, reviewer_keys(), shape.calibration),
            truth=installation.truth,
            reuse=reuse,
        )
        self._is_one_account = is_one_account
        self.served: list[Served] = []
        self._open: dict[RequestId, tuple[Served, OnEnd]] = {}

    def permit(self, quotas: Mapping[TenantId, Quota]) -> None:
        """Serve all versions under these quotas."""
        self._life.permit(self._records, quotas)

    def ask(
        self,
        tenant: TenantId,
        record: VersionRecord | None,
        *,
        input_tokens: int,
        output_tokens: int,
        on_end: OnEnd = lambda _: None,
    ) -> Served:
        """Let a tenant ask for a version, or for the bare base (None)."""
        request = RequestId(f"{tenant}-{len(self.served)}")
        served = Served(request, tenant, input_tokens, output_tokens, self.world.now_s)
        self.served.append(served)
        self._open[request] = served, on_end
        route = Route(BASE) if record is None else record.route
        name = None if record is None else engine_name(record.route)
        generate = Generate(
            request_id=request,
            engine_name=name,
            cache_salt=tenant,
            sampling=Sampling(max_tokens=output_tokens, ignore_eos=True),
            prompts=((0,) * input_tokens,),
        )
        account = EVERYBODY if self._is_one_account else tenant
        self._life.submit(Work(request, account, KeyId("sim"), route, generate), name)
        return served

    def run_until(self, at_s: float) -> None:
        """Let virtual time pass; less where nothing is left to happen."""
        while self.world.now_s < at_s and self.world.step():
            pass

    # --- what becomes of requests ----------------------------------------------------------------------

    def accepted(self, request: RequestId, lane: Lane, queue_s: float) -> None:
        """It goes to the engine."""
        served, _ = self._open[request]
        served.hot_at_s, served.dispatched_at_s = self.world.now_s - queue_s, self.world.now_s

    def refused(self, request: RequestId, code: str, retry_after_ms: int | None) -> None:
        """It holds nothing any more."""
        self.ended(request, code)

    def token(self, request: RequestId, stamp: Stamp) -> None:
        """A token came."""
        served, _ = self._open[request]
        served.token_at_s.append(self.world.now_s)
        if served.first_token_at_s is None:
            served.first_token_at_s = self.world.now_s

    def ended(self, request: RequestId, code: str) -> None:
        """It is over."""
        served, on_end = self._open.pop(request)
        served.ended_at_s, served.code = self.world.now_s, code
        on_end(served)

    def life_ended(self) -> None:
        """No engine dies here: none is asked to."""
        raise AssertionError("the engine died without a fault")


def between(served: Sequence[Served], from_s: float, until_s: float) -> list[Served]:
    """Return the requests that were asked in a span of virtual time."""
    return [each for each in served if from_s <= each.asked_at_s < until_s]
