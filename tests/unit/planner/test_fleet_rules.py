"""The rules of a fleet fail where they are broken: fences, pools, drained workers."""

import pytest

from hotset.core.fleet import WorkerEntry, WorkerFacts
from hotset.core.ids import KeyId, PoolName, RequestId, Route, TenantId, WorkerId
from hotset.core.messages import Generate, Sampling
from hotset.core.ports import Work
from hotset.core.snapshot import RoutingSnapshot
from hotset.planner.fleet_rules import FleetRules
from hotset.planner.installation import BASE
from hotset.planner.protocol import Submit
from hotset.planner.rules import BrokenRuleError
from hotset.planner.truth import Truth
from hotset.sim.world import World

W, ACME, OWN = WorkerId("w"), TenantId("acme"), PoolName("own")
FACTS = WorkerFacts(worker=W, base=BASE, rank_class=16, num_slots=4, hardware_class="cpu", engine="e")
REQUEST = RequestId("r1")


class Watched:
    """One worker, as epoch 1 has it."""

    def __init__(self, entry: WorkerEntry | None = None) -> None:
        self.world = World(1)
        workers = {W: WorkerEntry(facts=FACTS, fence=1) if entry is None else entry}
        pools = {(ACME, BASE): workers[W].pool}
        self.truth = Truth(published={1: (0.0, RoutingSnapshot(epoch=1, workers=workers, tenant_pools=pools))})
        self.rules = FleetRules(self.world, self.truth, lost_after_s=3.0)

    def pass_time(self, seconds: float) -> None:
        self.world.after(seconds, "time passes", lambda: None)
        self.world.step()

    def submit(self, tenant: TenantId = ACME) -> Submit:
        generate = Generate(request_id=REQUEST, engine_name=None, cache_salt="", sampling=Sampling(), prompts=((1,),))
        return Submit(Work(REQUEST, tenant, KeyId("k"), Route(BASE), generate), 1, 1, 1)


def test_an_identity_goes_from_one_agent_to_another_once_that_one_is_lost() -> None:
    watched = Watched()
    watched.rules.granted(W, "one", 1)
    watched.rules.granted(W, "one", 1)
    watched.rules.heard(W, "one", 1)
    watched.pass_time(2.9)
    with pytest.raises(BrokenRuleError, match=r"fence: two becomes w, as which one was heard"):
        watched.rules.granted(W, "two", 2)
    watched.pass_time(0.1)
    watched.rules.granted(W, "two", 2)
    watched.rules.heard(W, "two", 2)


def test_a_fence_is_one_agents() -> None:
    watched = Watched()
    watched.rules.granted(W, "one", 1)
    watched.pass_time(5.0)
    with pytest.raises(BrokenRuleError, match=r"fence: 1 of .* is given to two"):
        watched.rules.granted(W, "two", 1)
    with pytest.raises(BrokenRuleError, match=r"fence: two passes for w"):
        watched.rules.heard(W, "two", 1)


def test_an_agent_serves_under_a_fence_that_it_was_given_and_nobody_outranks() -> None:
    watched = Watched()
    with pytest.raises(BrokenRuleError, match=r"fence: .* under fence 0"):
        watched.rules.took(W, "one", 0, watched.submit(), 1)
    watched.rules.granted(W, "one", 1)
    watched.rules.took(W, "one", 1, watched.submit(), 1)
    outranked = Watched(WorkerEntry(facts=FACTS, fence=2))
    outranked.rules.granted(W, "one", 1)
    with pytest.raises(BrokenRuleError, match=r"fence: .* outranked"):
        outranked.rules.took(W, "one", 1, outranked.submit(), 1)


def test_a_pools_worker_gets_requests_of_its_tenants_alone() -> None:
    watched = Watched(WorkerEntry(facts=FACTS, pool=OWN, fence=1))
    watched.rules.granted(W, "one", 1)
    watched.rules.sent(ACME, W, 1)
    watched.rules.took(W, "one", 1, watched.submit(), 1)
    with pytest.raises(BrokenRuleError, match=r"pool: w of own is to serve globex of default"):
        watched.rules.sent(TenantId("globex"), W, 1)
    with pytest.raises(BrokenRuleError, match=r"pool: w of own"):
        watched.rules.took(W, "one", 1, watched.submit(TenantId("globex")), 1)


def test_workers_that_operators_took_out_get_nothing_new() -> None:
    cordoned = Watched(WorkerEntry(facts=FACTS, state="cordoned", fence=1))
    cordoned.rules.granted(W, "one", 1)
    with pytest.raises(BrokenRuleError, match=r"drain: .* cordoned since epoch 1"):
        cordoned.rules.sent(ACME, W, 1)
    cordoned.rules.took(W, "one", 1, cordoned.submit(), 1)
    draining = Watched(WorkerEntry(facts=FACTS, state="draining", fence=1))
    draining.rules.granted(W, "one", 1)
    with pytest.raises(BrokenRuleError, match=r"drain: one takes r1, draining"):
        draining.rules.took(W, "one", 1, draining.submit(), 1)
    with pytest.raises(BrokenRuleError, match=r"fence: .* does not know"):
        draining.rules.sent(ACME, WorkerId("gone"), 1)
