"""The snapshot that a simulated gateway applies: how fresh it is, and who may do what by it."""

from hotset.core.errors import HotsetError, UnauthenticatedError
from hotset.core.snapshot import KeyEntry, RoutingSnapshot
from hotset.planner.exchanges import Exchange
from hotset.planner.protocol import Holds, Published
from hotset.routing.resolve import Resolved, resolve, stop_reason
from hotset.sim.clocks import SkewedClock
from hotset.sim.network import Address, Network


class HeldSnapshot:
    """One life's; it begins with none."""

    def __init__(
        self, network: Network, address: Address, clock: SkewedClock, *, control: Address, age_max_s: float
    ) -> None:
        """Hold an empty snapshot that is too old.

        Args:
            network: The way to control.
            address: The gateway's own.
            clock: The gateway's own.
            control: Who publishes.
            age_max_s: After how long without control's word it is too old, by the gateway's clock.
        """
        self._network, self._address, self._clock, self._control = network, address, clock, control
        self._age_max_s = age_max_s
        self.snapshot = RoutingSnapshot()
        #: When the snapshot was asked for that control said last is the newest; own clock.
        self._fresh_at_s = -age_max_s

    @property
    def epoch(self) -> int:
        """Of the snapshot."""
        return self.snapshot.epoch

    def ask_control(self) -> None:
        """Ask which snapshot is the newest."""
        self._network.send(self._address, self._control, Holds(self.epoch, self._clock.monotonic_s()))

    def take(self, published: Published) -> bool:
        """Take control's word; whether the snapshot is a newer one."""
        if published.asked_at_s is not None:
            self._fresh_at_s = max(self._fresh_at_s, published.asked_at_s)
        if published.snapshot.epoch <= self.epoch:
            return False
        self.snapshot = published.snapshot
        return True

    def is_outdated(self) -> bool:
        """Whether control was not heard for so long that nobody is served any more."""
        return self._clock.monotonic_s() - self._fresh_at_s >= self._age_max_s

    def authenticate(self, key_hash: str) -> KeyEntry:
        """Return whose key it is.

        Raises:
            UnauthenticatedError: nobody's who may call.
        """
        entry = self.snapshot.keys.get(key_hash)
        if entry is None or entry.tenant not in self.snapshot.tenants:
            raise UnauthenticatedError
        if entry.expires_at_s is not None and entry.expires_at_s <= self._clock.wall_s():
            raise UnauthenticatedError
        return entry

    def resolve(self, key: KeyEntry, model: str) -> Resolved:
        """Return what a model's name stands for.

        Raises:
            ModelNotFoundError: nothing that this key may call.
        """
        return resolve(self.snapshot, key, model)

    def stop_reason(self, exchange: Exchange) -> HotsetError | None:
        """Return why a request that was resolved earlier may not begin now; None where it may."""
        if self.epoch == exchange.epoch:
            return None
        return stop_reason(self.snapshot, exchange.asked.key_hash, exchange.key, exchange.bound)
