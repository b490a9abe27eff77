"""As whom a simulated agent serves, as `worker.membership` keeps it for a real one."""

from hotset.core.ids import WorkerId
from hotset.planner.protocol import Beat, Fenced, Register, Rejected
from hotset.routing.identity import may_serve_alone
from hotset.sim.clocks import SkewedClock
from hotset.sim.network import Address, Network

#: After its start an agent waits so long for control before it serves under the fence that it kept; its own seconds.
_PATIENCE_S = 1.2


class VirtualMembership:
    """One agent's through all its lives; the fence that it keeps on its disk outlives them."""

    def __init__(
        self, network: Network, address: Address, clock: SkewedClock, *, worker: WorkerId, control: Address
    ) -> None:
        self._network, self._address, self._clock = network, address, clock
        self.worker, self._control = worker, control
        self._kept_fence = 0
        self.life = 0
        self.begin()

    def begin(self) -> None:
        """Start another life, in which nobody has said yet that it may serve."""
        self.life += 1
        #: Under which it serves; 0 while it may not.
        self.fence = 0
        self._num_asked = 0
        self._is_registered = self._is_rejected = False
        self._heard_at_s = self._clock.monotonic_s()

    def tell_control(self, beat: Beat) -> None:
        """Ask to be the worker, or, where control knows that it is, tell how it is."""
        if self._is_registered:
            self._network.send(self._address, self._control, beat)
            return
        self._num_asked += 1
        fence = self.fence or self._kept_fence
        self._network.send(self._address, self._control, Register(self.worker, self.life, self._num_asked, fence))

    def serve_alone(self) -> None:
        """Without control, go on as who it was."""
        silence_s = self._clock.monotonic_s() - self._heard_at_s
        if not self.fence and may_serve_alone(
            kept_fence=self._kept_fence,
            is_rejected=self._is_rejected,
            silence_s=silence_s,
            patience_s=_PATIENCE_S,
        ):
            self.fence = self._kept_fence

    def hear(self, answer: Fenced | Rejected) -> bool:
        """Take control's answer, unless it is late; whether the agent serves no more by it."""
        if (answer.life, answer.count) != (self.life, self._num_asked) or self._is_registered:
            return False
        self._heard_at_s = self._clock.monotonic_s()
        if isinstance(answer, Fenced):
            self._is_registered, self._is_rejected = True, False
            self.fence = self._kept_fence = answer.fence
            return False
        self._is_rejected, self.fence = True, 0
        return True

    def unlinked(self, fence: int) -> None:
        """Control knows nothing of the link that it was told on."""
        if fence == self.fence:
            self._is_registered = False
