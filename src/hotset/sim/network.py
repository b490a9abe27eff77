"""Messages between simulated nodes: delayed, lost, late, repeated, or kept apart by a partition."""

from collections.abc import Callable
from dataclasses import dataclass

from hotset.sim.world import World

Address = str
#: Takes who sent it, and the message.
Receive = Callable[[Address, object], None]


@dataclass(frozen=True, slots=True)
class Quality:
    """What a network does to messages; shares are from 0 to 1."""

    delay_s: float = 0.0005
    lost_share: float = 0.0
    repeated_share: float = 0.0
    late_share: float = 0.0
    #: The longest delay of a late message.
    late_s: float = 2.0


class Network:
    """Every node's way to every other one. What is sent to a node that is down is lost."""

    def __init__(self, world: World, quality: Quality) -> None:
        self._world = world
        self._rng = world.randomness("network")
        self.quality = quality
        self._nodes: dict[Address, Receive] = {}
        #: Nodes that are cut off, each with the number of its side; others are on side 0.
        self._sides: dict[Address, int] = {}
        self.num_lost = self.num_late = self.num_repeated = 0

    def attach(self, address: Address, receive: Receive) -> None:
        """Let a node hear what is sent to an address from now on, also what is under way already."""
        self._nodes[address] = receive

    def detach(self, address: Address) -> None:
        """Let nobody hear at an address."""
        self._nodes.pop(address, None)

    def split(self, sides: dict[Address, int]) -> None:
        """Keep the nodes of different sides apart; an empty mapping heals."""
        self._sides = sides

    def send(self, source: Address, target: Address, message: object) -> None:
        """Send a message; nobody is told what becomes of it."""
        quality, rng = self.quality, self._rng
        if rng.random() < quality.lost_share:
            self.num_lost += 1
            return
        self._deliver_later(source, target, message)
        if rng.random() < quality.repeated_share:
            self.num_repeated += 1
            self._deliver_later(source, target, message)

    def _deliver_later(self, source: Address, target: Address, message: object) -> None:
        quality, rng = self.quality, self._rng
        delay_s = quality.delay_s * (0.5 + rng.random())
        if rng.random() < quality.late_share:
            self.num_late += 1
            delay_s += quality.late_s * rng.random()
        what = f"{source} to {target}: {type(message).__name__} {message}"
        self._world.after(delay_s, what, lambda: self._deliver(source, target, message))

    def _deliver(self, source: Address, target: Address, message: object) -> None:
        receive = self._nodes.get(target)
        if receive is not None and self._sides.get(source, 0) == self._sides.get(target, 0):
            receive(source, message)
