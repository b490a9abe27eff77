"""A seed's verdict: clean ones come to rest, one seed is one run, a broken one says what and when."""

import random
from typing import get_args

import pytest

from hotset.core.ids import TenantId
from hotset.planner.fault_plan import Kind, Nodes, draw_plan
from hotset.planner.simulate import cut_plan, run_seed
from hotset.sim.faults import Fault

GATEWAYS = ("gateway-0", "gateway-1")
UNHEARD_OF = Fault("no such fault", "agent-0", 1.2, 0.1)


@pytest.mark.parametrize("seed", [1000, 1001])
def test_fleets_with_faults_come_to_rest_with_every_rule_kept(seed: int) -> None:
    verdict = run_seed(seed, 1500)
    assert verdict.is_clean, "\n".join([verdict.message, *verdict.last])
    assert verdict.num_events >= 1500
    assert verdict.endings["completed"] > 0


def test_every_kind_of_fault_befalls_a_fleet_and_is_healed() -> None:
    nodes = Nodes(("agent-0", "agent-1"), ("gateway-0",), "control", (TenantId("victim-a"), TenantId("rotator")))
    plan = draw_plan(random.Random(5), nodes, until_s=60.0, every_s=0.2)
    kinds = {fault.kind: fault for fault in plan}
    assert len(kinds) == len(get_args(Kind))
    early = tuple(
        Fault(kind, fault.subject, 0.7 + 0.1 * index, 0.6, fault.size)
        for index, (kind, fault) in enumerate(sorted(kinds.items()))
    )
    verdict = run_seed(7, 1500, early)
    assert verdict.is_clean, verdict.message
    assert verdict.lasted_s > early[-1].at_s, verdict.lasted_s


def test_jobs_end_once_though_gateways_die_and_lose_their_database() -> None:
    away = [Fault("database away", gateway, 1.0 + 2.5 * n, 2.2) for n in range(3) for gateway in GATEWAYS]
    crashes = [Fault("gateway crash", gateway, 0.9 + 1.7 * n, 0.4) for n in range(4) for gateway in GATEWAYS]
    mute = Fault("engine death", "agent-0", 2.0, 0.1)
    verdict = run_seed(14, 3000, (*away, *crashes, mute))
    assert verdict.is_clean, verdict.message
    assert verdict.endings["job completed"] > 0
    assert verdict.endings["failed connection_broken"] > 0


def test_the_same_seed_is_the_same_run() -> None:
    assert run_seed(5, 400) == run_seed(5, 400)
    assert run_seed(5, 400).digest != run_seed(6, 400).digest


def test_without_faults_nothing_fails_but_for_want_of_room_or_right() -> None:
    endings = run_seed(2, 1000, ()).endings
    assert not any(ending.startswith("failed silent") or "broken" in ending for ending in endings)


def test_what_a_run_dies_of_is_its_verdict_and_its_plan_is_cut_down_to_it() -> None:
    harmless = tuple(Fault("slow disk", "agent-0", 0.1 * index, 0.1, 2.0) for index in range(6))
    verdict = run_seed(3, 2000, (*harmless, UNHEARD_OF))
    assert (verdict.rule, verdict.message) == ("KeyError", "'no such fault'")
    assert not verdict.is_clean
    assert verdict.num_events < 2000
    assert "no such fault" in verdict.last[-1]
    assert cut_plan(verdict, 2000) == (UNHEARD_OF,)
