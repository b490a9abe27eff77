"""One request of a gateway at the agent's door: what the engine brings of it goes over the gateway's link."""

import asyncio
import logging
import math

from hotset.core.errors import EngineUnavailableError, HotsetError
from hotset.core.messages import Failed, Finished
from hotset.core.ports import Agent, Ticket, Waiting, Work
from hotset.links.link import Link
from hotset.links.refusals import refusal_of
from hotset.links.worker_messages import WINDOW, Accepted, Batch, ToWorker, Waits

_log = logging.getLogger(__name__)
_LAST = (Finished, Failed)


class GuestStream:
    """One request of a guest: a task that ends when the request does, however that is."""

    def __init__(self, agent: Agent, link: Link[ToWorker], number: int, work: Work) -> None:
        self._agent = agent
        self._link = link
        self._number = number
        #: Batches that may still be sent before some were taken.
        self._credit = WINDOW
        self._more_credit = asyncio.Event()
        self.task = asyncio.create_task(self._run(work))

    def taken(self, num_batches: int) -> None:
        """The gateway read so many more batches."""
        self._credit += num_batches
        self._more_credit.set()

    async def _run(self, work: Work) -> None:
        try:
            ticket = await self._agent.submit(work, self._tell_waiting)
        except HotsetError as error:
            self._link.send(refusal_of(self._number, error))
            return
        except Exception:  # noqa: BLE001 - the request's outermost loop here: logged, and told as an outage
            _log.critical("the agent failed a request", exc_info=True)
            self._link.send(refusal_of(self._number, EngineUnavailableError("The agent failed.")))
            return
        self._link.send(Accepted(self._number, ticket.lane, ticket.load_seconds))
        try:
            await self._relay(ticket)
        finally:
            await ticket.abort()

    def _tell_waiting(self, waiting: Waiting) -> None:
        expected_ms = None if waiting.expected_s is None else math.ceil(waiting.expected_s * 1000)
        self._link.send(Waits(self._number, waiting.lane, expected_ms))

    async def _relay(self, ticket: Ticket) -> None:
        while True:
            events = await ticket.events()
            self._link.send(Batch(self._number, events))
            if not events or isinstance(events[-1], _LAST):
                return
            self._credit -= 1
            while self._credit <= 0:
                self._more_credit.clear()
                await self._more_credit.wait()
            await self._link.writable()
