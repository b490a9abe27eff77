"""One engine from start to death: its residency, the requests that wait at it, and the queue of effects on it.

A dead engine's life ends whole: nothing of it, no late outcome of an effect and no waiting request, can reach the
next engine's residency.
"""

import asyncio
import contextlib
import logging
import math
from collections import Counter
from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hotset.admission.fair_queue import FairQueue
from hotset.admission.first_token import SourceTier
from hotset.admission.prompt_length import estimated_tokens
from hotset.core.clock import Clock
from hotset.core.errors import (
    AdapterColdError,
    AdmissionError,
    EngineUnavailableError,
    HotsetError,
    LoadFailedError,
    LoadRateExceededError,
    LoadsFrozenError,
    ModelNotFoundError,
    SlotReclaimedError,
    SlotsFullError,
    TooManyRequestsError,
)
from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.messages import AdapterLoad, EngineFacts
from hotset.core.ports import Lane, Work
from hotset.core.quotas import Quota
from hotset.core.versions import VersionRecord
from hotset.dispatch.dispatcher import Arrived, Dispatcher, Frozen
from hotset.engines.port import Engine
from hotset.registry.approval import check_approval
from hotset.residency.events import (
    Count,
    Counted,
    Cut,
    Discard,
    Dispatch,
    Effect,
    EngineGone,
    Event,
    Load,
    Loaded,
    LoadFailed,
    Lost,
    Permitted,
    Quotas,
    Refuse,
    Released,
    TimePassed,
    Unload,
    Unloaded,
)
from hotset.residency.reclaim import Reclaim
from hotset.residency.residency import Residency
from hotset.residency.reuse import ReuseModel
from hotset.telemetry.metrics import Metrics
from hotset.worker.lease_ticket import LeaseTicket
from hotset.worker.local_store import LocalStore
from hotset.worker.observing import Observer
from hotset.worker.settings import WorkerSettings

_log = logging.getLogger(__name__)
_REFUSALS: dict[str, type[HotsetError]] = {
    error.code: error
    for error in (
        SlotsFullError,
        LoadRateExceededError,
        LoadsFrozenError,
        AdapterColdError,
        TooManyRequestsError,
        LoadFailedError,
        ModelNotFoundError,
        EngineUnavailableError,
    )
}
#: So that a time that is nearly come does not keep the loop busy.
_TIMER_MIN_S = 0.001
_EngineEffect = Load | Unload | Count | Discard


