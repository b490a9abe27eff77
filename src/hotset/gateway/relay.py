"""From a ticket's events to the client: one body at the end, or chunks as they come.

All deltas that are ready at once go out in one write, each as its own event. Nothing is held back: the next
events are asked for when the client's connection took the last ones.
"""

from collections.abc import Callable

from hotset.core.errors import EngineFailedError
from hotset.core.messages import Delta, EngineEvent, Failed, Finished
from hotset.core.ports import Ticket
from hotset.gateway.accounting import Account
from hotset.gateway.endpoints import Endpoint
from hotset.gateway.outlet import HeaderList, Outlet
from hotset.gateway.parse import Asked
from hotset.gateway.plane import Plane
from hotset.gateway.problems import engine_error
from hotset.gateway.rate_headers import rate_headers
from hotset.gateway.sse import DONE, Chunks
from hotset.gateway.whole import WholeAnswer

Begin = Callable[[], None]


class Relay:
    """Relays one request's answer."""

    __slots__ = ("_account", "_asked", "_endpoint", "_plane")

    def __init__(self, plane: Plane, endpoint: Endpoint, account: Account, asked: Asked) -> None:
        self._plane = plane
        self._endpoint = endpoint
        self._account = account
        self._asked = asked

    def open(self, outlet: Outlet) -> None:
        """Keep a stream alive from now on, whether its request runs or waits: a refusal at once comes before that."""
        settings = self._plane.settings
        if self._asked.stream:
            outlet.stream(
                lambda: self._headers(b"text/event-stream; charset=utf-8"),
                keepalive_after_s=settings.keepalive_after_s,
                every_s=settings.keepalive_every_s,
            )

    async def run(self, ticket: Ticket, outlet: Outlet, begin: Begin) -> None:
        """Relay until the last event.

        Args:
            ticket: The accepted request's.
            outlet: Where the answer goes.
            begin: Called once, when the first piece is there and none was sent; may refuse to go on.

        Raises:
            HotsetError: what the engine's `Failed` stands for, or what `begin` raised.
            ClientGoneError: the connection is closed.
        """
        if self._asked.stream:
            await self._stream(ticket, outlet, begin)
        else:
            body = await self.gather(ticket, begin)
            await outlet.answer(200, self._headers(b"application/json"), body)

    async def gather(self, ticket: Ticket, begin: Begin) -> bytes:
        """Return the whole answer's JSON, once the last event has come.

        Args:
            ticket: The accepted request's.
            begin: Called once, when the first piece is there; may refuse to go on.

        Raises:
            HotsetError: what the engine's `Failed` stands for, or what `begin` raised.
        """
        account, asked = self._account, self._asked
        answer = WholeAnswer(asked.num_choices, with_logprobs=asked.sampling.logprobs is not None)
        is_first, last = True, None
        while last is None:
            last = self._take(await ticket.events(), answer.add)
            if is_first and (account.completion_tokens or isinstance(last, Finished)):
                begin()
                is_first = False
        if isinstance(last, Failed):
            raise engine_error(last.code, last.message, last.param)
        return answer.body(
            self._endpoint,
            answer_id=self._answer_id,
            created=int(account.began_wall_s),
            model=asked.model,
            prompt_tokens=account.prompt_tokens,
            completion_tokens=account.completion_tokens,
        )

    async def _stream(self, ticket: Ticket, outlet: Outlet, begin: Begin) -> None:
        account, asked = self._account, self._asked
        chunks = Chunks(
            self._endpoint,
            answer_id=self._answer_id,
            created=int(account.began_wall_s),
            model=asked.model,
            num_choices=asked.num_choices,
            include_usage=asked.include_usage,
        )
        is_first, last = True, None
        while last is None:
            last = self._take(await ticket.events(), chunks.add)
            piece = chunks.take()
            is_whole = isinstance(last, Finished)
            if is_whole:
                piece += self._closing(chunks)
            if not piece:
                continue
            if is_first:
                begin()
                piece = chunks.opening() + piece
                is_first = False
            await outlet.write(piece, more=not is_whole)
        if isinstance(last, Failed):
            raise engine_error(last.code, last.message, last.param)

    def _take(self, events: list[EngineEvent], add: Callable[[Delta], None]) -> Finished | Failed | None:
        """Hand on deltas and count; return the last event where it is among these."""
        account, last = self._account, None
        for event in events:
            if isinstance(event, Delta):
                account.completion_tokens += event.num_tokens
                if account.first_token_at_s is None and event.text:
                    account.first_token_at_s = self._plane.clock.monotonic_s()
                add(event)
            elif isinstance(event, Finished):
                account.prompt_tokens = event.prompt_tokens
                account.completion_tokens = event.completion_tokens
                last = event
            elif isinstance(event, Failed):
                last = event
            else:
                account.prompt_tokens = event.prompt_tokens
        if not events:
            raise EngineFailedError
        if account.meter.is_bound:
            account.meter.use(account.prompt_tokens + account.completion_tokens, self._plane.clock.monotonic_s())
        return last

    def _closing(self, chunks: Chunks) -> bytes:
        if not self._asked.include_usage:
            return DONE
        return chunks.usage(self._account.prompt_tokens, self._account.completion_tokens) + DONE

    @property
    def _answer_id(self) -> str:
        return self._endpoint.id_prefix + self._account.request_id

    def _headers(self, content_type: bytes) -> HeaderList:
        account, now_s = self._account, self._plane.clock.monotonic_s()
        assert account.bound is not None
        headers = [
            (b"content-type", content_type),
            (b"cache-control", b"no-store"),
            (b"x-request-id", account.request_id.encode()),
            (b"hotset-route", account.bound.shown.encode()),
            (b"server-timing", account.server_timing(now_s)),
        ]
        if account.lane:  # not known where silence made a stream begin before
            headers.append((b"hotset-lane", account.lane.encode()))
        if account.budget.applied:
            headers.append((b"preference-applied", account.budget.applied))
        return headers + rate_headers(account.meter, now_s)
