"""Slots, accounts and the fair queue together under any order of events: what they promise holds, nobody is stuck."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hotset.admission.fair_queue import FairQueue
from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.quotas import Quota
from hotset.dispatch.dispatcher import Arrived, Dispatcher
from hotset.dispatch.prefetching import FetchFailed, Homes
from hotset.dispatch.slot_finder import PATIENCE_S
from hotset.residency.events import (
    Count,
    Counted,
    Cut,
    Discard,
    Dispatch,
    Effect,
    EngineGone,
    Event,
    Fetch,
    Fetched,
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
from hotset.residency.reclaim import Reclaim, is_reclaimed
from hotset.residency.residency import Residency
from hotset.residency.slots import Slot, SlotState
from hotset.routing.standing import HomeHere

NAMES = [EngineName(f"hs-{index}") for index in range(5)]
TENANTS = [TenantId(name) for name in ("acme", "globex", "initech")]
NUM_SLOTS = 3
STALL_MS_PER_S = 200.0
RECLAIM_S = 5.0
#: The longest that a load keeps the engine from stepping.
STALL_MAX_S = 1.5
_QUOTAS = st.builds(
    lambda pair, loads_per_minute: Quota(min(pair), max(pair), loads_per_minute),
    st.tuples(st.integers(0, NUM_SLOTS), st.integers(1, NUM_SLOTS)),
    st.sampled_from([None, None, 1.0, 10.0]),
)
_EVICTIONS = ("own", "borrow", "reserve")


class DispatcherMachine(RuleBasedStateMachine):
    """A worker of 3 slots, an engine that answers in order or not at all, tenants that share versions."""

    def __init__(self) -> None:
        super().__init__()
        residency = Residency(
            num_slots=NUM_SLOTS,
            warm_bytes_max=30,
            load_retry_s=2.0,
            loads_per_minute=120.0,
            stall_ms_per_s=STALL_MS_PER_S,
            reclaim=Reclaim("cut", RECLAIM_S),
            default_quota=Quota(limit_slots=2),
        )
        self.residency = residency
        self.dispatcher = Dispatcher(residency, FairQueue(sequences_max=3), waiting_max=40)
        self.dispatcher.outlook.sizes = dict.fromkeys(NAMES, 10)
        self.now_s = 0.0
        self.permitted = frozenset[EngineName]()
        #: Every request that was let in and has not ended, and those of them that run.
        self.asked: dict[RequestId, Arrived] = {}
        self.running: set[RequestId] = set()
        #: Of those, the ones that the present engine runs.
        self.in_engine: set[RequestId] = set()
        self.num_asked = 0
        self.engine: set[EngineName] = set()
        self.todo: list[Effect] = []
        self.stalled_s = 0.0
        #: Requests that run and were to be cut.
        self.cut: set[RequestId] = set()
        #: Answers that were given up on and are true all the same.
        self.late: list[Loaded | Unloaded] = []
        self.unloads: Counter[str] = Counter()
        #: Evictions by cause when the present engine came.
        self.told = Counter[str]()
        #: The version whose files are on their way in before anybody asked.
        self.fetching: tuple[EngineName, TenantId] | None = None
        self.tell(Permitted(frozenset(NAMES)))

    # --- one event, and what must hold of it -----------------------------------------------------------

    def tell(self, event: Arrived | Homes | FetchFailed | Event) -> None:
        self.now_s += 0.25
        held = self.held()
        if isinstance(event, Permitted):
            self.permitted = event.names
        asking = self.asked[event.request].tenant if isinstance(event, Arrived | Released) else None
        if isinstance(event, Released):
            del self.asked[event.request]
            self.running.discard(event.request)
            self.in_engine.discard(event.request)
            self.cut.discard(event.request)
        effects = self.dispatcher.handle(event, self.now_s)
        self.dispatcher.check()
        for effect in effects:
            self.take(effect, is_count=isinstance(event, Counted))
        if isinstance(event, Arrived | Released | Quotas) or (
            isinstance(event, Loaded) and event.name in self.permitted
        ):
            self.nobody_lost_what_it_is_owed(asking, held)
        if isinstance(event, EngineGone):
            assert self.running == self.asked.keys(), "who waited for a dead engine was not told"
        waiting = {arrived.name for request, arrived in self.asked.items() if request not in self.running}
        assert waiting <= {None, *self.permitted}, "I11: one waits for what may not be served"

    def take(self, effect: Effect, *, is_count: bool) -> None:
        match effect:
            case Dispatch(request):
                assert request not in self.running, "I8: dispatched twice"
                name = self.asked[request].name
                assert name is None or name in self.engine, "I1: dispatched to a version that is not loaded"
                assert name is None or name in self.permitted, "I11: dispatched to a version that was withdrawn"
                self.running.add(request)
                self.in_engine.add(request)
            case Refuse(request):
                assert request not in self.running, "I8: refused though it runs"
                del self.asked[request]
            case Cut(request):
                assert request in self.running, "I8: cut though it does not run"
                assert request not in self.cut, "cut twice"
                self.cut.add(request)
            case Fetch(name, account):
                assert self.fetching is None, "two fetches at a time"
                assert name in self.permitted, "I7: fetched though it was withdrawn"
                self.fetching = name, account
            case _:
                if isinstance(effect, Unload) and not is_count:
                    self.unloads[effect.cause] += 1
                self.todo.append(effect)

    def held(self) -> Counter[TenantId]:
        """Slots by tenant, without those that are on their way out for nobody."""
        return Counter(
            slot.account
            for slot in self.residency.state.slots
            if slot.account is not None and slot.promised() is not None
        )

    def nobody_lost_what_it_is_owed(self, asking: TenantId | None, held_before: Counter[TenantId]) -> None:
        """I5, with charges that move; and who asks stays within its limit."""
        held = self.held()
        for tenant in TENANTS:
            share = self.residency.accounts.share(tenant)
            if tenant != asking:
                least = min(held_before[tenant], share.reserve)
                assert held[tenant] >= least, f"I5: {tenant} holds {held[tenant]} of {share.reserve} owed"

    # --- clients and operators -------------------------------------------------------------------------

    @rule(
        name=st.sampled_from([None, *NAMES]),
        tenant=st.sampled_from(TENANTS),
        budget_s=st.sampled_from([None, None, None, 0.001, 0.3, 5.0]),
        num_sequences=st.sampled_from([1, 1, 1, 2, 5]),
    )
    def ask(self, name: EngineName | None, tenant: TenantId, budget_s: float | None, num_sequences: int) -> None:
        self.num_asked += 1
        arrived = Arrived(RequestId(f"r{self.num_asked}"), name, tenant, 10, num_sequences, budget_s)
        self.asked[arrived.request] = arrived
        self.tell(arrived)

    @precondition(lambda self: self.asked)
    @rule(which=st.integers(0, 99))
    def end_or_give_up(self, which: int) -> None:
        self.tell(Released(sorted(self.asked)[which % len(self.asked)]))

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 99), num_tokens=st.integers(1, 50))
    def serve(self, which: int, num_tokens: int) -> None:
        request = sorted(self.running)[which % len(self.running)]
        self.dispatcher.queue.served(request, input_tokens=num_tokens, output_tokens=num_tokens)
        self.dispatcher.outlook.first_token(request, self.now_s)

    @rule(quotas=st.dictionaries(st.sampled_from(TENANTS), _QUOTAS))
    def set_quotas(self, quotas: dict[TenantId, Quota]) -> None:
        self.tell(Quotas(quotas))

    @rule(names=st.sets(st.sampled_from(NAMES), min_size=3))
    def permit(self, names: set[EngineName]) -> None:
        self.tell(Permitted(frozenset(names)))

    @rule(
        here=st.lists(st.builds(HomeHere, st.sampled_from(NAMES), st.sampled_from(TENANTS), st.booleans()), max_size=5)
    )
    def come_home(self, here: list[HomeHere]) -> None:
        self.tell(Homes(tuple(here)))

    @precondition(lambda self: self.fetching is not None)
    @rule(has_come=st.booleans())
    def fetch(self, has_come: bool) -> None:
        assert self.fetching is not None
        (name, account), self.fetching = self.fetching, None
        self.tell(Fetched(name, account, 10) if has_come else FetchFailed(name))

    # --- the engine ------------------------------------------------------------------------------------

    @precondition(lambda self: self.todo)
    @rule(
        fate=st.sampled_from(["done", "done", "done", "done", "failed", "lost before", "lost after"]),
        stall_s=st.sampled_from([0.0, 0.1, 0.1, STALL_MAX_S]),
    )
    def carry_out(self, fate: str, stall_s: float = 0.1) -> None:
        match self.todo.pop(0):
            case Load(slot, name) if fate == "failed":
                self.tell(LoadFailed(slot, name, "load_failed", ""))
            case Load(slot, name):
                self.load(slot, name, fate, stall_s)
            case Unload(slot, name):
                self.unload(slot, name, fate)
            case Count():
                self.tell(Counted(frozenset(self.engine)))
            case Discard(name):
                assert name not in self.engine, "I12: files deleted while the engine may read them"

    def load(self, slot: int, name: EngineName, fate: str, stall_s: float) -> None:
        answer = Loaded(slot, name, 10, 0.5, stall_s=stall_s)
        if len(self.engine | {name}) > NUM_SLOTS:
            # Only where a load failed for a version that the engine held from before: it is counted, then let go.
            assert self.engine - {each.name for each in self.residency.state.slots}, "I4: the engine has no such slot"
            self.tell(LoadFailed(slot, name, "load_failed", ""))
            return
        if fate != "lost before":
            self.engine.add(name)
        if fate == "lost after":
            self.late.append(answer)
        self.stalled_s += stall_s if fate == "done" else 0.0
        self.tell(answer if fate == "done" else Lost(slot, name, 10))

    def unload(self, slot: int, name: EngineName, fate: str) -> None:
        answer = Unloaded(slot, name)
        assert name not in {self.asked[request].name for request in self.in_engine}, "I3: unloaded while it runs"
        if fate != "lost before":
            self.engine.discard(name)
        if fate == "lost after":
            self.late.append(answer)
        self.tell(answer if fate in ("done", "failed") else Lost(slot, name))

    @precondition(lambda self: self.late)
    @rule()
    def late_answer(self) -> None:
        answer = self.late.pop(0)
        if (answer.name in self.engine) == isinstance(answer, Loaded):
            self.tell(answer)

    @precondition(lambda self: self.dispatcher.look_again_at_s is not None)
    @rule()
    def its_time_comes(self) -> None:
        assert self.dispatcher.look_again_at_s is not None
        self.now_s = max(self.now_s, self.dispatcher.look_again_at_s)
        self.tell(TimePassed())
        for slot in self.residency.state.slots:
            if is_reclaimed(slot) and self.now_s >= slot.closing_since_s + RECLAIM_S + 0.25:
                here = {r for r, lease in self.residency.state.leases.items() if lease.slot == slot.index}
                assert here & self.running <= self.cut, f"I5: what runs in {slot} was not cut"

    @rule(seconds=st.sampled_from([PATIENCE_S, PATIENCE_S, 10.0, 60.0, None]))
    def time_passes_or_the_engine_dies(self, seconds: float | None) -> None:
        if seconds is not None:
            self.now_s += seconds
            return
        self.engine.clear()
        self.in_engine.clear()
        self.todo.clear()
        self.late.clear()
        self.fetching = None
        self.tell(EngineGone())
        self.unloads = Counter()
        self.told = self.evictions()

    # --- between events --------------------------------------------------------------------------------

    @invariant()
    def everybody_runs_or_waits(self) -> None:
        """I8: what was neither refused nor ended runs or is waited for."""
        waiting = self.asked.keys() - self.running
        leases = self.residency.state.leases
        known = {r for r in waiting if self.dispatcher.is_wanting(r) or r in leases}
        assert known == waiting, f"forgotten: {waiting - known}"
        assert self.running <= leases.keys()

    @invariant()
    def slots_bound_what_runs(self) -> None:
        """I4."""
        assert len({self.asked[request].name for request in self.in_engine} - {None}) <= NUM_SLOTS

    @invariant()
    def loads_stall_no_more_than_they_may(self) -> None:
        """What was saved up, what came since, and what was under way in each slot before anybody knew what it takes."""
        rate = STALL_MS_PER_S / 1000
        assert self.stalled_s <= rate * 10.0 + rate * self.now_s + NUM_SLOTS * STALL_MAX_S

    @invariant()
    def the_ledger_tells_what_left(self) -> None:
        closing = Counter(slot.leaving for slot in self.residency.state.slots if slot.state is SlotState.CLOSING)
        told = self.evictions()
        told.subtract(self.told)
        for cause in _EVICTIONS:
            assert told[cause] == self.unloads[cause] + closing[cause], f"{cause}: {told} {self.unloads} {closing}"

    def evictions(self) -> Counter[str]:
        """Return how many evictions the ledger has by cause: as many were caused as were suffered."""
        parts = [self.residency.ledger.of(tenant) for tenant in self.residency.ledger.tenants()]
        caused, suffered = (Counter[str]() for _ in range(2))
        for part in parts:
            caused.update(part.caused)
            suffered.update(part.suffered)
        assert caused == suffered, f"the ledger has {caused} caused and {suffered} suffered"
        return caused

    def teardown(self) -> None:
        """Once the engine has answered everything and what runs has ended, nobody waits but for others' reserves."""
        for _ in range(500):
            if self.todo:
                self.carry_out("done")
            elif self.fetching is not None:
                self.fetch(has_come=True)
            elif self.running:
                self.tell(Released(min(self.running)))
            elif self.dispatcher.look_again_at_s is not None:
                self.its_time_comes()
            else:
                break
        assert not self.todo
        assert not self.running
        for request, arrived in self.asked.items():
            assert self.dispatcher.is_wanting(request), f"{request} waits for ever"
            assert all(self.is_anothers(slot, arrived.tenant) for slot in self.residency.state.slots), (
                f"{arrived} wants a slot for ever: {self.residency.state.slots}"
            )

    def is_anothers(self, slot: Slot, tenant: TenantId) -> bool:
        """Whether a slot is one that the tenant may never have: another's that is at or under its reserve."""
        accounts = self.residency.accounts
        is_owed = slot.account is not None and self.held()[slot.account] <= accounts.share(slot.account).reserve
        return slot.state is SlotState.HOT and slot.account != tenant and is_owed


TestDispatcherMachine = DispatcherMachine.TestCase
TestDispatcherMachine.settings = settings(max_examples=250, stateful_step_count=60, deadline=None, derandomize=True)
