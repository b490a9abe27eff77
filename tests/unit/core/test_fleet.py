"""What workers, gateways and control exchange survives the wire, and means the same where a field was left out."""

import msgspec
import pytest

from hotset.core.errors import InvalidNameError
from hotset.core.fleet import DEFAULT_POOL, Heartbeat, PoolEntry, WorkerEntry, WorkerFacts
from hotset.core.ids import Digest, EngineName, PoolName, TenantId, WorkerId, parse_pool, parse_worker
from hotset.core.snapshot import RoutingSnapshot

BASE = Digest("sha256:" + "0" * 64)
FACTS = WorkerFacts(
    worker=WorkerId("gpu-1"), base=BASE, rank_class=16, num_slots=7, hardware_class="cpu", engine="embedded 0.1.0"
)
WORDS = (
    FACTS,
    Heartbeat(
        worker=WorkerId("gpu-1"), fence=3, number=9, resident=(EngineName("hs-1"),), in_flight={EngineName("hs-1"): 2}
    ),
    WorkerEntry(facts=FACTS, pool=PoolName("acme"), state="cordoned", fence=3),
    PoolEntry(pool=PoolName("acme"), base=BASE, kind="dedicated", rank_class=64, tenants=(TenantId("acme"),)),
)


@pytest.mark.parametrize("word", WORDS, ids=lambda word: type(word).__name__)
def test_a_word_of_the_fleet_comes_back_from_the_wire_as_it_went(word: msgspec.Struct) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(word), type=type(word)) == word


def test_a_tenant_without_an_assignment_is_in_the_default_pool_of_each_base() -> None:
    snapshot = RoutingSnapshot(tenant_pools={(TenantId("acme"), BASE): PoolName("big")})
    assert snapshot.pool_of(TenantId("acme"), BASE) == "big"
    assert snapshot.pool_of(TenantId("acme"), Digest("sha256:" + "1" * 64)) == DEFAULT_POOL
    assert snapshot.pool_of(TenantId("bolt"), BASE) == DEFAULT_POOL


@pytest.mark.parametrize("parse", [parse_worker, parse_pool])
def test_workers_and_pools_are_named_by_slugs(parse: type) -> None:
    assert parse("gpu-1") == "gpu-1"
    for text in ("", "-a", "a-", "A", "a b", "a/b", "a" * 64, "ä"):
        with pytest.raises(InvalidNameError):
            parse(text)
