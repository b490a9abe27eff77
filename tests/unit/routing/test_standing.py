"""Whom a worker serves is what the snapshot says of its pool, and nothing while it drains."""

from hotset.core.fleet import WorkerEntry, WorkerFacts
from hotset.core.ids import Digest, PoolName, TenantId, WorkerId
from hotset.core.quotas import Quota
from hotset.core.snapshot import RoutingSnapshot
from hotset.routing.standing import standing_of

BASE, OTHER = Digest("sha256:" + "a" * 64), Digest("sha256:" + "b" * 64)
ACME, GLOBEX, OWN = TenantId("acme"), TenantId("globex"), PoolName("own")
W = WorkerId("w")
FACTS = WorkerFacts(worker=W, base=BASE, rank_class=16, num_slots=4, hardware_class="cpu", engine="e")


def snapshot(entry: WorkerEntry | None) -> RoutingSnapshot:
    return RoutingSnapshot(
        epoch=1,
        quotas={ACME: Quota(1), GLOBEX: Quota(2)},
        workers={} if entry is None else {W: entry},
        tenant_pools={(ACME, BASE): OWN, (GLOBEX, OTHER): OWN},
    )


def test_a_worker_of_no_fleet_serves_everybody() -> None:
    state = snapshot(None)
    standing = standing_of(state, None, BASE)
    assert standing.quotas == state.quotas
    assert standing.takes(state, ACME)
    assert standing.takes(state, GLOBEX)


def test_a_worker_that_the_snapshot_does_not_know_takes_nothing() -> None:
    state = snapshot(None)
    standing = standing_of(state, W, BASE)
    assert not standing.takes(state, ACME)
    assert not standing.takes(state, GLOBEX)


def test_a_pools_worker_serves_its_tenants_and_their_reserves_alone() -> None:
    state = snapshot(WorkerEntry(facts=FACTS, pool=OWN))
    standing = standing_of(state, W, BASE)
    assert standing.quotas == {ACME: Quota(1)}
    assert standing.takes(state, ACME)
    assert not standing.takes(state, GLOBEX)
    default = snapshot(WorkerEntry(facts=FACTS))
    assert standing_of(default, W, BASE).quotas == {GLOBEX: Quota(2)}


def test_a_draining_worker_takes_nothing_and_a_cordoned_one_what_still_comes() -> None:
    draining = snapshot(WorkerEntry(facts=FACTS, state="draining"))
    assert not standing_of(draining, W, BASE).takes(draining, GLOBEX)
    cordoned = snapshot(WorkerEntry(facts=FACTS, state="cordoned"))
    assert standing_of(cordoned, W, BASE).takes(cordoned, GLOBEX)
