"""The clients of a running fleet, over a transport in memory: what they ask, and what they make of the answers."""

import asyncio
import random
from collections.abc import Callable, Sequence

import httpx
import msgspec
import pytest

from hotset.bench.asking import Answer
from hotset.bench.connections import Connections
from hotset.bench.gateway_asker import CUT_SHORT, GatewayAsker, gateway_asker
from hotset.core.errors import HotsetError, InvalidRequestError, ServerUnreachableError, UnauthenticatedError
from hotset.core.ids import TenantId
from tests.support.fake_clock import FakeClock

ACME = TenantId("acme.key")
URLS = ("http://g1", "http://g2/behind/")
TEXT = b'data: {"choices":[{"index":0,"text":"a"}],"usage":null}\n\n'
USAGE = b'data: {"choices":[],"usage":{"completion_tokens":5}}\n\n'
DONE = b"data: [DONE]\n\n"

Handler = Callable[[httpx.Request], httpx.Response]


def asker(handler: Handler, urls: Sequence[str] = URLS) -> GatewayAsker:
    connections = Connections(lambda: httpx.AsyncClient(transport=httpx.MockTransport(handler)))
    return GatewayAsker(connections, urls, {ACME: "hs_secret"}, FakeClock())


def listing(*models: dict[str, object]) -> httpx.Response:
    return httpx.Response(200, json={"object": "list", "data": models})


def refusal(status: int, code: str, **more: object) -> httpx.Response:
    return httpx.Response(status, json={"error": {"message": "no", "code": code}, **more})


def test_adapters_are_listed_each_once_and_bases_are_not() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == "Bearer hs_secret"
        asked.append(str(request.url))
        return listing(
            {"id": "base", "parent": None},
            {"id": "support", "parent": "base"},
            {"id": "support@1", "parent": "base"},
            {"id": "a/b", "parent": "base"},
        )

    asked: list[str] = []
    assert asyncio.run(asker(answer).models(ACME)) == ("support", "a/b")
    assert asked == ["http://g1/v1/models", "http://g2/behind/v1/models"]


@pytest.mark.parametrize(
    ("response", "error", "says"),
    [
        (refusal(401, "unauthenticated"), UnauthenticatedError, "http://g1 does not take the key of acme.key"),
        (refusal(503, "control_unreachable"), ServerUnreachableError, "503 (control_unreachable)"),
        (refusal(403, "permission_denied"), InvalidRequestError, "permission_denied"),
        (httpx.Response(404, text="nothing here"), ServerUnreachableError, "404 (status_404): nothing here"),
        (httpx.Response(200, text="<html>"), ServerUnreachableError, "http://g1 is not a gateway's tenant plane"),
    ],
)
def test_what_can_not_list_models_says_why(response: httpx.Response, error: type[HotsetError], says: str) -> None:
    with pytest.raises(error) as raised:
        asyncio.run(asker(lambda _: response).models(ACME))
    assert says in raised.value.message
    assert "hs_secret" not in raised.value.message


def test_gateways_of_two_fleets_are_noticed() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return listing({"id": f"of-{request.url.host}", "parent": "base"})

    with pytest.raises(InvalidRequestError, match="of one fleet"):
        asyncio.run(asker(answer).models(ACME))


def test_a_gateway_that_is_away_is_named() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    for asking in (
        asker(answer).models(ACME),
        asker(answer).ask(ACME, "m", random.Random(0), prompt_tokens=1, new_tokens=1),
    ):
        with pytest.raises(ServerUnreachableError, match="http://g1 does not answer: refused"):
            asyncio.run(asking)


async def ask(handler: Handler, counts: list[int], *, budget_ms: int | None = None) -> Answer:
    return await asker(handler).ask(
        ACME, "support", random.Random(0), prompt_tokens=7, new_tokens=5, budget_ms=budget_ms, on_tokens=counts.append
    )


def test_a_stream_is_asked_for_and_its_tokens_are_set_right_by_its_usage() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(msgspec.json.decode(request.content))
        budgets.append(request.headers.get("hotset-first-token-budget-ms"))
        return httpx.Response(200, content=b": waiting\n\n" + TEXT + TEXT + USAGE + DONE)

    bodies: list[dict[str, object]] = []
    budgets: list[str | None] = []
    counts: list[int] = []
    seen = asyncio.run(ask(answer, counts, budget_ms=800))
    assert (seen.code, seen.num_tokens, seen.is_refused) == ("", 5, False)
    assert seen.first_token_s is not None
    assert counts == [1, 1, 3]
    assert len(str(bodies[0].pop("prompt")).split()) == 7
    assert bodies == [
        {
            "model": "support",
            "max_tokens": 5,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ]
    asyncio.run(ask(answer, counts))
    assert budgets == ["800", None]


def test_requests_take_the_gateways_in_turn() -> None:
    async def three() -> None:
        one = asker(answer)
        for _ in range(3):
            await one.ask(ACME, "m", random.Random(0), prompt_tokens=1, new_tokens=1)

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        return httpx.Response(200, content=TEXT + DONE)

    asked: list[str] = []
    asyncio.run(three())
    assert asked == ["g1", "g2", "g1"]


def test_refusals_and_broken_streams_are_counted_by_their_codes() -> None:
    told = refusal(429, "adapter_cold", retry_after_ms=700)
    cold = asyncio.run(ask(lambda _: told, []))
    assert (cold.code, cold.is_refused, cold.retry_after_ms) == ("adapter_cold", True, 700)
    missed = asyncio.run(ask(lambda _: refusal(429, "first_token_budget_exceeded", retry_after_ms=700), []))
    assert (missed.is_refused, missed.retry_after_ms) == (False, None)
    event = b'data: {"error":{"message":"no","code":"engine_failed"}}\n\n'
    assert asyncio.run(ask(lambda _: httpx.Response(200, content=TEXT + event), [])).code == "engine_failed"
    assert asyncio.run(ask(lambda _: httpx.Response(200, content=TEXT), [])).code == CUT_SHORT


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (refusal(401, "unauthenticated"), UnauthenticatedError),
        (refusal(404, "model_not_found"), InvalidRequestError),
        (refusal(400, "context_length_exceeded"), InvalidRequestError),
        (httpx.Response(200, text="<html></html>"), ServerUnreachableError),
    ],
)
def test_what_would_befall_every_request_ends_the_asking(response: httpx.Response, error: type[HotsetError]) -> None:
    with pytest.raises(error):
        asyncio.run(ask(lambda _: response, []))


@pytest.mark.parametrize("address", ["localhost:8080", "ftp://g1", "http://", "http://key@g1", "http://g1?x=1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    async def enter() -> None:
        async with gateway_asker((address,), {}, FakeClock()):
            raise AssertionError

    with pytest.raises(InvalidRequestError, match="address"):
        asyncio.run(enter())


def test_a_connection_is_one_requests_at_a_time_and_the_last_one_is_used_again() -> None:
    connections = Connections(lambda: httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200))))
    with connections.one() as first, connections.one() as second:
        assert first is not second
    with connections.one() as again:
        assert again is first
    asyncio.run(connections.close())
    assert first.is_closed
    assert second.is_closed
