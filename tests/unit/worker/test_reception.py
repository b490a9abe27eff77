"""What is kept of requests that never come to an engine: nothing."""

import asyncio

import pytest

from hotset.admission.fair_queue import FairQueue
from hotset.core.agent_errors import AGENT_ERRORS, agent_error
from hotset.core.errors import HotsetError
from hotset.core.ids import AdapterId, Digest, EngineName, KeyId, RequestId, Route, TenantId, engine_name
from hotset.core.messages import Generate, Sampling
from hotset.core.ports import Lane, Work
from hotset.dispatch.dispatcher import Dispatcher, Told
from hotset.engines.hosted import HostedEngine
from hotset.engines.wire import EngineSpec
from hotset.residency.events import Permitted, Refuse
from hotset.residency.residency import Residency
from hotset.telemetry.metrics import Metrics
from hotset.worker.observing import Observer
from hotset.worker.progress import Progress
from hotset.worker.reception import Reception
from hotset.worker.recollection import Recollection
from tests.support.adapters import tiny_base_version
from tests.support.fake_clock import FakeClock

TENANT = TenantId("acme")
ROUTE = Route(Digest("sha256:base"), AdapterId(TENANT, "a"), 1, Digest("sha256:a"))
NAME = engine_name(ROUTE)


class CountingObserver(Observer):
    """Knows which requests it was told of and not told the end of."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(Metrics(clock), clock, Recollection(clock))
        self.kept: set[RequestId] = set()

    def arrived(self, request: RequestId, name: EngineName | None, lane: Lane, predicted_s: float | None) -> None:
        self.kept.add(request)
        super().arrived(request, name, lane, predicted_s)

    def ended(self, request: RequestId) -> None:
        self.kept.discard(request)
        super().ended(request)


class World:
    """A reception whose loads never end, for one that may wait."""

    def __init__(self, load_timeout_s: float) -> None:
        clock = FakeClock()
        self.observer = CountingObserver(clock)
        self.dispatcher = Dispatcher(
            Residency(num_slots=1, warm_bytes_max=100), FairQueue(sequences_max=1), waiting_max=2
        )
        self.reception = Reception(
            HostedEngine(EngineSpec(kind="instant", base=tiny_base_version(), base_folder="")),
            self.dispatcher,
            self.tell,
            observer=self.observer,
            progress=Progress(clock),
            load_timeout_s=load_timeout_s,
            clock=clock,
        )
        assert NAME is not None
        self.tell(Permitted(frozenset({NAME})))

    def tell(self, event: Told) -> None:
        for effect in self.dispatcher.handle(event, 0.0):
            if isinstance(effect, Refuse):
                kind = AGENT_ERRORS[effect.code]
                error = agent_error(kind, effect.message, effect.retry_after_ms)
                self.reception.turns.settle(effect.request, error)

    async def submit(self, request: str) -> None:
        generate = Generate(
            request_id=RequestId(request), engine_name=NAME, cache_salt="", sampling=Sampling(), prompts=("hi",)
        )
        await self.reception.submit(Work(RequestId(request), TENANT, KeyId("k"), ROUTE, generate), NAME)


def test_nothing_is_kept_of_one_that_waits_in_vain_or_leaves_or_is_refused() -> None:
    async def story() -> None:
        patient, hasty = World(60.0), World(0.01)
        with pytest.raises(HotsetError, match="not ready in time"):
            await hasty.submit("late")
        leaving = asyncio.create_task(patient.submit("leaving"))
        await asyncio.sleep(0)
        with pytest.raises(HotsetError, match="Too many requests"):
            await patient.submit("refused")
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        for world in (patient, hasty):
            assert world.observer.kept == set()
            assert world.dispatcher.num_requests == 0

    asyncio.run(story())
