"""One engine from start to death: its residency, the requests that wait at it, and the queue of effects on it.

A dead engine's life ends whole: nothing of it, no late outcome of an effect and no waiting request, can reach the
next engine's residency.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hotset.admission.fair_queue import FairQueue
from hotset.admission.first_token import SourceTier
from hotset.core.agent_errors import AGENT_ERRORS, agent_error
from hotset.core.clock import Clock
from hotset.core.errors import SlotReclaimedError
from hotset.core.ids import EngineName, TenantId
from hotset.core.quotas import Quota
from hotset.core.versions import VersionRecord
from hotset.dispatch.dispatcher import Dispatcher, Frozen, Told
from hotset.dispatch.prefetching import Homes
from hotset.engines.port import Engine
from hotset.residency.events import (
    Count,
    Cut,
    Discard,
    Dispatch,
    Effect,
    EngineGone,
    Fetch,
    Load,
    Permitted,
    Quotas,
    Refuse,
    TimePassed,
    Unload,
)
from hotset.residency.reclaim import Reclaim
from hotset.residency.residency import Residency
from hotset.residency.reuse import ReuseModel
from hotset.routing.standing import HomeHere
from hotset.telemetry.metrics import Metrics
from hotset.worker.alarm import Alarm
from hotset.worker.effect_runner import EffectRunner
from hotset.worker.local_store import LocalStore
from hotset.worker.metering import SlotMeter, keep_metering
from hotset.worker.observing import Observer
from hotset.worker.progress import Progress
from hotset.worker.reception import Reception
from hotset.worker.recollection import Recollection
from hotset.worker.settings import WorkerSettings
from hotset.worker.starting import Fresh
from hotset.worker.stocktaking import Stocktaking
from hotset.worker.watchdog import Finding, Rhythm, Watchdog


class EngineLife:
    """Everything an agent holds for one engine that serves."""

    def __init__(
        self,
        engine: Engine,
        fresh: Fresh,
        store: LocalStore,
        reviewer_keys: Mapping[str, Ed25519PublicKey],
        *,
        settings: WorkerSettings,
        clock: Clock,
        metrics: Metrics,
        adapter_of: Callable[[EngineName], str],
        reuse: ReuseModel | None = None,
        recollection: Recollection | None = None,
    ) -> None:
        self.engine = engine
        facts = self.facts = fresh.facts
        self._settings = settings
        self._clock = clock
        self._residency = Residency(
            num_slots=facts.num_slots,
            warm_bytes_max=settings.warm_bytes_max,
            load_retry_s=settings.load_retry_s,
            loads_per_minute=settings.loads_per_minute,
            stall_ms_per_s=settings.stall_ms_per_s,
            reclaim=Reclaim(settings.reclaim_policy, settings.reclaim_s),
            reuse=reuse,
        )
        #: Places in the engine.
        self.num_places = settings.engine_sequences_max or facts.num_sequences_max
        queue = FairQueue(sequences_max=self.num_places, adapters_max=fresh.adapters_max)
        self._dispatcher = Dispatcher(self._residency, queue, waiting_max=settings.waiting_max)
        self._progress = Progress(clock)
        #: What is to be seen of it.
        self.observer = Observer(metrics, clock, recollection or Recollection(clock))
        engine.watch_steps(metrics.step)
        #: What the engine says of itself.
        self.stocktaking = Stocktaking(engine, clock)
        self._meter = SlotMeter(metrics.usage, adapter_of)
        rhythm = Rhythm(settings.watchdog_interval_s, settings.stall_timeout_s, self.has_room)
        self._watchdog = Watchdog(engine, fresh.baseline, self._progress, rhythm, metrics)
        self._effects = EffectRunner(
            engine,
            store,
            reviewer_keys,
            self._residency.state.slots.__getitem__,
            self.observer,
            vouch=self._watchdog.vouch,
            timeout_s=settings.effect_timeout_s,
            clock=clock,
            metrics=metrics,
        )
        #: Where its requests are taken in.
        self.reception = Reception(
            engine,
            self._dispatcher,
            self._tell,
            observer=self.observer,
            progress=self._progress,
            load_timeout_s=settings.load_timeout_s,
            clock=clock,
        )
        #: Set whenever nothing waits or runs; cleared by who waits for that.
        self._idle = asyncio.Event()
        self._alarm = Alarm(clock, lambda: self._tell(TimePassed()))

    # --- what the agent asks ---------------------------------------------------------------------------

    def permit(
        self,
        records: Mapping[EngineName, VersionRecord],
        quotas: Mapping[TenantId, Quota],
        *,
        homes: tuple[HomeHere, ...] = (),
        tenants: frozenset[TenantId] | None = None,
        is_frozen: bool = False,
    ) -> None:
        """Serve these versions from now on, and no others, under these quotas; frozen, load and evict none of them.

        Args:
            records: What may be served.
            quotas: Of the tenants that may ask for it.
            homes: What is at home here, and to be brought in before anybody asks.
            tenants: Who may call at all; None: whoever does.
            is_frozen: Whether nothing may be loaded or evicted.
        """
        self._effects.records = records
        sizes = {name: sum(entry.size_bytes for entry in r.manifest.files) for name, r in records.items()}
        self._dispatcher.outlook.sizes = sizes
        self._tell(Frozen(is_frozen))
        self._tell(Quotas(quotas, tenants))
        self._tell(Permitted(frozenset(records)))
        self._tell(Homes(homes))

    # --- what is to be seen of it ----------------------------------------------------------------------

    @property
    def residency(self) -> Residency:
        """Who is in the slots, to look at and not to touch."""
        return self._residency

    def num_wanting(self) -> Mapping[TenantId, int]:
        """Requests that no slot was found for yet, by tenant."""
        return self._dispatcher.num_wanting()

    def in_flight(self) -> Counter[EngineName]:
        """Return how many requests wait or run for each version."""
        waiting = (name for name, _, _ in self.observer.waits())
        leases = self._residency.state.leases.items()
        running = (lease.name for request, lease in leases if request not in self.reception.turns)
        return Counter(name for name in (*waiting, *running) if name is not None)

    def num_waiting(self) -> int:
        """Requests that wait for a slot or for a place in the engine."""
        return len(self.reception.turns)

    def oldest_wait_s(self) -> float:
        """Return for how long the one that came first of these has waited; 0 where none waits."""
        return next((age_s for _, _, age_s in self.observer.waits()), 0.0)

    def typical_load_s(self, tier: SourceTier) -> float | None:
        """Return what a load from a tier takes; None until one was measured."""
        return self._dispatcher.outlook.times.typical_load_s(tier)

    def num_leases(self) -> int:
        """Requests that wait or run here."""
        return self._dispatcher.num_requests

    def num_running(self) -> int:
        """Requests that have a place in the engine."""
        return self._dispatcher.queue.num_running

    def has_room(self) -> bool:
        """Whether a place in the engine is free."""
        return self.num_running() < self.num_places

    # --- its tasks -------------------------------------------------------------------------------------

    async def watch(self) -> Finding:
        """Return once the engine does not answer as it did, or brings nothing; then it is to be ended."""
        return await self._watchdog.run(self._progress.stalled(self._settings.stall_timeout_s, self.num_running))

    async def meter(self) -> None:
        """Count what tenants use of the engine, until cancelled."""
        await keep_metering(self._meter, lambda: self._residency.state.slots, self.observer.events, self._clock)

    async def drained(self) -> None:
        """Return once no request waits or runs."""
        while self.num_leases():
            self._idle.clear()
            await self._idle.wait()

    async def run_effects(self) -> None:
        """Carry out effects on the engine, one at a time, in order, until cancelled."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._effects.run(self._tell))
            both.create_task(self._effects.run_fetches(self._tell))

    def end(self) -> None:
        """The engine is gone: refuse who waits. Those that run hear it from their streams."""
        try:
            self._tell(EngineGone())
            self._alarm.set(None)
        finally:  # whatever is wrong with our own state
            self.reception.turns.engine_gone()

    # --- residency -------------------------------------------------------------------------------------

    def _tell(self, event: Told) -> None:
        dispatcher = self._dispatcher
        was_idle = not dispatcher.queue.num_running
        effects = dispatcher.handle(event, self._clock.monotonic_s())
        if was_idle and dispatcher.queue.num_running:  # several at once where they waited for one load
            self._progress.made()
        if self._settings.check_invariants:
            dispatcher.check()
        if not dispatcher.num_requests:
            self._idle.set()
        for effect in effects:
            self._take(effect)
        self._alarm.set(dispatcher.look_again_at_s)

    def _take(self, effect: Effect) -> None:
        match effect:
            case Dispatch(request, hot_at_s):
                self.reception.turns.settle(request, self._clock.monotonic_s() if hot_at_s is None else hot_at_s)
            case Refuse(request, code, message, retry_after_ms):
                self.reception.turns.settle(request, agent_error(AGENT_ERRORS[code], message, retry_after_ms))
            case Cut(request):
                self.reception.running.cut(request, SlotReclaimedError())
            case Load() | Unload() | Count() | Discard():
                self._effects.put(effect)
            case Fetch():
                self._effects.put_fetch(effect)
