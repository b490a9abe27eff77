"""Pick: a home that is ready first, then what is nearest to it; never another pool, nor a worker that takes nothing."""

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from hotset.core.fleet import WorkerEntry
from hotset.core.ids import PoolName, Route, TenantId, WorkerId, engine_name
from hotset.routing.pick import DEFAULT_PICK, Sight, pick
from hotset.routing.rendezvous import rank
from tests.support.fleets import entry_of, fleet_snapshot, sight_of, version_route
from tests.support.snapshots import ACME, BASE, GLOBEX

ROUTE = version_route(1)
NAME = engine_name(ROUTE)
ABC = ("a", "b", "c")
FLEET = fleet_snapshot(map(entry_of, ABC), [ROUTE], {ROUTE: ABC})
DRAWN = rank(NAME or "", dict.fromkeys(map(WorkerId, ABC), 8.0))


def seen(**sights: Sight) -> dict[WorkerId, Sight]:
    return {WorkerId(name): sight for name, sight in sights.items()}


def test_resident_comes_before_warm_before_room_before_a_full_worker() -> None:
    entries = map(entry_of, "abcde")
    snapshot = fleet_snapshot(entries, [ROUTE], {ROUTE: "abcde"})
    sights = seen(
        a=sight_of("a", num_free_slots=0),
        b=sight_of("b"),
        c=sight_of("c", warm=(NAME,)),
        d=sight_of("d", loading=(NAME,), num_free_slots=0),
        e=sight_of("e", resident=(NAME,), num_free_slots=0),
    )
    assert pick(snapshot, ACME, ROUTE, sights) == ("e", "d", "c", "b", "a")


def test_of_two_residents_the_one_with_fewer_requests_is_picked() -> None:
    sights = seen(
        a=sight_of("a", resident=(NAME,), num_running=6),
        b=sight_of("b", resident=(NAME,), num_running=5),
        c=sight_of("c", resident=(NAME,), num_running=3, num_sent=4),
    )
    assert pick(FLEET, ACME, ROUTE, sights) == ("b", "a", "c")


def test_a_resident_home_with_a_long_queue_loses_to_a_warm_one() -> None:
    sights = seen(a=sight_of("a", resident=(NAME,), num_waiting=40, oldest_wait_s=9.0), b=sight_of("b", warm=(NAME,)))
    assert pick(FLEET, ACME, ROUTE, sights)[0] == "b"


def test_measured_loads_count_more_than_assumed_ones() -> None:
    sights = seen(
        a=sight_of("a", warm=(NAME,), warm_load_s=8.0), b=sight_of("b", cold_load_s=2.0), c=sight_of("c", warm=(NAME,))
    )
    assert pick(FLEET, ACME, ROUTE, sights) == ("c", "b", "a")


def test_ties_go_by_the_draw_of_version_and_worker() -> None:
    assert pick(FLEET, ACME, ROUTE, seen(**{name: sight_of(name) for name in ABC})) == tuple(DRAWN)


def test_only_homes_are_picked_while_one_is_left() -> None:
    snapshot = fleet_snapshot(map(entry_of, ABC), [ROUTE], {ROUTE: ["b"]})
    sights = seen(a=sight_of("a", resident=(NAME,)), b=sight_of("b", num_free_slots=0), c=sight_of("c"))
    assert pick(snapshot, ACME, ROUTE, sights) == ("b",)


def test_without_a_home_everybody_picks_the_one_that_would_be_given() -> None:
    snapshot = fleet_snapshot([*map(entry_of, ABC), entry_of("big", rank_class=64)], [ROUTE], {ROUTE: ["gone"]})
    sights = seen(**{name: sight_of(name) for name in (*ABC, "big")})
    assert pick(snapshot, ACME, ROUTE, sights) == (DRAWN[0],)
    del sights[DRAWN[0]]
    assert pick(snapshot, ACME, ROUTE, sights) == (DRAWN[1],)


def test_without_a_home_the_lowest_rank_class_that_takes_the_version_is_picked_though_a_higher_one_is_idle() -> None:
    classes = {"low": 4, "fits": 8, "wide": 64}
    entries = [entry_of(name, rank_class=rank_class) for name, rank_class in classes.items()]
    snapshot = fleet_snapshot(entries, [ROUTE], {})
    busy = seen(low=sight_of("low"), fits=sight_of("fits", num_running=50), wide=sight_of("wide", resident=(NAME,)))
    assert pick(snapshot, ACME, ROUTE, busy) == ("fits",)


def test_workers_that_take_nothing_are_not_picked() -> None:
    entries = [
        entry_of("cordoned", state="cordoned"),
        entry_of("draining", state="draining"),
        entry_of("low", rank_class=4),
        entry_of("elsewhere", pool="big"),
        replace_base(entry_of("other")),
        *map(entry_of, ("leaving", "starting", "fenced", "silent", "unheard", "ready")),
    ]
    snapshot = fleet_snapshot(entries, [ROUTE], {ROUTE: [entry.facts.worker for entry in entries]})
    sights = seen(**{entry.facts.worker: sight_of(entry.facts.worker) for entry in entries})
    sights |= seen(
        leaving=sight_of("leaving", is_leaving=True),
        starting=sight_of("starting", is_ready=False),
        fenced=sight_of("fenced", fence=0),
        silent=sight_of("silent", age_s=DEFAULT_PICK.lost_after_s),
    )
    del sights[WorkerId("unheard")]
    assert pick(snapshot, ACME, ROUTE, sights) == ("ready",)


