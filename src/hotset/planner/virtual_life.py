"""One simulated engine from start to death under the production `Dispatcher`, as `worker.engine_life` runs a real one.

Every decision is the dispatcher's; `effect_runner` carries out what it asks of the engine.
"""

import math
from collections.abc import Collection, Mapping
from functools import partial

from hotset.admission.fair_queue import FairQueue
from hotset.core.errors import AdapterColdError, EngineFailedError, SlotReclaimedError
from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.ports import Work
from hotset.core.quotas import Quota
from hotset.core.versions import VersionRecord
from hotset.dispatch.dispatcher import Arrived, Dispatcher, Frozen, Told
from hotset.dispatch.prefetching import Homes
from hotset.planner.effect_runner import EffectRunner, WorkerShape, num_bytes
from hotset.planner.life_requests import LifeOwner, LifeRequest
from hotset.planner.protocol import Stamp
from hotset.planner.rules import EngineRules, demand
from hotset.planner.truth import Truth
from hotset.planner.virtual_engine import VirtualEngine
from hotset.planner.virtual_store import VirtualStore
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
    Released,
    TimePassed,
    Unload,
)
from hotset.residency.residency import Residency
from hotset.residency.reuse import ReuseModel
from hotset.routing.standing import HomeHere
from hotset.sim.clocks import SkewedClock
from hotset.sim.world import Timer, World

#: As the agent's: a time that is nearly come does not keep it busy.
_TIMER_MIN_S = 0.001


