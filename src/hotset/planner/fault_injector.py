"""Lets each fault of a plan befall a simulated fleet, and heals it after its time."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from hotset.planner.operator_acts import OperatorActs
from hotset.planner.virtual_agent import VirtualAgent
from hotset.planner.virtual_control import VirtualControl
from hotset.planner.virtual_database import VirtualDatabase
from hotset.planner.virtual_gateway import VirtualGateway
from hotset.sim.clocks import SkewedClock
from hotset.sim.faults import Fault, Plan
from hotset.sim.network import Address, Network, Quality
from hotset.sim.world import World

_LATE_S = 2.0


class _Act(Protocol):
    def __call__(self, fault: Fault, *, begins: bool) -> None: ...


@dataclass(slots=True)
class Parts:
    """Everything of a fleet that may fail."""

    network: Network
    control: VirtualControl
    agents: Mapping[Address, VirtualAgent]
    #: Second agents of the same identities.
    seconds: Mapping[Address, VirtualAgent]
    gateways: Mapping[Address, VirtualGateway]
    clocks: Mapping[Address, SkewedClock]
    database: VirtualDatabase
    operators: OperatorActs


class FaultInjector:
    """Carries a plan out."""

    def __init__(self, world: World, parts: Parts, plan: Plan) -> None:
        """Let the faults happen, each at its time from now."""
        self._world = world
        self._parts = parts
        self._rng: random.Random = world.randomness("what faults do")
        self._is_over = False
        #: Faults that are not healed yet.
        self._present: dict[Fault, None] = {}
        self._acts: dict[str, _Act] = {
            "agent crash": self._crash_agent,
            "gateway crash": self._crash_gateway,
            "control crash": self._crash_control,
            "engine death": self._end_engine,
            "engine hang": self._hang_engine,
            "engine mute": self._mute_engine,
            "partition": self._split,
            "bad network": self._worsen_network,
            "slow disk": self._slow_disk,
            "full disk": self._fill_disk,
            "corrupt store": self._corrupt_store,
            "flipped bit": self._flip_bit,
            "clock drift": self._drift,
            "database away": self._cut_off,
            "second agent": self._start_second,
            "freeze": parts.operators.freeze,
            "cordon": parts.operators.cordon,
            "drain": parts.operators.drain,
            "quarantine": parts.operators.quarantine,
            "tenant move": parts.operators.move_tenant,
            "worker move": parts.operators.move_worker,
        }
        for fault in plan:
            world.after(fault.at_s, f"fault: {fault}", partial(self._befall, fault))

    def end(self) -> None:
        """Heal what is present and let nothing more happen."""
        self._is_over = True
        for fault in list(self._present):
            self._heal(fault)

    def _befall(self, fault: Fault) -> None:
        if self._is_over:
            return
        self._present[fault] = None
        self._acts[fault.kind](fault, begins=True)
        self._world.after(fault.lasts_s, f"healed: {fault}", partial(self._heal, fault))

    def _heal(self, fault: Fault) -> None:
        if fault in self._present:
            del self._present[fault]
            self._acts[fault.kind](fault, begins=False)

    # Each takes a fault and whether it begins; one that is over at once does nothing at its end.

    def _crash_agent(self, fault: Fault, *, begins: bool) -> None:
        _run(self._parts.agents[fault.subject], is_up=not begins)

    def _cut_off(self, fault: Fault, *, begins: bool) -> None:
        cut_off = self._parts.database.cut_off
        cut_off.add(fault.subject) if begins else cut_off.discard(fault.subject)

    def _start_second(self, fault: Fault, *, begins: bool) -> None:
        _run(self._parts.seconds[fault.subject], is_up=begins)

    def _crash_gateway(self, fault: Fault, *, begins: bool) -> None:
        _run(self._parts.gateways[fault.subject], is_up=not begins)

    def _crash_control(self, fault: Fault, *, begins: bool) -> None:
        if begins:
            self._parts.control.crash()
        else:
            self._parts.control.start()

    def _end_engine(self, fault: Fault, *, begins: bool) -> None:
        life = self._parts.agents[fault.subject].life
        if begins and life is not None:
            life.engine.die()

    def _hang_engine(self, fault: Fault, *, begins: bool) -> None:
        life = self._parts.agents[fault.subject].life
        if begins and life is not None:
            life.engine.hang(fault.lasts_s)

    def _mute_engine(self, fault: Fault, *, begins: bool) -> None:
        life = self._parts.agents[fault.subject].life
        if life is not None:
            life.engine.mute_share = fault.size if begins else 0.0

    def _split(self, fault: Fault, *, begins: bool) -> None:
        self._parts.network.split(dict.fromkeys(fault.subject.split(","), 1) if begins else {})

    def _worsen_network(self, fault: Fault, *, begins: bool) -> None:
        share = fault.size if begins else 0.0
        self._parts.network.quality = Quality(lost_share=share, repeated_share=share, late_share=share, late_s=_LATE_S)

    def _slow_disk(self, fault: Fault, *, begins: bool) -> None:
        self._parts.agents[fault.subject].store.slowness = fault.size if begins else 1.0

    def _fill_disk(self, fault: Fault, *, begins: bool) -> None:
        self._parts.agents[fault.subject].store.is_full = begins

    def _corrupt_store(self, fault: Fault, *, begins: bool) -> None:
        self._parts.agents[fault.subject].store.corrupt_share = fault.size if begins else 0.0

    def _flip_bit(self, fault: Fault, *, begins: bool) -> None:
        if begins:
            self._parts.agents[fault.subject].store.corrupt(self._rng)

    def _drift(self, fault: Fault, *, begins: bool) -> None:
        self._parts.clocks[fault.subject].set_rate(fault.size if begins else 1.0)


def _run(node: VirtualAgent | VirtualGateway, *, is_up: bool) -> None:
    """Bring a node up or down, unless it is so already."""
    if is_up and not node.is_up:
        node.start()
    elif node.is_up and not is_up:
        node.crash()
