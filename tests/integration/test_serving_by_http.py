"""A whole server whose engine is behind HTTP: each answer is its own adapter's, through rotation and a death."""

import asyncio
from pathlib import Path

import httpx
import psutil
import pytest

from hotset.core.ids import Digest
from hotset.engines.fake.adapter_folder import read_unchecked
from hotset.engines.fake.answers import Answerer
from hotset.engines.fake.profiles import ProfileName
from hotset.engines.fake.server.options import MODULE
from hotset.engines.settings import EngineSettings
from tests.support.live_server import LiveServer, live_server

ADAPTERS = {"acme": ("a", "b", "c"), "zorg": ("a", "d")}
PROFILES: tuple[ProfileName, ...] = ("vllm", "sglang")


async def ask(client: httpx.AsyncClient, live: LiveServer, tenant: str, model: str) -> str:
    body = {"model": model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 6}
    headers = {"Authorization": f"Bearer {live.tokens[tenant]}"}
    url = f"{live.addresses.tenant_url}/v1/chat/completions"
    answer = await client.post(url, json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["message"]["content"])


def expected(root: Path, base: Digest, tenant: str, name: str) -> str:
    mark = read_unchecked(str(root / f"{tenant}-{name}")).mark
    return Answerer(base).text(mark, "user: hello", 6)


def served_engines() -> list[psutil.Process]:
    """The engines' processes that this process started and that run."""
    return [child for child in psutil.Process().children() if is_engine(child)]


def is_engine(child: psutil.Process) -> bool:
    try:
        return child.status() != psutil.STATUS_ZOMBIE and MODULE in child.cmdline()
    except psutil.NoSuchProcess:  # it ended between the two questions
        return False


@pytest.mark.parametrize("profile", PROFILES)
def test_five_adapters_of_two_tenants_take_turns_in_two_slots(tmp_path: Path, profile: ProfileName) -> None:
    settings = EngineSettings(kind="fake_served", profile=profile, num_slots=2, rank_max=16, speed=50.0)

    async def scenario() -> None:
        async with live_server(tmp_path, ADAPTERS, settings) as live, httpx.AsyncClient(timeout=100) as client:
            base = live.agent.base.digest
            asked = [(tenant, name) for _ in range(3) for tenant, names in ADAPTERS.items() for name in names]
            answers = await asyncio.gather(*(ask(client, live, *each) for each in asked))
            assert answers == [expected(tmp_path, base, *each) for each in asked]
            (engine,) = served_engines()
            engine.kill()
            while served_engines() in ([], [engine]) or not live.agent.is_ready():
                await asyncio.sleep(0.05)
            assert await ask(client, live, "zorg", "d") == expected(tmp_path, base, "zorg", "d")

    async def bounded() -> None:
        async with asyncio.timeout(110):
            await scenario()

    asyncio.run(bounded())
