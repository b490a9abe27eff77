"""Residency under any order of requests, releases, outcomes and losses: invariants hold, nobody waits for ever."""

from collections import Counter
from collections.abc import Mapping, Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.quotas import Quota
from hotset.residency import invariants
from hotset.residency.events import (
    Count,
    Counted,
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
    Requested,
    Unload,
    Unloaded,
)
from hotset.residency.residency import Residency
from hotset.residency.steps import kept_files

NAMES = [EngineName(f"hs-{index}") for index in range(6)]
SIZES = {name: 4 + 3 * index for index, name in enumerate(NAMES)}
TENANTS = [TenantId(name) for name in ("acme", "globex", "initech")]


class ResidencyMachine(RuleBasedStateMachine):
    """An engine of 3 slots that does what it is asked, in order, or loses it; and clients that come and go."""

    requests = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        self.residency = Residency(num_slots=3, warm_bytes_max=40, load_retry_s=2.0, loads_per_minute=60.0)
        self.now_s = 0.0
        self.num_asked = 0
        self.engine: set[EngineName] = set()
        self.todo: list[Load | Unload | Count | Discard] = []
        self.files: set[EngineName] = set()
        self.running: dict[RequestId, EngineName | None] = {}
        self.asked: dict[RequestId, EngineName | None] = {}
        self.tell(Permitted(frozenset(NAMES)))

    def tell(self, event: Event) -> None:
        self.now_s += 0.5
        held_before = Counter(self.residency.state.held)
        owners = {name: account for name, account, _ in self.residency.state.warm.charges()}
        effects = self.residency.handle(event, self.now_s)
        self.nobody_lost_files_that_it_is_owed(effects, owners)
        if isinstance(event, Loaded | Unloaded):
            self.the_store_is_over_its_bounds_only_for_what_slots_hold()
        if isinstance(event, Requested):
            self.nobody_lost_what_it_is_owed(event.tenant, held_before)
        for effect in effects:
            match effect:
                case Dispatch(request):
                    name = self.asked[request]
                    assert name is None or name in self.engine, "dispatched to a version that is not loaded"
                    self.running[request] = name
                case Refuse(request):
                    assert request not in self.running
                    del self.asked[request]
                case Load() | Unload() | Count() | Discard():
                    self.todo.append(effect)

    def nobody_lost_what_it_is_owed(self, asking: TenantId, held_before: Counter[TenantId]) -> None:
        """I5: whoever asks, nobody else falls under its reserve, and the one that asks stays within its limit."""
        held = Counter(self.residency.state.held)
        for tenant in TENANTS:
            share = self.residency.accounts.share(tenant)
            if tenant != asking:
                assert held[tenant] >= min(held_before[tenant], share.reserve)
            elif held[tenant] > held_before[tenant]:
                assert held[tenant] <= share.limit

    def nobody_lost_files_that_it_is_owed(
        self, effects: Sequence[Effect], owners: Mapping[EngineName, TenantId | None]
    ) -> None:
        """I5: whose files went for others', or for the store's bound, held more than its reserve until then."""
        later = Counter[TenantId | None]()
        for effect in reversed([each for each in effects if isinstance(each, Discard) and each.cause is not None]):
            owner = owners[effect.name]
            later[owner] += SIZES[effect.name]
            assert owner is not None
            had = self.residency.state.warm.held(owner) + later[owner]
            assert had > self.residency.accounts.share(owner).reserve_bytes, f"{owner} lost {effect.name} of {had}"
            assert owner == effect.victim
            assert (effect.cause == "own") == (effect.by == owner)

    def the_store_is_over_its_bounds_only_for_what_slots_hold(self) -> None:
        warm, accounts = self.residency.state.warm, self.residency.accounts
        kept = kept_files(self.residency.state)
        for account in warm.accounts():
            assert account is not None
            has_free = any(name not in kept for name in warm.of(account))
            if warm.is_over:
                assert not has_free or warm.held(account) <= accounts.share(account).reserve_bytes

    @rule(
        quotas=st.dictionaries(
            st.sampled_from(TENANTS),
            st.tuples(*(st.tuples(st.integers(0, most), st.integers(1, most)) for most in (3, 45))),
        )
    )
    def set_quotas(self, quotas: dict[TenantId, tuple[tuple[int, int], tuple[int, int]]]) -> None:
        made = {
            tenant: Quota(min(slots), max(slots), None, min(store), max(store))
            for tenant, (slots, store) in quotas.items()
        }
        self.tell(Quotas(made))
        assert self.residency.accounts.num_reserved <= 3
        assert self.residency.accounts.bytes_reserved <= 40

    @rule(target=requests, name=st.sampled_from([None, *NAMES]), tenant=st.sampled_from(TENANTS))
    def ask(self, name: EngineName | None, tenant: TenantId) -> RequestId:
        self.num_asked += 1
        request = RequestId(f"r{self.num_asked}")
        self.asked[request] = name
        self.tell(Requested(request, name, tenant))
        return request

    @rule(request=consumes(requests))
    def release(self, request: RequestId) -> None:
        self.running.pop(request, None)
        self.asked.pop(request, None)
        self.tell(Released(request))

    @precondition(lambda self: self.todo)
    @rule(fate=st.sampled_from(["done", "done", "done", "failed", "lost before", "lost after"]))
    def carry_out(self, fate: str) -> None:
        match self.todo.pop(0):
            case Load(slot, name) if fate == "failed":
                self.files.add(name)
                self.tell(LoadFailed(slot, name, "load_failed", ""))
            case Load(slot, name):
                if fate != "lost before":
                    assert len(self.engine | {name}) <= 3, "the engine has no such slot"
                    self.engine.add(name)
                self.files.add(name)
                self.tell(Loaded(slot, name, SIZES[name]) if fate == "done" else Lost(slot, name, SIZES[name]))
            case Unload(slot, name):
                assert name not in self.running.values(), "I3: unloaded under a running request"
                if fate != "lost before":
                    self.engine.discard(name)
                self.tell(Unloaded(slot, name) if fate in ("done", "failed") else Lost(slot, name))
            case Count():
                self.tell(Counted(frozenset(self.engine)))
            case Discard(name):
                assert name not in self.engine, "I12: files deleted while the engine may read them"
                self.files.discard(name)

    @rule(names=st.sets(st.sampled_from(NAMES)))
    def permit(self, names: set[EngineName]) -> None:
        self.tell(Permitted(frozenset(names)))

    @rule()
    def engine_dies(self) -> None:
        self.engine.clear()
        self.todo.clear()
        self.running.clear()
        self.tell(EngineGone())

    @invariant()
    def totals_agree(self) -> None:
        invariants.check(self.residency.state)

    @invariant()
    def slots_bound_what_runs(self) -> None:
        """I4."""
        assert len({name for name in self.running.values() if name}) <= 3

    def teardown(self) -> None:
        """Once the engine has answered everything and what runs has ended, nobody waits."""
        for request in list(self.running):
            self.release(request)
        for _ in range(200):
            if not self.todo:
                break
            self.carry_out("done")
        assert not self.todo
        waiting = [
            r for r, lease in self.residency.state.leases.items() if not lease.running and lease.slot is not None
        ]
        assert not waiting


TestResidencyMachine = ResidencyMachine.TestCase
TestResidencyMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None, derandomize=True)