class VirtualLife:
    """Everything a simulated agent holds for one engine that serves."""

    def __init__(
        self,
        world: World,
        clock: SkewedClock,
        owner: LifeOwner,
        *,
        subject: str,
        shape: WorkerShape,
        store: VirtualStore,
        truth: Truth,
        reuse: ReuseModel | None = None,
    ) -> None:
        self._world, self._clock, self._owner = world, clock, owner
        self._shape, self._subject = shape, subject
        self.rules = EngineRules(subject, shape.num_slots, truth)
        self.engine = VirtualEngine(world, subject, shape.calibration, self, self.rules)
        self._residency = Residency(
            num_slots=shape.num_slots,
            warm_bytes_max=shape.warm_bytes_max,
            load_retry_s=shape.load_retry_s,
            loads_per_minute=shape.loads_per_minute,
            reuse=reuse,
            stall_ms_per_s=shape.stall_ms_per_s,
            reclaim=shape.reclaim,
        )
        queue = FairQueue(sequences_max=shape.sequences_max, adapters_max=shape.adapters_max)
        self.dispatcher = Dispatcher(self._residency, queue, waiting_max=shape.waiting_max)
        self._requests: dict[RequestId, LifeRequest] = {}
        self._timer: Timer | None = None
        self._effects = EffectRunner(
            world, clock, self._tell, subject=subject, shape=shape, store=store, engine=self.engine, rules=self.rules
        )

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
        """Serve these versions from now on, and no others, under these quotas; frozen, load and evict none of them."""
        self._effects.records = records
        self.dispatcher.outlook.sizes = {name: num_bytes(record) for name, record in records.items()}
        self._tell(Frozen(is_frozen))
        self._tell(Quotas(quotas, tenants))
        self._tell(Permitted(frozenset(records)))
        self._tell(Homes(homes))
        waiting = (each.name for each in self._requests.values() if each.timer is not None)
        self.rules.none_waits_for_withdrawn(waiting, self._residency.state.permitted)

    def submit(self, work: Work, name: EngineName | None) -> None:
        """Let the work wait until its version is in a slot and a place is free, or refuse it."""
        is_hot = name is None or self._residency.is_hot(name)
        entry = LifeRequest(work, name, "hot" if is_hot else "loading")
        request, budget_s = work.request_id, None if work.budget_ms is None else work.budget_ms / 1000
        patience_s = min(self._shape.load_timeout_s, math.inf if budget_s is None else budget_s)
        what = f"{self._subject} patience of {request} ends"
        entry.timer = self._clock.after(patience_s, what, partial(self._give_up, request))
        self._requests[request] = entry
        self._tell(Arrived(request, name, work.tenant, entry.input_tokens, entry.num_sequences, budget_s))

    def abort(self, request: RequestId) -> None:
        """End a request wherever it stands; an unknown one is ignored."""
        entry = self._requests.get(request)
        if entry is None or entry.is_aborting:
            return
        if entry.timer is not None:
            self._forget(request)
            self._tell(Released(request), entry.work.tenant)
            return
        entry.is_aborting = True
        self.engine.abort(request, lambda: self._release(request))

    @property
    def requests(self) -> Collection[LifeRequest]:
        """What waits or runs here."""
        return self._requests.values()

    @property
    def residency(self) -> Residency:
        """Who is in the slots, to look at and not to touch."""
        return self._residency

    def stop(self) -> None:
        """End with the agent: nobody is told anything."""
        self.engine.is_gone = True
        self._effects.stop()
        for entry in self._requests.values():
            entry.stop_waiting()

    # --- what the engine says --------------------------------------------------------------------------

    def tokens(self, tokens: list[tuple[RequestId, Stamp, bool]]) -> None:
        """Charge for one step's tokens and hand them on."""
        for request, stamp, is_last in tokens:
            entry = self._requests.get(request)
            if entry is None or entry.is_aborting:
                continue
            queue = self.dispatcher.queue
            queue.served(request, output_tokens=1)
            if not entry.has_begun:
                entry.has_begun = True
                self.dispatcher.outlook.first_token(request, self._clock.monotonic_s())
            self._owner.token(request, stamp)
            if is_last:
                self._end(request, "")

    def failed(self, request: RequestId, code: str) -> None:
        """End a request that the engine did not take."""
        self._end(request, code)

    def _end(self, request: RequestId, code: str) -> None:
        entry = self._requests.get(request)
        if entry is not None and not entry.is_aborting:
            self._owner.ended(request, code)
        self._release(request)

    def gone(self) -> None:
        """The engine is gone: refuse who waits, end what runs."""
        self._effects.stop()
        running = [request for request, entry in self._requests.items() if entry.timer is None]
        self._tell(EngineGone())
        self._set_timer(None)
        for request in running:
            self._end(request, EngineFailedError.code)
        demand(not self._requests, "I8", f"{self._subject}: nobody told {list(self._requests)} that the engine is gone")
        self._owner.life_ended()

    # --- residency -------------------------------------------------------------------------------------

    def _tell(self, event: Told, asking: TenantId | None = None) -> None:
        if isinstance(event, Arrived):
            asking = event.tenant
        held = self.rules.before(self.dispatcher)
        effects = self.dispatcher.handle(event, self._clock.monotonic_s())
        self.rules.after(event, effects, self.dispatcher, held, asking)
        for effect in effects:
            self._take(effect)
        self._effects.carry_on()
        self._set_timer(self.dispatcher.look_again_at_s)

    def _set_timer(self, at_s: float | None) -> None:
        """Tell the policy at that time that it has come; what was set before counts no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if at_s is not None:
            delay_s = max(_TIMER_MIN_S, at_s - self._clock.monotonic_s())
            self._timer = self._clock.after(delay_s, f"{self._subject} looks again", lambda: self._tell(TimePassed()))

    def _take(self, effect: Effect) -> None:
        match effect:
            case Dispatch(request, hot_at_s):
                self._start(request, hot_at_s)
            case Refuse(request, code, _, retry_after_ms):
                if request in self._requests:
                    self._forget(request)
                    self._owner.refused(request, code, retry_after_ms)
            case Cut(request):
                if not self._requests[request].is_aborting:
                    self._owner.ended(request, SlotReclaimedError.code)
                    self.abort(request)
            case Load() | Unload() | Count() | Discard():
                self._world.log.note(f"{self._subject}: {effect}")
                self._effects.put(effect)
            case Fetch():
                self._effects.fetch(effect)

    def _start(self, request: RequestId, hot_at_s: float | None) -> None:
        entry = self._requests[request]
        assert entry.timer is not None, f"I8: {request} is dispatched twice"
        entry.stop_waiting()
        generate = entry.work.generate
        assert generate.sampling.max_tokens is not None, "a simulated answer has a length"
        queue_s = 0.0 if hot_at_s is None else self._clock.monotonic_s() - hot_at_s
        self._owner.accepted(request, entry.lane, queue_s)
        self.engine.generate(request, generate.engine_name, entry.input_tokens, generate.sampling.max_tokens)

    def _give_up(self, request: RequestId) -> None:
        """Refuse a request whose wait took too long, as `worker.engine_life` does."""
        entry = self._requests[request]
        work, now_s = entry.work, self._clock.monotonic_s()
        waits_for_slot = self.dispatcher.waits_for_slot(request)
        until_hot = self.dispatcher.outlook.until_hot(entry.name, work.tenant, now_s)
        self._forget(request)
        self._tell(Released(request), work.tenant)
        error, retry_after_ms = entry.late_error(waits_for_slot=waits_for_slot), None
        if error is AdapterColdError:
            retry_after_ms = max(1, math.ceil(until_hot.expected_s * 1000))
        self._owner.refused(request, error.code, retry_after_ms)

    def _release(self, request: RequestId) -> None:
        entry = self._requests.pop(request, None)
        if entry is not None:
            self._tell(Released(request), entry.work.tenant)

    def _forget(self, request: RequestId) -> None:
        self._requests.pop(request).stop_waiting()
