"""A simulated engine: slots, continuous batching, loads that stall its loop, calls that hang, death.

It keeps the port's promises (`engines.port`) and no more: calls are taken one at a time between two steps; a name that
is not loaded fails. What it must never be asked to do, it reports as a broken rule.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from hotset.core.errors import LoadFailedError
from hotset.core.ids import EngineName, RequestId
from hotset.planner.calibration import Calibration
from hotset.planner.protocol import Stamp
from hotset.planner.rules import EngineRules
from hotset.sim.world import World

#: Takes the code of an error, or None where the call went well.
Answer = Callable[[str | None], None]
_CALL_S = 0.0002
_LATE_S = 4.0


@dataclass(slots=True)
class _Sequence:
    name: EngineName | None
    prompt_tokens: int
    tokens_left: int
    has_begun: bool = False


class Listener(Protocol):
    """Hears an engine: each step's tokens in one call, as one write brings them, and its death."""

    def tokens(self, tokens: list[tuple[RequestId, Stamp, bool]]) -> None:
        """Take one step's tokens, each with its request and whether it is the last."""
        ...

    def failed(self, request: RequestId, code: str) -> None:
        """Take a request's end without a full answer."""
        ...

    def gone(self) -> None:
        """Take the engine's death."""
        ...


class VirtualEngine:
    """One engine's life; another one is made after its death."""

    def __init__(
        self, world: World, subject: str, calibration: Calibration, listener: Listener, rules: EngineRules
    ) -> None:
        """Serve from now on.

        Args:
            world: Where time comes from.
            subject: Its worker's address, for the log.
            calibration: What things take.
            listener: Hears tokens and death.
            rules: Told everything that the rules speak of.
        """
        self._world = world
        self._subject = subject
        self._calibration = calibration
        self._listener = listener
        self._rules = rules
        self.loaded: dict[EngineName, bytes] = {}
        self._running: dict[RequestId, _Sequence] = {}
        self._calls: deque[tuple[float, Callable[[], None]]] = deque()
        self._is_busy = False
        self._hangs_until_s = 0.0
        self._rng = world.randomness(f"engine of {subject} at {world.now_s}")
        #: The share of loads and unloads whose outcome nobody hears: not done, done, or done late.
        self.mute_share = 0.0
        self.is_gone = False

    # --- what its agent asks ---------------------------------------------------------------------------

    def generate(self, request: RequestId, name: EngineName | None, prompt_tokens: int, output_tokens: int) -> None:
        """Start a request."""
        self._call(_CALL_S, lambda: self._add(request, _Sequence(name, prompt_tokens, output_tokens)))

    def abort(self, request: RequestId, confirmed: Callable[[], None]) -> None:
        """End a request; it is in the queue before whatever is asked later."""

        def drop() -> None:
            self._running.pop(request, None)
            confirmed()

        self._call(0.0, drop)

    def load(self, name: EngineName, weights: bytes, answer: Answer) -> None:
        """Put a version into a free slot."""
        place = partial(self._place, name, weights)
        fate = self._fate(("not done", "done", "late"))
        if fate == "late":  # staged on a thread of its own, so that other calls overtake it
            delay_s = _LATE_S * self._rng.random()
            self._world.after(delay_s, f"{self._subject} engine has staged {name} late", lambda: self._if_alive(place))
        else:
            self._change(fate, self._calibration.load_stall_s, place, answer)

    def unload(self, name: EngineName, answer: Answer) -> None:
        """Free a version's slot."""
        self._change(self._fate(("not done", "done")), _CALL_S, partial(self._unplace, name), answer)

    def inventory(self, answer: Callable[[frozenset[EngineName]], None]) -> None:
        """Say what is loaded."""
        self._call(_CALL_S, lambda: answer(frozenset(self.loaded)))

    # --- what befalls it -------------------------------------------------------------------------------

    def hang(self, seconds: float) -> None:
        """Do nothing for some time."""
        self._hangs_until_s = max(self._hangs_until_s, self._world.now_s + seconds)

    def die(self) -> None:
        """End, with everything that is in it."""
        if self.is_gone:
            return
        self.is_gone = True
        self._listener.gone()

    def _fate(self, fates: tuple[str, ...]) -> str:
        """Draw what becomes of a load or unload whose outcome nobody hears; empty for one that goes as it should."""
        if self._rng.random() >= self.mute_share:
            return ""
        fate = self._rng.choice(fates)
        self._world.log.note(f"{self._subject} engine: nobody hears how this call goes: {fate}")
        return fate

    def _change(self, fate: str, takes_s: float, change: Callable[[], str | None], answer: Answer) -> None:
        if fate == "":
            self._call(takes_s, lambda: answer(change()))
        elif fate == "done":
            self._call(takes_s, lambda: self._if_alive(change))

    def _if_alive(self, change: Callable[[], str | None]) -> None:
        if not self.is_gone:
            change()

    # --- its loop --------------------------------------------------------------------------------------

    def _call(self, takes_s: float, then: Callable[[], None]) -> None:
        self._calls.append((takes_s, then))
        self._wake()

    def _wake(self) -> None:
        if self._is_busy or self.is_gone or not (self._calls or self._running):
            return
        self._is_busy = True
        hung_s = max(0.0, self._hangs_until_s - self._world.now_s)
        if self._calls:
            takes_s, then = self._calls.popleft()
            self._world.after(hung_s + takes_s, f"{self._subject} engine takes a call", lambda: self._turn(then))
            return
        prompt_tokens = sum(each.prompt_tokens for each in self._running.values() if not each.has_begun)
        step_s = self._calibration.step(len(self._running), prompt_tokens)
        self._world.after(hung_s + step_s, f"{self._subject} engine steps", lambda: self._turn(self._step))

    def _turn(self, then: Callable[[], None]) -> None:
        if self.is_gone:
            return
        then()
        self._is_busy = False
        self._wake()

    def _step(self) -> None:
        tokens: list[tuple[RequestId, Stamp, bool]] = []
        for request, sequence in list(self._running.items()):
            sequence.has_begun = True
            sequence.tokens_left -= 1
            weights = b"" if sequence.name is None else self.loaded.get(sequence.name, b"")
            tokens.append((request, Stamp(sequence.name, weights), sequence.tokens_left == 0))
            if sequence.tokens_left == 0:
                del self._running[request]
        self._listener.tokens(tokens)

    def _add(self, request: RequestId, sequence: _Sequence) -> None:
        if sequence.name is not None and sequence.name not in self.loaded:
            self._listener.failed(request, LoadFailedError.code)
            return
        self._running[request] = sequence
        self._rules.engine_began(request, {each.name for each in self._running.values()})

    def _place(self, name: EngineName, weights: bytes) -> str | None:
        if name not in self.loaded and len(self.loaded) >= self._rules.num_slots:
            return LoadFailedError.code
        self._rules.engine_loaded(name, weights)
        self.loaded.setdefault(name, weights)
        return None

    def _unplace(self, name: EngineName) -> str | None:
        self._rules.engine_unloads(name, [r for r, each in self._running.items() if each.name == name])
        self.loaded.pop(name, None)
        return None
