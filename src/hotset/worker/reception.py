"""Takes requests in at one engine: each waits for its slot and its place, and is accounted for until its lease ends."""

import asyncio
import math
from collections.abc import Callable

from hotset.admission.prompt_length import estimated_tokens
from hotset.core.clock import Clock
from hotset.core.errors import (
    AdapterColdError,
    HotsetError,
    LoadFailedError,
    SlotsFullError,
    TooManyRequestsError,
)
from hotset.core.ids import EngineName, RequestId
from hotset.core.ports import Lane, OnWaiting, Waiting, Work
from hotset.dispatch.dispatcher import Arrived, Dispatcher, Told
from hotset.engines.port import Engine
from hotset.residency.events import Released
from hotset.worker.lease_ticket import LeaseTicket
from hotset.worker.observing import Observer
from hotset.worker.progress import Progress
from hotset.worker.running import Running
from hotset.worker.turns import Turns


class Reception:
    """Of one engine's life; implements `LeaseAccount` for the tickets that it gives out."""

    def __init__(
        self,
        engine: Engine,
        dispatcher: Dispatcher,
        tell: Callable[[Told], None],
        *,
        observer: Observer,
        progress: Progress,
        load_timeout_s: float,
        clock: Clock,
    ) -> None:
        """Begin with no requests.

        Args:
            engine: Runs what is dispatched.
            dispatcher: To look at: what is where, and what is to be expected.
            tell: Gives the dispatcher an event and carries out what it answers.
            observer: Hears of each request.
            progress: Hears of all that the engine brings.
            load_timeout_s: How long a request waits at most.
            clock: Where time comes from.
        """
        self._engine = engine
        self._dispatcher = dispatcher
        self._tell = tell
        self._observer = observer
        self._progress = progress
        self._load_timeout_s = load_timeout_s
        self._clock = clock
        #: Who waits here.
        self.turns = Turns()
        #: Who runs in the engine.
        self.running = Running()

    async def submit(self, work: Work, name: EngineName | None, on_waiting: OnWaiting | None = None) -> LeaseTicket:
        """Accept the work once its version is in a slot; see `core.ports.Agent.submit`."""
        assert work.generate.engine_name == name, "I1: the request is not for its own route"
        request = work.request_id
        dispatched = self.turns.begin(request)
        began_s = self._clock.monotonic_s()
        tier = self._tier(name)
        self._observer.looked_up(name, tier)
        lane: Lane = "hot" if tier == "hot" else "loading"
        num_sequences = work.generate.n * len(work.generate.prompts or (None,))
        budget_s = None if work.budget_ms is None else work.budget_ms / 1000
        expected_s = self._expected_s(name, work, lane, num_sequences, began_s)
        self._observer.arrived(request, name, lane, expected_s)
        self._tell(Arrived(request, name, work.tenant, estimated_tokens(work.generate), num_sequences, budget_s))
        if on_waiting is not None and not dispatched.done():
            on_waiting(Waiting(lane, expected_s))
        patience_s = self._load_timeout_s if budget_s is None else min(self._load_timeout_s, budget_s)
        try:
            if not dispatched.done():
                async with asyncio.timeout(patience_s):
                    await dispatched
            hot_at_s = dispatched.result()
        except TimeoutError as error:
            missed = self._missed(work, name, lane)
            self.release(request)
            raise missed from error
        except (HotsetError, asyncio.CancelledError):
            self.release(request)
            raise
        finally:
            self.turns.end(request)
            self._observer.settled(request)
        stream = self._engine.generate(work.generate)
        ticket = LeaseTicket(stream, request, self, lane=lane, load_seconds=max(0.0, hot_at_s - began_s))
        self.running.add(request, ticket)
        return ticket

    def _missed(self, work: Work, name: EngineName | None, lane: Lane) -> HotsetError:
        """Return what a request is refused with whose wait took too long."""
        if lane == "hot":
            return TooManyRequestsError("The request's turn did not come in time.")
        if work.budget_ms is not None:
            until_hot = self._dispatcher.outlook.until_hot(name, work.tenant, self._clock.monotonic_s())
            return AdapterColdError(retry_after_ms=max(1, math.ceil(until_hot.expected_s * 1000)))
        if self._dispatcher.waits_for_slot(work.request_id):
            return SlotsFullError()
        return LoadFailedError("The adapter was not ready in time.")

    def _expected_s(
        self, name: EngineName | None, work: Work, lane: Lane, num_sequences: int, now_s: float
    ) -> float | None:
        """Return in how many seconds the first token is expected; None where nothing was seen yet to tell by.

        Also None of requests that wait for nothing and set no budget: to reckon costs some microseconds.
        """
        if lane == "hot" and work.budget_ms is None and self._dispatcher.queue.has_place(num_sequences, name):
            return None
        return self._dispatcher.outlook.until_first_token(name, work.tenant, num_sequences, now_s).expected_s or None

    def _tier(self, name: EngineName | None) -> str:
        residency = self._dispatcher.residency
        if name is None or residency.is_hot(name):
            return "hot"
        return "warm" if name in residency.state.warm else "cold"

    # --- the account of its tickets --------------------------------------------------------------------

    def served(self, request: RequestId, *, input_tokens: int | None = None, output_tokens: int = 0) -> None:
        """Charge the tenant for a prompt's true length, or for tokens generated."""
        self._progress.made()
        self._dispatcher.queue.served(request, input_tokens=input_tokens, output_tokens=output_tokens)

    def first_token(self, request: RequestId) -> None:
        """Learn how long prompts take, and how good the prediction was."""
        self._observer.first_token(request)
        self._dispatcher.outlook.first_token(request, self._clock.monotonic_s())

    def release(self, request: RequestId) -> None:
        """End a lease; of a request that was refused there is none, and it is only forgotten."""
        self._observer.ended(request)
        self.running.ended(request)
        self._tell(Released(request))