class EngineLife:
    """Everything an agent holds for one engine that serves."""

    def __init__(
        self,
        engine: Engine,
        facts: EngineFacts,
        store: LocalStore,
        reviewer_keys: Mapping[str, Ed25519PublicKey],
        *,
        settings: WorkerSettings,
        clock: Clock,
        metrics: Metrics,
        reuse: ReuseModel | None = None,
        adapters_max: int | None = None,
    ) -> None:
        self.engine = engine
        self.facts = facts
        self._store = store
        self._reviewer_keys = reviewer_keys
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
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
        queue = FairQueue(sequences_max=self.num_places, adapters_max=adapters_max)
        self._dispatcher = Dispatcher(self._residency, queue, waiting_max=settings.waiting_max)
        self._records: Mapping[EngineName, VersionRecord] = {}
        self._waiting: dict[RequestId, asyncio.Future[None]] = {}
        #: What is to be seen of it.
        self.observer = Observer(metrics, clock)
        engine.watch_steps(metrics.step)
        self._effects: asyncio.Queue[_EngineEffect] = asyncio.Queue()
        self._idle = asyncio.Event()
        self._idle.set()
        #: Of the requests that run.
        self._tickets: dict[RequestId, LeaseTicket] = {}
        self._cutting: set[asyncio.Task[None]] = set()
        #: Tells the dispatcher that time passed.
        self._timer: asyncio.TimerHandle | None = None
        #: When something of any request came last, or the first of those that run was begun.
        self._progress_at_s = clock.monotonic_s()

    # --- what the agent asks ---------------------------------------------------------------------------

    def permit(
        self,
        records: Mapping[EngineName, VersionRecord],
        quotas: Mapping[TenantId, Quota],
        *,
        is_frozen: bool = False,
    ) -> None:
        """Serve these versions from now on, and no others, under these quotas; frozen, load and evict none of them."""
        self._records = records
        sizes = {name: sum(entry.size_bytes for entry in r.manifest.files) for name, r in records.items()}
        self._dispatcher.outlook.sizes = sizes
        self._tell(Frozen(is_frozen))
        self._tell(Quotas(quotas))
        self._tell(Permitted(frozenset(records)))

    async def submit(self, work: Work, name: EngineName | None) -> LeaseTicket:
        """Accept the work once its version is in a slot; see `core.ports.Agent.submit`."""
        assert work.generate.engine_name == name, "I1: the request is not for its own route"
        request = work.request_id
        dispatched: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[request] = dispatched
        began_s = self._clock.monotonic_s()
        tier = self._tier(name)
        self._metrics.lookup(tier)
        lane: Lane = "hot" if tier == "hot" else "loading"
        num_sequences = work.generate.n * len(work.generate.prompts or (None,))
        budget_s = None if work.budget_ms is None else work.budget_ms / 1000
        patience_s = math.inf if budget_s is None else budget_s
        input_tokens = estimated_tokens(work.generate)
        self.observer.arrived(request, name, lane, self._predicted_s(name, work, lane, num_sequences, began_s))
        self._tell(Arrived(request, name, work.tenant, input_tokens, num_sequences, budget_s))
        try:
            if not dispatched.done():
                async with asyncio.timeout(min(self._settings.load_timeout_s, patience_s)):
                    await dispatched
            dispatched.result()
        except TimeoutError as error:
            is_wanting = self._dispatcher.is_wanting(request)
            until_hot = self._dispatcher.outlook.until_hot(name, work.tenant, self._clock.monotonic_s())
            self._tell(Released(request))
            if lane == "hot":
                raise TooManyRequestsError("The request's turn did not come in time.") from error
            if budget_s is not None:
                retry_after_ms = max(1, math.ceil(until_hot.expected_s * 1000))
                raise AdapterColdError(retry_after_ms=retry_after_ms) from error
            if is_wanting:
                raise SlotsFullError from error
            raise LoadFailedError("The adapter was not ready in time.") from error
        except asyncio.CancelledError:
            self._tell(Released(request))
            raise
        finally:
            self._waiting.pop(request, None)
            self.observer.settled(request)
        waited_s = self._clock.monotonic_s() - began_s
        if self.num_running() <= 1:
            self._progress_at_s = self._clock.monotonic_s()
        stream = self.engine.generate(work.generate)
        ticket = LeaseTicket(stream, request, self, lane=lane, load_seconds=waited_s)
        if not ticket.has_ended:
            self._tickets[request] = ticket
        return ticket

    def _predicted_s(
        self, name: EngineName | None, work: Work, lane: Lane, num_sequences: int, now_s: float
    ) -> float | None:
        """Return when the first token is expected, of requests for which that matters: it costs some microseconds."""
        if lane == "hot" and work.budget_ms is None:
            return None
        return self._dispatcher.outlook.until_first_token(name, work.tenant, num_sequences, now_s).expected_s

    # --- the account of its tickets --------------------------------------------------------------------

    def served(self, request: RequestId, *, input_tokens: int | None = None, output_tokens: int = 0) -> None:
        """Charge the tenant for a prompt's true length, or for tokens generated."""
        self._progress_at_s = self._clock.monotonic_s()
        self._dispatcher.queue.served(request, input_tokens=input_tokens, output_tokens=output_tokens)

    def first_token(self, request: RequestId) -> None:
        """Learn how long prompts take, and how good the prediction was."""
        self.observer.first_token(request)
        self._dispatcher.outlook.first_token(request, self._clock.monotonic_s())

    def release(self, request: RequestId) -> None:
        """End a lease."""
        self.observer.ended(request)
        self._tickets.pop(request, None)
        self._tell(Released(request))

    # --- its tasks -------------------------------------------------------------------------------------

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
        running = (lease.name for request, lease in leases if request not in self._waiting)
        return Counter(name for name in (*waiting, *running) if name is not None)

    def num_waiting(self) -> int:
        """Requests that wait for a slot or for a place in the engine."""
        return len(self._waiting)

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

    async def stalled(self) -> None:
        """Return once the engine runs requests and brings nothing of any of them for `stall_timeout_s`."""
        limit_s = self._settings.stall_timeout_s
        while not self.num_running() or self._clock.monotonic_s() - self._progress_at_s < limit_s:  # noqa: ASYNC110
            await asyncio.sleep(min(1.0, limit_s / 4))

    async def drained(self) -> None:
        """Return once no request waits or runs."""
        await self._idle.wait()

    async def run_effects(self) -> None:
        """Carry out effects on the engine, one at a time, in order, until cancelled."""
        while True:
            effect = await self._next_effect()
            event = await self._carry_out(effect)
            if event is not None:
                self._tell(event)

    def end(self) -> None:
        """The engine is gone: refuse who waits. Those that run hear it from their streams."""
        try:
            self._tell(EngineGone())
            self._set_timer(None)
        finally:  # whatever is wrong with our own state, nobody waits for an engine that is gone
            for request in self._waiting:
                self._settle(request, EngineUnavailableError())

    # --- residency -------------------------------------------------------------------------------------

    def _tell(self, event: Arrived | Frozen | Event) -> None:
        effects = self._dispatcher.handle(event, self._clock.monotonic_s())
        if self._settings.check_invariants:
            self._dispatcher.check()
        if self._dispatcher.num_requests:
            self._idle.clear()
        else:
            self._idle.set()
        for effect in effects:
            self._take(effect)
        self._set_timer(self._dispatcher.look_again_at_s)

    def _set_timer(self, at_s: float | None) -> None:
        """Tell the dispatcher at that time that it has come; what was set before counts no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_s is not None:
            delay_s = max(_TIMER_MIN_S, at_s - self._clock.monotonic_s())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tell, TimePassed())

    def _take(self, effect: Effect) -> None:
        match effect:
            case Dispatch(request):
                self._settle(request, None)
            case Refuse(request, code, message, retry_after_ms):
                self._settle(request, _refusal(code, message or None, retry_after_ms))
            case Cut(request):
                self._cut(request)
            case Load() | Unload() | Count() | Discard():
                self._effects.put_nowait(effect)

    def _cut(self, request: RequestId) -> None:
        """End a request that runs, with an error for whoever reads it."""
        ticket = self._tickets.get(request)
        if ticket is not None:
            cutting = asyncio.create_task(ticket.cut(SlotReclaimedError()))
            self._cutting.add(cutting)
            cutting.add_done_callback(self._cutting.discard)

    def _settle(self, request: RequestId, refusal: HotsetError | None) -> None:
        waiting = self._waiting.get(request)
        if waiting is None or waiting.done():
            return
        if refusal is None:
            waiting.set_result(None)
        else:
            waiting.set_exception(refusal)

    def _tier(self, name: EngineName | None) -> str:
        if name is None or self._residency.is_hot(name):
            return "hot"
        return "warm" if name in self._residency.state.warm else "cold"

    # --- effects ---------------------------------------------------------------------------------------

    async def _next_effect(self) -> _EngineEffect:
        """Return the next effect; after a long time without any, a count, so that an engine that hangs is noticed."""
        try:
            async with asyncio.timeout(self._settings.effect_timeout_s):
                return await self._effects.get()
        except TimeoutError:
            return Count()

    async def _carry_out(self, effect: _EngineEffect) -> Event | None:
        """Run one effect; None where the engine died over it, or nothing is to be told."""
        with contextlib.suppress(EngineUnavailableError):  # whoever waits for the engine's death ends this life
            match effect:
                case Load(slot, name):
                    return await self._load(slot, name)
                case Unload():
                    return await self._unload(effect)
                case Count():
                    return await self._count()
                case Discard(name):
                    await asyncio.to_thread(self._store.discard, name)
        return None

    async def _load(self, slot: int, name: EngineName) -> Event:
        record = self._records.get(name)
        if record is None:
            return LoadFailed(slot, name, ModelNotFoundError.code, "")
        began_s = self._clock.monotonic_s()
        tier = "warm" if self._store.holds(name) else "cold"
        num_bytes = sum(entry.size_bytes for entry in record.manifest.files)
        try:
            load = await asyncio.to_thread(self._fetch, record)
            async with asyncio.timeout(self._settings.effect_timeout_s):
                report = await self.engine.load(load)
        except TimeoutError:
            return Lost(slot, name, num_bytes)
        except EngineUnavailableError:
            raise
        except (HotsetError, OSError) as error:
            _log.error("load failed", extra={"version": str(record.ref), "reason": str(error)})
            return LoadFailed(slot, name, LoadFailedError.code, "")
        seconds = self._clock.monotonic_s() - began_s
        self._metrics.load_done(tier, record.manifest.rank_max, seconds)
        self.observer.loaded(name, self._residency.state.slots[slot].account, tier, seconds)
        _log.info("loaded", extra={"version": str(record.ref), "tier": tier, "seconds": round(seconds, 4)})
        return Loaded(slot, name, num_bytes, seconds, report.slot_bytes, report.stall_seconds)

    def _fetch(self, record: VersionRecord) -> AdapterLoad:
        """Check approval and bytes; runs on a thread."""
        return self._store.materialise(check_approval(record, self._reviewer_keys))

    async def _unload(self, unload: Unload) -> Event:
        try:
            async with asyncio.timeout(self._settings.effect_timeout_s):
                await self.engine.unload(unload.name)
        except (TimeoutError, LoadFailedError):
            return Lost(unload.slot, unload.name)
        slot = self._residency.state.slots[unload.slot]
        by = slot.account if slot.successor is not None else None
        self.observer.evicted(unload.name, unload.cause, unload.victim, by, slot.successor)
        return Unloaded(unload.slot, unload.name)

    async def _count(self) -> Event | None:
        try:
            async with asyncio.timeout(self._settings.effect_timeout_s):
                inventory = await self.engine.inventory()
        except (TimeoutError, LoadFailedError) as error:
            _log.error("the engine does not answer; it is ended", extra={"reason": str(error)})
            await self.engine.stop()
            return None
        return Counted(frozenset(inventory.loaded))


def _refusal(code: str, message: str | None, retry_after_ms: int | None) -> HotsetError:
    error = _REFUSALS[code](message)
    if isinstance(error, AdmissionError) and retry_after_ms is not None:
        error.retry_after_ms = retry_after_ms
    return error
