"""What befalls a run, drawn from its seed: crashes, slow disks, a bad network, clocks that drift, operators' acts."""

import random
from dataclasses import dataclass, replace
from typing import Literal, get_args

from hotset.core.ids import TenantId
from hotset.sim.faults import Fault, Plan
from hotset.sim.network import Address

Kind = Literal[
    "agent crash",
    "gateway crash",
    "control crash",
    "engine death",
    "engine hang",
    "engine mute",
    "partition",
    "bad network",
    "slow disk",
    "full disk",
    "corrupt store",
    "flipped bit",
    "clock drift",
    "database away",
    "second agent",
    "freeze",
    "cordon",
    "drain",
    "quarantine",
    "tenant move",
    "worker move",
]
#: Drawn more often: outcomes and words that are lost have the most ways to go wrong, and a second agent has to meet
#: with a first one that is gone.
_LIKELIER: tuple[Kind, ...] = ("engine mute", "engine mute", "bad network", "partition", "second agent", "second agent")
#: How bad each is at least and at most, where there is a measure.
_SIZES: dict[Kind, tuple[float, float]] = {
    "engine mute": (0.3, 0.9),
    "bad network": (0.005, 0.05),
    "slow disk": (3.0, 60.0),
    "corrupt store": (0.2, 1.0),
    "clock drift": (0.8, 1.25),
    "quarantine": (0.0, 1.0),
}


@dataclass(frozen=True, slots=True)
class Nodes:
    """Who there is to fail."""

    agents: tuple[Address, ...]
    gateways: tuple[Address, ...]
    control: Address
    #: Who may be moved between pools.
    tenants: tuple[TenantId, ...]

    def all(self) -> tuple[Address, ...]:
        """Return every address."""
        return (*self.agents, *self.gateways, self.control)


def draw_plan(rng: random.Random, nodes: Nodes, *, until_s: float, every_s: float) -> Plan:
    """Draw the faults of a run.

    Args:
        rng: Where to draw from.
        nodes: Who there is to fail.
        until_s: None begins later.
        every_s: Mean seconds between two.
    """
    faults, at_s = list[Fault](), 0.0
    kinds: tuple[Kind, ...] = (*get_args(Kind), *_LIKELIER)
    while (at_s := at_s + rng.expovariate(1 / every_s)) < until_s:
        kind = rng.choice(kinds)
        lasts_s = min(8.0, 0.3 + rng.expovariate(0.5))
        fault = Fault(kind, _subject(rng, kind, nodes), at_s, lasts_s, rng.uniform(*_SIZES.get(kind, (0, 0))))
        faults += _takeover(rng, fault, nodes) if kind == "second agent" else (fault,)
    return tuple(faults)


def _takeover(rng: random.Random, second: Fault, nodes: Nodes) -> Plan:
    """Return a second agent and what mostly lets it serve: the first is gone, or reaches gateways but no control."""
    lasts_s = rng.uniform(2.0, 5.0)
    longer = replace(second, lasts_s=lasts_s + second.lasts_s)
    match rng.choice(("nothing", "agent crash", "partition", "partition")):
        case "agent crash":
            return longer, Fault("agent crash", second.subject, second.at_s, lasts_s)
        case "partition":
            with_it = rng.sample(nodes.gateways, rng.randint(0, len(nodes.gateways)))
            return longer, Fault("partition", ",".join((second.subject, *with_it)), second.at_s, lasts_s)
        case _:
            return (second,)


def _subject(rng: random.Random, kind: Kind, nodes: Nodes) -> str:
    match kind:
        case "control crash" | "freeze" | "quarantine":
            return nodes.control
        case "tenant move":
            return rng.choice(nodes.tenants)
        case "gateway crash" | "database away":
            return rng.choice(nodes.gateways)
        case "partition":
            everybody = nodes.all()
            return ",".join(rng.sample(everybody, rng.randint(1, len(everybody) // 2)))
        case "bad network":
            return "network"
        case "clock drift":
            return rng.choice((*nodes.agents, *nodes.gateways))
        case _:
            return rng.choice(nodes.agents)
