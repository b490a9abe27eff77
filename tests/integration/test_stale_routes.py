"""A route that an agent no longer has: the gateway resolves again in the snapshot that the agent has already."""

import asyncio
from pathlib import Path

import openai
import pytest
import uvloop

from tests.support.plane_world import PlaneWorld
from tests.support.raw_http import eventually
from tests.support.scripted_agent import check_nothing_left
from tests.support.snapshots import adapter_route, three_tenants


async def ask(world: PlaneWorld, prompt: str) -> str:
    messages = [{"role": "user", "content": prompt}]
    async with world.client() as client:
        answer = await client.chat.completions.create(model="support", messages=messages)  # type: ignore[arg-type]
    return answer.choices[0].message.content or ""


def test_a_stale_route_is_resolved_again_in_the_newer_snapshot(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            asking = asyncio.create_task(ask(world, "stale=2"))
            await eventually(lambda: len(world.agent.works) == 1)
            world.app.apply(three_tenants(epoch=2, active=3))
            assert (await asking).startswith("answer of acme/support@3")
            routes = [work.route for work in world.agent.works]
            assert routes == [adapter_route("acme", "support", number) for number in (2, 3)]
            assert [work.epoch for work in world.agent.works] == [1, 2]
            check_nothing_left(world.agent)

    uvloop.run(story())


def test_what_the_newer_snapshot_takes_away_is_not_found(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            asking = asyncio.create_task(ask(world, "stale=2"))
            await eventually(lambda: len(world.agent.works) == 1)
            world.app.apply(three_tenants(epoch=2, without=("acme", "support")))
            with pytest.raises(openai.NotFoundError):
                await asking
            check_nothing_left(world.agent)

    uvloop.run(story())


def test_a_snapshot_that_does_not_come_ends_it_as_an_outage(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            with pytest.raises(openai.InternalServerError) as caught:
                await ask(world, "stale=2")
            assert caught.value.status_code == 503
            assert caught.value.code == "stale_route"
            check_nothing_left(world.agent)

    uvloop.run(story())
