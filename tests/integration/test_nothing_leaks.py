"""A thousand concurrent streams of three tenants, a tenth of them leaving: all is back at the start afterwards."""

import asyncio
import gc
import json
import random
from collections import Counter
from pathlib import Path

import psutil
import pytest
import uvloop

from tests.support.plane_world import PlaneWorld
from tests.support.raw_http import chat_request, close, connect, eventually, read_answer
from tests.support.scripted_agent import check_nothing_left

OWN = {"acme": "support", "globex": "contracts", "initech": "tps-reports"}
ROUTES = {"acme": "acme/support@2", "globex": "globex/contracts@1", "initech": "initech/tps-reports@1"}
NUM_STREAMS = 1000
NUM_PIECES = 8


async def stay(port: int, tenant: str) -> str:
    reader, writer = await connect(port)
    try:
        writer.write(chat_request(f"hold pieces={NUM_PIECES}", tenant=tenant, model=OWN[tenant], stream=True))
        answer = await read_answer(reader)
    finally:
        await close(writer)
    assert answer.status == 200
    *events, done, _ = answer.body.split(b"\n\n")
    assert done == b"data: [DONE]"
    chunks = [json.loads(event.removeprefix(b"data: ")) for event in events if not event.startswith(b":")]
    return "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)


async def leave(port: int, tenant: str, *, all_held: asyncio.Event | None, abruptly: bool) -> None:
    """Leave while waiting for a slot, once everybody waits, or (without that event) after the first token."""
    reader, writer = await connect(port)
    prompt = f"hold pieces={NUM_PIECES * 1000}"
    writer.write(chat_request(prompt, tenant=tenant, model=OWN[tenant], stream=True))
    if all_held is not None:
        await all_held.wait()
    else:
        await reader.readuntil(b"answer of " + ROUTES[tenant].encode())
    if abruptly:
        writer.transport.abort()
    else:
        await close(writer)


@pytest.mark.timeout(600)
def test_a_thousand_streams_leave_nothing_behind(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            world.agent.step_s = 0.02
            world.agent.release.set()
            await stay(world.port, "acme")
            world.agent.release.clear()
            await eventually(lambda: world.app.num_in_flight == 0)
            gc.collect()
            tasks_before, fds_before = len(asyncio.all_tasks()), psutil.Process().num_fds()
            seed = random.Random(11)
            tenants = [seed.choice(sorted(OWN)) for _ in range(NUM_STREAMS)]
            leaving = [tenant for number, tenant in enumerate(tenants) if number % 10 == 0]
            staying = [tenant for number, tenant in enumerate(tenants) if number % 10]
            all_held = asyncio.Event()
            early = [seed.random() < 0.3 for _ in leaving]
            departures = [
                asyncio.create_task(
                    leave(world.port, tenant, all_held=all_held if is_early else None, abruptly=seed.random() < 0.5)
                )
                for tenant, is_early in zip(leaving, early, strict=True)
            ]
            answers = asyncio.gather(*(stay(world.port, tenant) for tenant in staying))
            await eventually(lambda: world.agent.num_held == NUM_STREAMS, within_s=60.0)
            assert world.app.num_in_flight == NUM_STREAMS
            all_held.set()
            await eventually(lambda: world.agent.num_held == NUM_STREAMS - sum(early))
            world.agent.release.set()
            texts = await answers
            await asyncio.gather(*departures)
            for tenant, text in zip(staying, texts, strict=True):
                assert text == f"answer of {ROUTES[tenant]} 1 2 3 4 5 6 7", "not the answer of its own route"
            await eventually(lambda: world.app.num_in_flight == 0)
            check_nothing_left(world.agent)
            assert len(world.app._plane.running) == 0
            world.app._plane.in_flight.check()
            await eventually(lambda: len(asyncio.all_tasks()) == tasks_before)
            await eventually(lambda: psutil.Process().num_fds() <= fds_before)
            outcomes = Counter(entry.outcome for entry in world.entries())
            assert outcomes == {"completed": len(staying) + 1, "cancelled": len(leaving)}
            assert world.agent.num_aborted == len(leaving) - sum(early)
            for entry in world.entries():
                assert entry.outcome != "completed" or f"{entry.adapter}@{entry.version}" == ROUTES[entry.tenant]

    uvloop.run(story())