def replace_base(entry: WorkerEntry) -> WorkerEntry:
    facts = entry.facts
    return WorkerEntry(facts=type(facts)(**{**as_fields(facts), "base": "sha256:" + "b" * 64}))


def as_fields(facts: object) -> dict[str, object]:
    return {name: getattr(facts, name) for name in facts.__struct_fields__}  # type: ignore[attr-defined]


def test_old_news_is_discounted() -> None:
    stale = sight_of("a", resident=(NAME,), age_s=12.0)
    assert pick(FLEET, ACME, ROUTE, seen(a=stale, b=sight_of("b", warm=(NAME,))))[0] == "b"
    assert (
        pick(FLEET, ACME, ROUTE, seen(a=sight_of("a", resident=(NAME,), age_s=2.9), b=sight_of("b", warm=(NAME,))))[0]
        == "a"
    )


def test_a_dedicated_pool_and_the_shared_one_never_mix() -> None:
    entries = [*map(entry_of, ABC), entry_of("own", pool="big")]
    names = [entry.facts.worker for entry in entries]
    snapshot = replace(fleet_snapshot(entries, [ROUTE], {ROUTE: names}), tenant_pools={(ACME, BASE): PoolName("big")})
    sights = seen(**{name: sight_of(name) for name in names})
    assert pick(snapshot, ACME, ROUTE, sights) == ("own",)
    assert set(pick(snapshot, GLOBEX, ROUTE, sights)) == set(ABC)
    assert pick(snapshot, ACME, Route(BASE), sights) == ("own",)
    del sights[WorkerId("own")]
    assert pick(snapshot, ACME, ROUTE, sights) == ()
    assert pick(snapshot, ACME, Route(BASE), sights) == ()


def test_requests_for_the_base_spread_over_the_pool_by_load() -> None:
    sent = dict.fromkeys(ABC, 0)
    for _ in range(30):
        sights = seen(**{name: sight_of(name, num_sent=count) for name, count in sent.items()})
        sent[pick(FLEET, ACME, Route(BASE), sights)[0]] += 1
    assert sent == {"a": 10, "b": 10, "c": 10}


def test_a_version_that_is_withdrawn_is_picked_nowhere() -> None:
    snapshot = replace(FLEET, versions={})
    assert pick(snapshot, ACME, ROUTE, seen(**{name: sight_of(name) for name in ABC})) == ()


ENTRIES = st.lists(
    st.builds(
        entry_of,
        st.sampled_from("abcdef"),
        pool=st.sampled_from(["default", "big"]),
        state=st.sampled_from(["serving", "serving", "cordoned", "draining"]),
        rank_class=st.sampled_from([8, 64]),
    ),
    max_size=6,
    unique_by=lambda entry: entry.facts.worker,
)
SIGHTS = st.fixed_dictionaries(
    {},
    optional={
        WorkerId(name): st.builds(
            sight_of,
            st.just(name),
            age_s=st.floats(0.0, 20.0),
            num_sent=st.integers(0, 9),
            is_ready=st.booleans(),
            is_leaving=st.booleans(),
            num_free_slots=st.integers(0, 2),
            num_running=st.integers(0, 20),
            resident=st.sampled_from([(), (NAME,)]),
        )
        for name in "abcdef"
    },
)


@settings(max_examples=200, deadline=None)
@given(ENTRIES, SIGHTS, st.sets(st.sampled_from("abcdef")), st.sampled_from([ACME, GLOBEX]), st.integers(0, 2**16))
def test_whatever_is_known_only_able_workers_are_picked_in_one_order(
    entries: list[WorkerEntry], sights: dict[WorkerId, Sight], homes: set[str], tenant: TenantId, seed: int
) -> None:
    shuffle = random.Random(seed)
    pools = {(ACME, BASE): PoolName("big")}
    snapshot = replace(fleet_snapshot(entries, [ROUTE], {ROUTE: sorted(homes)}), tenant_pools=pools)
    other = replace(
        fleet_snapshot(shuffle.sample(entries, len(entries)), [ROUTE], {ROUTE: sorted(homes, reverse=True)}),
        tenant_pools=pools,
    )
    shuffled = {worker: sights[worker] for worker in shuffle.sample(sorted(sights), len(sights))}
    for route in (ROUTE, Route(BASE)):
        picked = pick(snapshot, tenant, route, sights)
        assert picked == pick(other, tenant, route, shuffled)
        assert len(set(picked)) == len(picked)
        for worker in picked:
            entry = snapshot.workers[worker]
            assert entry.pool == ("big" if tenant == ACME else "default")
            assert entry.state == "serving"
            assert sights[worker].heartbeat.is_ready
            assert not sights[worker].heartbeat.is_leaving
            assert sights[worker].age_s < DEFAULT_PICK.lost_after_s
    at_home = [worker for worker in pick(snapshot, tenant, ROUTE, sights) if worker in homes]
    assert at_home or len(pick(snapshot, tenant, ROUTE, sights)) <= 1
