"""One request of a scenario's client, read to its end, and what its client saw of it; here it is asked of an agent."""

import asyncio
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from hotset.core.clock import Clock, SystemClock
from hotset.core.errors import AdmissionError, HotsetError
from hotset.core.ids import KeyId, RequestId, Route, TenantId, engine_name
from hotset.core.messages import Delta, Failed, Generate, Sampling
from hotset.core.ports import Agent, Ticket, Work

_LOWEST_TOKEN = 100
#: What a client names an adapter by: an agent's takes routes, a tenant's takes names.
ModelT_contra = TypeVar("ModelT_contra", contravariant=True)


@dataclass(slots=True)
class Answer:
    """One request and what came of it; seconds count from its asking."""

    asked_at_s: float
    #: Until it was accepted or refused; where no time passed in the bench's, by the machine's clock.
    decided_s: float = 0.0
    first_token_s: float | None = None
    num_tokens: int = 0
    #: The code of what refused or failed it; empty where it was answered.
    code: str = ""
    #: Whether it was turned away before it ran.
    is_refused: bool = False
    retry_after_ms: int | None = None


class Asker(Protocol[ModelT_contra]):
    """Who the clients of a scenario ask."""

    async def ask(
        self,
        tenant: TenantId,
        model: ModelT_contra,
        chance: random.Random,
        /,
        *,
        prompt_tokens: int,
        new_tokens: int,
        budget_ms: int | None = None,
        on_tokens: Callable[[int], None] = lambda _: None,
    ) -> Answer:
        """Ask for one answer and read it; return what was seen. Cancelled, it ends in the engine, too.

        Args:
            tenant: Who asks.
            model: For which adapter.
            chance: Draws the prompt.
            prompt_tokens: Of the prompt, about.
            new_tokens: To generate, at most.
            budget_ms: First-token budget.
            on_tokens: Called with each count of tokens that came.
        """
        ...


class AgentAsker:
    """Asks one agent, each request by another id."""

    _numbers = itertools.count()

    def __init__(self, agent: Agent, clock: Clock, vocab_size: int, *, account: TenantId | None = None) -> None:
        """Prepare to ask.

        Args:
            agent: Who is asked.
            clock: Where time comes from.
            vocab_size: Of the base, for prompts at random.
            account: Whose all requests are to the agent, where it is not to tell tenants apart.
        """
        self._agent = agent
        self._clock = clock
        self._machine_clock = SystemClock()
        self._vocab_size = vocab_size
        self._account = account

    async def ask(
        self,
        tenant: TenantId,
        route: Route,
        chance: random.Random,
        /,
        *,
        prompt_tokens: int,
        new_tokens: int,
        budget_ms: int | None = None,
        on_accepted: Callable[[float], None] = lambda _: None,
        on_tokens: Callable[[int], None] = lambda _: None,
    ) -> Answer:
        """Ask for one answer and read it; return what was seen. Cancelled, it ends in the engine, too.

        Args:
            tenant: Who asks.
            route: For which version.
            chance: Draws the prompt.
            prompt_tokens: Of the prompt.
            new_tokens: To generate.
            budget_ms: First-token budget.
            on_accepted: Called when it has its place in the engine, with the seconds until its version was in its slot.
            on_tokens: Called with each count of tokens that came.
        """
        request = RequestId(f"{tenant}-{next(self._numbers)}")
        generate = Generate(
            request_id=request,
            engine_name=engine_name(route),
            cache_salt=tenant,
            sampling=Sampling(temperature=0.0, max_tokens=new_tokens, ignore_eos=True),
            prompts=(tuple(chance.choices(range(_LOWEST_TOKEN, self._vocab_size), k=prompt_tokens)),),
        )
        answer = Answer(self._clock.monotonic_s())
        work = Work(request, self._account or tenant, KeyId("bench"), route, generate, budget_ms)
        began_s = self._machine_clock.monotonic_s()
        try:
            ticket = await self._agent.submit(work)
        except HotsetError as error:
            answer.decided_s = self._since(answer, began_s)
            answer.code, answer.is_refused = error.code, True
            answer.retry_after_ms = error.retry_after_ms if isinstance(error, AdmissionError) else None
            return answer
        answer.decided_s = self._since(answer, began_s)
        on_accepted(ticket.load_seconds)
        try:
            await self._read(ticket, answer, on_tokens)
        except asyncio.CancelledError:
            await ticket.abort()
            raise
        return answer

    def _since(self, answer: Answer, began_s: float) -> float:
        waited_s = self._clock.monotonic_s() - answer.asked_at_s
        return waited_s or self._machine_clock.monotonic_s() - began_s

    async def _read(self, ticket: Ticket, answer: Answer, on_tokens: Callable[[int], None]) -> None:
        while events := await ticket.events():
            num_tokens = sum(event.num_tokens for event in events if isinstance(event, Delta))
            if num_tokens:
                if answer.first_token_s is None:
                    answer.first_token_s = self._clock.monotonic_s() - answer.asked_at_s
                answer.num_tokens += num_tokens
                on_tokens(num_tokens)
            if isinstance(events[-1], Failed):
                answer.code = events[-1].code
