"""Every rule that is asserted from outside fails where it is broken."""

from collections import Counter

import pytest

from hotset.admission.fair_queue import FairQueue
from hotset.admission.outcomes import Outcome
from hotset.core.ids import AdapterId, Alias, EngineName, RequestId, TenantId, engine_name
from hotset.core.ports import Withdrawal
from hotset.core.quotas import Quota
from hotset.core.snapshot import KeyEntry
from hotset.dispatch.dispatcher import Dispatcher
from hotset.planner.client_rules import ClientRules
from hotset.planner.exchanges import Asked
from hotset.planner.installation import Installation, Tenant, key_of
from hotset.planner.protocol import Stamp
from hotset.planner.rules import BrokenRuleError, EngineRules, Held
from hotset.planner.truth import Truth
from hotset.residency.events import Discard, Fetched, Load, Loaded, Permitted, Quotas, TimePassed
from hotset.residency.residency import Residency
from hotset.routing.resolve import resolve
from hotset.sim.world import World

A, B = EngineName("hs-a"), EngineName("hs-b")
R1 = RequestId("r1")
ACME, GLOBEX = TenantId("acme"), TenantId("globex")


def engine_rules() -> EngineRules:
    return EngineRules("agent-0", 1, Truth(weights={A: b"a", B: b"b"}, approved={A}))


def test_i3_an_unload_under_a_request() -> None:
    engine_rules().engine_unloads(A, [])
    with pytest.raises(BrokenRuleError, match=r"I3: .* while"):
        engine_rules().engine_unloads(A, [R1])


def test_i4_more_adapters_than_slots() -> None:
    engine_rules().engine_began(R1, {A, None})
    with pytest.raises(BrokenRuleError, match=r"I4: .* 2 adapters run in 1 slots"):
        engine_rules().engine_began(R1, {A, B})


def test_i6_bytes_that_nobody_approved_or_that_are_others() -> None:
    engine_rules().engine_loaded(A, b"a")
    with pytest.raises(BrokenRuleError, match=r"I6: .*nobody approved"):
        engine_rules().engine_loaded(B, b"b")
    with pytest.raises(BrokenRuleError, match=r"I6: other bytes"):
        engine_rules().engine_loaded(A, b"b")


def test_i7_a_load_of_what_was_withdrawn() -> None:
    dispatcher = Dispatcher(Residency(num_slots=1, warm_bytes_max=1), FairQueue(sequences_max=1), waiting_max=1)
    rules = engine_rules()
    held = rules.before(dispatcher)
    rules.after(Permitted(frozenset({A})), dispatcher.handle(Permitted(frozenset({A})), 0.0), dispatcher, held, None)
    rules.after(TimePassed(), [Load(0, A)], dispatcher, held, None)
    dispatcher.handle(Permitted(frozenset({A, B})), 0.0)  # whatever the policy takes for permitted itself
    with pytest.raises(BrokenRuleError, match=r"I7: .* is to load hs-b, withdrawn here"):
        rules.after(TimePassed(), [Load(0, B)], dispatcher, held, None)


@pytest.mark.parametrize("event", [TimePassed(), Loaded(0, A, 1, 0.1)])
def test_i5_a_slot_that_is_gone_though_its_tenant_is_owed_it(event: TimePassed | Loaded) -> None:
    dispatcher = Dispatcher(Residency(num_slots=1, warm_bytes_max=1), FairQueue(sequences_max=1), waiting_max=1)
    rules = engine_rules()
    for told in (Quotas({ACME: Quota(reserve_slots=1)}), Permitted(frozenset({A}))):
        rules.after(told, dispatcher.handle(told, 0.0), dispatcher, rules.before(dispatcher), None)
    nothing, held = rules.before(dispatcher), Held(Counter({ACME: 1}), {})
    rules.after(event, [], dispatcher, nothing, None)
    rules.after(event, [], dispatcher, held, ACME)  # by its own request
    with pytest.raises(BrokenRuleError, match=r"I5: acme holds 0 of 1"):
        rules.after(event, [], dispatcher, held, None)


def test_files_that_came_ahead_and_found_no_room_are_nobodys_loss() -> None:
    dispatcher = Dispatcher(Residency(num_slots=1, warm_bytes_max=1), FairQueue(sequences_max=1), waiting_max=1)
    held = engine_rules().before(dispatcher)
    assert not held.files
    engine_rules().after(Fetched(A, ACME, 2), [Discard(A, "borrow", ACME, ACME)], dispatcher, held, None)


def test_i11_waiting_for_what_was_withdrawn() -> None:
    engine_rules().none_waits_for_withdrawn([A, None], frozenset({A}))
    with pytest.raises(BrokenRuleError, match=r"I11: .*wait"):
        engine_rules().none_waits_for_withdrawn([A, B], frozenset({A}))


def test_i12_files_that_the_engine_may_read_again() -> None:
    engine_rules().files_deleted(A, [B])
    with pytest.raises(BrokenRuleError, match=r"I12"):
        engine_rules().files_deleted(A, [A])


