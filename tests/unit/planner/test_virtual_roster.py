"""A simulated control gives an identity to one agent at a time, through its own restarts and lost words."""

from hotset.core.fleet import Heartbeat, WorkerFacts
from hotset.core.ids import WorkerId
from hotset.planner.arrangement import Arrangement
from hotset.planner.fleet_rules import FleetRules
from hotset.planner.installation import BASE
from hotset.planner.protocol import Beat, Fenced, Register, Rejected
from hotset.planner.truth import Truth
from hotset.planner.virtual_membership import VirtualMembership
from hotset.planner.virtual_roster import VirtualRoster
from hotset.sim.clocks import SkewedClock
from hotset.sim.network import Network, Quality
from hotset.sim.world import World

W = WorkerId("w")
FACTS = WorkerFacts(worker=W, base=BASE, rank_class=16, num_slots=4, hardware_class="cpu", engine="e")


def made() -> tuple[World, VirtualRoster]:
    world = World(1)
    return world, VirtualRoster(world, {W: FACTS}, FleetRules(world, Truth(), lost_after_s=2.0))


def pass_time(world: World, seconds: float) -> None:
    until_s = world.now_s + seconds
    world.after(seconds, "time passes", lambda: None)
    while world.now_s < until_s:
        world.step()


def beat(fence: int, number: int, life: int = 1) -> Beat:
    return Beat(Heartbeat(worker=W, fence=fence, number=number, is_ready=True), life)


def test_a_second_agent_gets_the_identity_once_the_first_is_silent() -> None:
    world, roster = made()
    assert roster.register("one", Register(W, 1, 1, 0)) == 1
    assert roster.register("one", Register(W, 1, 2, 0)) == 1  # its answer was lost
    assert roster.register("two", Register(W, 1, 1, 0)) is None
    assert not roster.heard("two", beat(0, 1))
    pass_time(world, 1.5)
    assert roster.heard("one", beat(1, 1))
    pass_time(world, 1.5)  # its link is lost, but it was heard a moment ago
    assert roster.register("two", Register(W, 1, 2, 0)) is None
    pass_time(world, 1.5)
    roster.mark_lost()
    assert roster.entries(Arrangement(BASE)) == {}
    assert roster.register("two", Register(W, 1, 3, 0)) == 2
    assert not roster.heard("one", beat(1, 2))
    assert roster.register("one", Register(W, 1, 3, 1)) is None
    (entry,) = roster.entries(Arrangement(BASE)).values()
    assert (entry.facts.address, entry.fence) == ("two", 2)


def test_who_starts_again_is_who_it_was_and_counts_from_the_start() -> None:
    world, roster = made()
    roster.register("one", Register(W, 1, 1, 0))
    assert roster.heard("one", beat(1, 7))
    pass_time(world, 2.0)
    assert roster.register("one", Register(W, 2, 1, 1)) == 1
    assert roster.heard("one", beat(1, 1, life=2))
    assert roster.heartbeats()[W].number == 1
    assert not roster.heard("one", beat(1, 8, life=1))


def test_control_that_starts_anew_gives_nobodys_identity_away() -> None:
    world, roster = made()
    roster.register("one", Register(W, 1, 1, 0))
    pass_time(world, 10.0)
    roster.restart()
    assert roster.able() == [W]
    assert roster.register("two", Register(W, 1, 1, 0)) is None
    assert not roster.heard("one", beat(1, 1))
    assert roster.register("one", Register(W, 1, 2, 1)) == 1


def test_an_agent_hears_answers_to_its_last_word_alone() -> None:
    world = World(1)
    network, said = Network(world, Quality()), list[object]()
    network.attach("control", lambda _, message: said.append(message))
    member = VirtualMembership(network, "one", SkewedClock(world), worker=W, control="control")
    member.tell_control(beat(0, 1))
    member.tell_control(beat(0, 2))
    assert not member.hear(Fenced(1, 1, 5))
    assert member.fence == 0
    assert member.hear(Rejected(1, 2))
    pass_time(world, 9.0)
    member.serve_alone()
    assert member.fence == 0
    member.tell_control(beat(0, 3))
    assert not member.hear(Fenced(1, 3, 5))
    assert member.fence == 5
    pass_time(world, 1.0)
    member.tell_control(beat(5, 4))
    pass_time(world, 1.0)
    assert [type(message) for message in said] == [Register, Register, Register, Beat]


def test_an_agent_that_served_goes_on_without_control() -> None:
    world = World(1)
    member = VirtualMembership(Network(world, Quality()), "one", SkewedClock(world), worker=W, control="control")
    member.tell_control(beat(0, 1))
    member.hear(Fenced(1, 1, 5))
    member.begin()
    member.serve_alone()
    assert member.fence == 0
    pass_time(world, 2.0)
    member.serve_alone()
    assert member.fence == 5
