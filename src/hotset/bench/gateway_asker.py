"""The scenarios' clients of a fleet that runs: HTTP requests to its gateways in turn, with tenants' own keys."""

import itertools
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import httpx
import msgspec

from hotset.bench.asking import Answer
from hotset.bench.completion_stream import AnswerBrokenError, read_line, read_refusal
from hotset.bench.connections import Connections, check_addresses, http_client_maker
from hotset.core.clock import Clock
from hotset.core.errors import InvalidRequestError, ServerUnreachableError, UnauthenticatedError
from hotset.core.ids import TenantId

#: The code of an answer that ended before its end.
CUT_SHORT = "cut_short"
_LIST_TIMEOUT_S = 30.0
_WORDS = (
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "it",
    "for",
    "as",
    "with",
    "was",
    "on",
    "by",
    "at",
    "from",
    "that",
    "not",
)


class _Model(msgspec.Struct):
    id: str
    parent: str | None = None


class _Models(msgspec.Struct):
    models: list[_Model] = msgspec.field(name="data")


_MODELS = msgspec.json.Decoder(_Models)


class GatewayAsker:
    """Asks a fleet's gateways in turn, for models by their names."""

    def __init__(
        self, connections: Connections, gateways: Sequence[str], tokens: Mapping[TenantId, str], clock: Clock
    ) -> None:
        """Prepare to ask.

        Args:
            connections: Where requests find their connections.
            gateways: Addresses of their tenant planes.
            tokens: Each client's key.
            clock: Where time comes from.
        """
        self._connections = connections
        self._gateways = tuple(gateway.rstrip("/") for gateway in gateways)
        self._turns = itertools.cycle(self._gateways)
        self._headers = {tenant: {"authorization": f"Bearer {token}"} for tenant, token in tokens.items()}
        self._clock = clock

    async def models(self, tenant: TenantId) -> tuple[str, ...]:
        """Return the names of a client's adapters, as every gateway lists them; none of a base, each once.

        Raises:
            UnauthenticatedError: a gateway does not take the key.
            ServerUnreachableError: a gateway does not answer, or not as one.
            InvalidRequestError: the gateways do not list the same.
        """
        listed = [await self._listed(gateway, tenant) for gateway in self._gateways]
        if any(each != listed[0] for each in listed):
            raise InvalidRequestError(f"The gateways list different models for {tenant}; are they of one fleet?")
        return listed[0]

    async def _listed(self, gateway: str, tenant: TenantId) -> tuple[str, ...]:
        try:
            with self._connections.one() as http:
                response = await http.get(
                    f"{gateway}/v1/models", headers=self._headers[tenant], timeout=_LIST_TIMEOUT_S
                )
        except httpx.TransportError as error:
            raise _away(gateway, error) from error
        if response.status_code != 200:
            raise self._stop(gateway, tenant, response.status_code, response.content)
        try:
            listed = _MODELS.decode(response.content)
        except msgspec.DecodeError as error:
            raise ServerUnreachableError(f"What answers at {gateway} is not a gateway's tenant plane.") from error
        return tuple(model.id for model in listed.models if model.parent is not None and "@" not in model.id)

    async def ask(
        self,
        tenant: TenantId,
        model: str,
        chance: random.Random,
        /,
        *,
        prompt_tokens: int,
        new_tokens: int,
        budget_ms: int | None = None,
        on_tokens: Callable[[int], None] = lambda _: None,
    ) -> Answer:
        """Ask the next gateway for one streamed completion and read it; return what was seen.

        Args:
            tenant: Whose key asks.
            model: The name it has there.
            chance: Draws the prompt.
            prompt_tokens: Words of the prompt.
            new_tokens: To generate, at most.
            budget_ms: First-token budget; without one the key's default holds.
            on_tokens: Called with each count of tokens that came; where their number was not the pieces', with what
                the usage says beyond that.

        Raises:
            UnauthenticatedError: the gateway does not take the key.
            ServerUnreachableError: it is away.
            InvalidRequestError: it will never serve such a request.
        """
        gateway = next(self._turns)
        headers = dict(self._headers[tenant])
        if budget_ms is not None:
            headers["Hotset-First-Token-Budget-Ms"] = str(budget_ms)
        body = {
            "model": model,
            "prompt": " ".join(chance.choices(_WORDS, k=prompt_tokens)),
            "max_tokens": new_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        answer = Answer(self._clock.monotonic_s())
        try:
            with self._connections.one() as http:
                async with http.stream("POST", f"{gateway}/v1/completions", json=body, headers=headers) as response:
                    if response.status_code == 200:
                        await self._read(response, answer, on_tokens)
                    else:
                        self._refuse(gateway, tenant, response.status_code, await response.aread(), answer)
        except httpx.TransportError as error:
            raise _away(gateway, error) from error
        return answer

    async def _read(self, response: httpx.Response, answer: Answer, on_tokens: Callable[[int], None]) -> None:
        answer.decided_s = self._since(answer)
        answer.code = CUT_SHORT
        async for line in response.aiter_lines():
            try:
                told = read_line(line)
            except AnswerBrokenError as error:
                raise ServerUnreachableError(f"What answers at {response.url} does not stream completions.") from error
            num_tokens = int(told.has_text)
            if told.has_text and answer.first_token_s is None:
                answer.first_token_s = self._since(answer)
            if told.num_tokens is not None:
                num_tokens = told.num_tokens - answer.num_tokens
            if num_tokens:
                answer.num_tokens += num_tokens
                on_tokens(num_tokens)
            if told.is_end:
                answer.code = told.code

    def _refuse(self, gateway: str, tenant: TenantId, status: int, body: bytes, answer: Answer) -> None:
        refused = read_refusal(status, body)
        if not refused.is_passing:
            raise self._stop(gateway, tenant, status, body)
        answer.decided_s = self._since(answer)
        answer.code, answer.is_refused = refused.code, refused.is_refused
        answer.retry_after_ms = refused.retry_after_ms

    def _since(self, answer: Answer) -> float:
        return self._clock.monotonic_s() - answer.asked_at_s

    def _stop(
        self, gateway: str, tenant: TenantId, status: int, body: bytes
    ) -> UnauthenticatedError | ServerUnreachableError | InvalidRequestError:
        """Return the error for an answer after which there is no use in going on."""
        refused = read_refusal(status, body)
        if status == 401:
            return UnauthenticatedError(f"{gateway} does not take the key of {tenant}: {refused.message}")
        if refused.is_passing or refused.code.startswith("status_"):
            return ServerUnreachableError(f"{gateway} answers {status} ({refused.code}): {refused.message}")
        return InvalidRequestError(f"{gateway} refuses the requests of {tenant} ({refused.code}): {refused.message}")


@asynccontextmanager
async def gateway_asker(
    gateways: Sequence[str], tokens: Mapping[TenantId, str], clock: Clock
) -> AsyncIterator[GatewayAsker]:
    """Give who asks these gateways with these keys; TLS trusts what the system trusts.

    Raises:
        InvalidRequestError: an address is not one of HTTP.
    """
    check_addresses(gateways)
    connections = Connections(http_client_maker())
    try:
        yield GatewayAsker(connections, gateways, tokens, clock)
    finally:
        await connections.close()


def _away(gateway: str, error: httpx.TransportError) -> ServerUnreachableError:
    return ServerUnreachableError(f"The gateway at {gateway} does not answer: {error or type(error).__name__}.")
