"""Rates of tenants and keys over a real socket: who is refused, what each answer says is left, whose budget counts."""

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvloop

from hotset.core.ids import Alias
from hotset.core.snapshot import RoutingSnapshot
from hotset.core.terms import Terms
from hotset.gateway.settings import GatewaySettings
from tests.support.plane_world import PlaneWorld
from tests.support.raw_http import Answer, ask, chat_request
from tests.support.snapshots import ACME, three_tenants


def under(tenant: Terms | None = None, key: Terms | None = None, **parts: Any) -> RoutingSnapshot:
    snapshot = three_tenants()
    keys = {
        place: replace(entry, terms=key) if key is not None and entry.tenant == ACME else entry
        for place, entry in snapshot.keys.items()
    }
    return replace(snapshot, keys=keys, terms={} if tenant is None else {ACME: tenant}, **parts)


def rates(answer: Answer) -> dict[str, str]:
    prefix = "x-ratelimit-"
    return {name.removeprefix(prefix): text for name, text in answer.headers.items() if name.startswith(prefix)}


def test_the_request_after_the_last_is_refused_and_told_when_to_come_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path, snapshot=under(Terms(requests_per_minute=2))).served() as world:
            for left in ("1", "0"):
                answer = await ask(world.port, chat_request("hello"))
                assert (answer.status, rates(answer)["remaining-requests"]) == (200, left)
            refused = await ask(world.port, chat_request("hello"))
            assert (refused.status, refused.code) == (429, "request_rate_exceeded")
            retry_after_ms = int(refused.json()["retry_after_ms"])  # type: ignore[call-overload]
            assert 15_000 < retry_after_ms <= 30_000
            assert refused.headers["retry-after"] == str(math.ceil(retry_after_ms / 1000))
            assert rates(refused)["limit-requests"] == "2"
            assert "limit-tokens" not in rates(refused)
            other = await ask(world.port, chat_request("hello", tenant="globex", model="contracts"))
            assert (other.status, rates(other)) == (200, {})
            assert [entry.code for entry in world.entries()] == ["", "request_rate_exceeded", "", ""]

    uvloop.run(story())


def test_tokens_are_charged_as_the_engine_counted_them_whole_or_streamed(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path, snapshot=under(key=Terms(tokens_per_minute=10_000))).served() as world:
            used, began_s = 0, time.monotonic()
            for stream in (False, True):
                answer = await ask(world.port, chat_request("hello pieces=5", stream=stream))
                assert answer.status == 200
                entry = world.entries()[0]
                used += entry.prompt_tokens + entry.completion_tokens
            answer = await ask(world.port, chat_request("badload"))
            assert answer.status == 503
            assert used > 0
            left = int(rates(answer)["remaining-tokens"])
            fills_up = math.ceil((time.monotonic() - began_s) * 10_000 / 60)
            assert 10_000 - used - 5 <= left <= min(10_000, 10_000 - used + fills_up)
            assert rates(answer)["limit-tokens"] == "10000"

    uvloop.run(story())


def test_a_tenant_that_used_up_its_tokens_waits_and_its_answers_go_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path, snapshot=under(Terms(tokens_per_minute=4))).served() as world:
            answer = await ask(world.port, chat_request("x pieces=20", stream=True))
            assert answer.status == 200
            assert answer.body.count(b"data: ") >= 20
            refused = await ask(world.port, chat_request("x"))
            assert (refused.status, refused.code) == (429, "token_rate_exceeded")
            assert rates(refused)["remaining-tokens"] == "0"
            assert world.app.num_in_flight == 0

    uvloop.run(story())


def test_the_default_budget_is_the_keys_then_the_aliass_then_the_tenants_then_the_planes(tmp_path: Path) -> None:
    async def budget(world: PlaneWorld, snapshot: RoutingSnapshot, headers: dict[str, str] | None = None) -> Any:
        world.app.apply(snapshot)
        assert (await ask(world.port, chat_request("hello", headers=headers))).status == 200
        return world.entries()[0].budget_ms

    async def story() -> None:
        settings = GatewaySettings(first_token_budget_ms=9000)
        async with PlaneWorld(tmp_path, settings=settings).served() as world:
            tenant, key = Terms(first_token_budget_ms=7000), Terms(first_token_budget_ms=5000)
            alias = {
                place: replace(entry, first_token_budget_ms=6000) if place[1] == Alias("support") else entry
                for place, entry in three_tenants().aliases.items()
            }
            assert await budget(world, under()) == 9000
            assert await budget(world, under(tenant)) == 7000
            assert await budget(world, under(tenant, aliases=alias)) == 6000
            assert await budget(world, under(tenant, key, aliases=alias)) == 5000
            assert await budget(world, under(tenant, Terms(first_token_budget_ms=0))) is None
            own = {"hotset-first-token-budget-ms": "800"}
            assert await budget(world, under(tenant, key, aliases=alias), own) == 800

    uvloop.run(story())


def test_the_official_client_sees_its_limits(tmp_path: Path) -> None:
    async def story() -> None:
        snapshot = under(Terms(requests_per_minute=6, tokens_per_minute=6000))
        async with PlaneWorld(tmp_path, snapshot=snapshot).served() as world, world.client() as client:
            raw = await client.chat.completions.with_raw_response.create(
                model="support", messages=[{"role": "user", "content": "hello"}]
            )
            assert raw.headers["x-ratelimit-limit-requests"] == "6"
            assert raw.headers["x-ratelimit-remaining-requests"] == "5"
            assert raw.headers["x-ratelimit-reset-requests"].endswith("s")
            assert raw.parse().choices[0].message.content
            assert json.loads(raw.text)["usage"]["total_tokens"] > 0

    uvloop.run(story())