class Clients:
    """Two tenants with an adapter each, under one alias, and one request of acme's."""

    def __init__(self) -> None:
        self.world = World(1)
        self.installation = Installation()
        for name in (ACME, GLOBEX):
            key_hash, entry = key_of(name)
            tenant = Tenant(name, "steady", Quota(), key_hash, 1.0)
            adapter = AdapterId(name, "a")
            self.installation.publish(adapter, 8)
            tenant.grants[Alias("a")] = adapter
            self.installation.tenants[name] = tenant
            self.installation.keys[key_hash] = entry
        self.rules = ClientRules(self.world, self.installation.truth, withdrawn_within_s=5.0)
        self.publish()

    def publish(self, cut: Withdrawal | None = None) -> int:
        truth = self.installation.truth
        epoch = len(truth.published) + 1
        truth.published[epoch] = (self.world.now_s, self.installation.snapshot(epoch))
        if cut is not None:
            truth.cuts.append((epoch, cut))
        return epoch

    def key(self, tenant: TenantId) -> KeyEntry:
        return key_of(tenant)[1]

    def ask(self, *, bound_to: TenantId = ACME) -> Stamp:
        """Let acme ask; return the stamp of the version that it is bound to."""
        self.rules.asked(Asked(R1, key_of(ACME)[0], "a", 1, 2), ACME)
        bound = resolve(self.installation.truth.snapshot, self.key(bound_to), "a")
        self.rules.bound(R1, self.key(ACME), bound, 1)
        name = engine_name(bound.route)
        assert name is not None
        return Stamp(name, self.installation.truth.weights[name])

    def pass_time(self, seconds: float) -> None:
        self.world.after(seconds, "time passes", lambda: None)
        self.world.step()


def test_a_request_from_its_route_to_its_end() -> None:
    clients = Clients()
    stamp = clients.ask()
    clients.rules.token(R1, stamp, 1)
    clients.rules.token(R1, stamp, 1)
    clients.rules.ended(R1, Outcome.COMPLETED, "")
    clients.rules.all_ended()
    assert clients.rules.endings == {("completed", ""): 1}


def test_i1_a_token_of_other_bytes() -> None:
    clients = Clients()
    stamp = clients.ask()
    with pytest.raises(BrokenRuleError, match=r"I1"):
        clients.rules.token(R1, Stamp(stamp.name, b"others"), 1)
    with pytest.raises(BrokenRuleError, match=r"I1"):
        clients.rules.token(R1, Stamp(None, b""), 1)


def test_i2_another_tenants_adapter() -> None:
    with pytest.raises(BrokenRuleError, match=r"I2: .* not granted"):
        Clients().ask(bound_to=GLOBEX)


def test_i2_a_key_that_passes_for_anothers() -> None:
    clients = Clients()
    clients.rules.asked(Asked(R1, key_of(ACME)[0], "a", 1, 1), ACME)
    bound = resolve(clients.installation.truth.snapshot, clients.key(ACME), "a")
    with pytest.raises(BrokenRuleError, match=r"I2: .* passes for"):
        clients.rules.bound(R1, clients.key(GLOBEX), bound, 1)


def test_i2_a_refusal_that_tells_more_than_that_there_is_no_such_model() -> None:
    clients = Clients()
    clients.rules.asked(Asked(R1, key_of(ACME)[0], "foreign", 1, 1), ACME)
    with pytest.raises(BrokenRuleError, match=r"I2: .* hears adapter_cold"):
        clients.rules.ended(R1, Outcome.REFUSED, "adapter_cold")


def test_i8_endings_that_are_none_two_or_short() -> None:
    clients = Clients()
    stamp = clients.ask()
    with pytest.raises(BrokenRuleError, match=r"I8: 1 requests never end"):
        clients.rules.all_ended()
    with pytest.raises(BrokenRuleError, match=r"I8: .* asked twice"):
        clients.ask()
    clients.rules.token(R1, stamp, 1)
    with pytest.raises(BrokenRuleError, match=r"I8: .* completes with 1 of 2"):
        clients.rules.ended(R1, Outcome.COMPLETED, "")
    with pytest.raises(BrokenRuleError, match=r"I8: .* second time"):
        clients.rules.ended(R1, Outcome.FAILED, "engine_failed")
    with pytest.raises(BrokenRuleError, match=r"I8: .* does not run"):
        clients.rules.token(R1, stamp, 1)


def test_i11_a_first_token_at_a_gateway_that_knows_better() -> None:
    clients = Clients()
    stamp = clients.ask()
    clients.installation.keys.clear()
    epoch = clients.publish()
    with pytest.raises(BrokenRuleError, match=r"I11: .* applied epoch 2"):
        clients.rules.token(R1, stamp, epoch)


def test_i11_a_first_token_long_after_the_grant_was_taken() -> None:
    clients = Clients()
    stamp = clients.ask()
    clients.installation.tenants[ACME].grants.clear()
    clients.publish()
    clients.publish()
    clients.pass_time(6.0)
    with pytest.raises(BrokenRuleError, match=r"I11: .* 6.000 s after epoch 2"):
        clients.rules.token(R1, stamp, 1)


def test_a_first_token_soon_after_a_withdrawal_or_after_it_was_taken_back_is_fine() -> None:
    clients = Clients()
    stamp = clients.ask()
    clients.installation.serving.clear()
    clients.publish()
    clients.pass_time(4.0)
    clients.rules.token(R1, stamp, 1)
    assert clients.rules.num_open == 1


def test_i11_a_cut_stream_that_goes_on() -> None:
    clients = Clients()
    stamp = clients.ask()
    clients.rules.token(R1, stamp, 1)
    epoch = clients.publish(Withdrawal(tenant=ACME))
    clients.rules.token(R1, stamp, 1)  # this gateway has not heard of it
    with pytest.raises(BrokenRuleError, match=r"I11: .* which cuts it"):
        clients.rules.token(R1, stamp, epoch)
