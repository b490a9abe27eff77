"""The worker plane over real sockets: who is let in, what a broken link ends, and whom a slow reader holds up."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from hotset.core.clock import SystemClock
from hotset.core.errors import ConfigError, EngineUnavailableError
from hotset.core.fleet import Heartbeat
from hotset.core.messages import Failed, Finished
from hotset.links.address import TlsFiles, listen, parse_address
from hotset.links.link import Link
from hotset.links.peers import Peer
from hotset.links.remote_agent import RemoteAgent
from hotset.links.remote_ticket import RemoteTicket
from hotset.links.worker_messages import WINDOW, Batch, Beat, Greeting, Submit, ToWorker, Welcome
from tests.support.agent_world import AgentWorld, finish, text_of
from tests.support.certificates import Authority
from tests.support.remote_world import GATEWAY, WORKER, RemoteWorld

LONG = 300_000
CLOCK = SystemClock()


def run(
    root: Path,
    scenario: Callable[[RemoteWorld], Awaitable[None]],
    *,
    address: str = "",
    tls: tuple[TlsFiles, TlsFiles] | None = None,
) -> None:
    async def body() -> None:
        world = AgentWorld(root, num_slots=2)
        world.is_as_read, world.kind = False, "instant_stepwise"
        async with (
            asyncio.timeout(100),
            world.running(),
            RemoteWorld(world, address=address, tls=tls).linked() as remote,
        ):
            await scenario(remote)

    asyncio.run(body())


async def ask(remote: RemoteWorld, agent: RemoteAgent, name: str, max_tokens: int = 5) -> RemoteTicket:
    return await agent.submit(remote.world.work(name, max_tokens=max_tokens))


async def settled(remote: RemoteWorld, num_leases: int = 0) -> None:
    """Return once the agent holds so many leases and the engine runs as many requests."""
    async with asyncio.timeout(60):
        while (
            remote.world.agent.num_leases() != num_leases
            or len((await remote.world.engines[-1].inventory()).running) != num_leases
        ):
            await asyncio.sleep(0.01)


def test_a_gateways_link_that_breaks_ends_its_requests_on_both_sides_once(tmp_path: Path) -> None:
    async def scenario(remote: RemoteWorld) -> None:
        other = remote.gateway_end(remote.address, me=Peer("gateway", "g2"))
        life = asyncio.create_task(other.run())
        await other.wait_ready()
        kept = await ask(remote, remote.remote, "a", LONG)
        lost = await ask(remote, other, "b", LONG)
        waiting = asyncio.create_task(ask(remote, other, "c"))
        await asyncio.sleep(0.05)
        life.cancel()
        with pytest.raises(asyncio.CancelledError):
            await life
        events = await finish(lost)
        assert isinstance(events[-1], Failed)
        assert sum(isinstance(event, Failed | Finished) for event in events) == 1
        assert await lost.events() == []
        with pytest.raises(EngineUnavailableError):
            await waiting
        await settled(remote, 1)
        await kept.abort()
        await settled(remote)

    run(tmp_path, scenario)


def test_a_worker_that_vanishes_is_an_error_at_the_gateway_and_it_links_again(tmp_path: Path) -> None:
    async def scenario(remote: RemoteWorld) -> None:
        ticket = await ask(remote, remote.remote, "a", LONG)
        await ticket.events()
        await remote.door.close()
        assert isinstance((await finish(ticket))[-1], Failed)
        assert not remote.remote.is_ready()
        with pytest.raises(EngineUnavailableError):
            await ask(remote, remote.remote, "a")
        await settled(remote)
        await remote.door.open(parse_address(remote.address, "test"), None, "test")
        async with asyncio.timeout(60):
            await remote.remote.wait_ready()
        assert len(text_of(await finish(await ask(remote, remote.remote, "a"))).split()) == 5

    run(tmp_path, scenario)


def test_a_slow_reader_holds_back_its_own_stream_and_no_other(tmp_path: Path) -> None:
    async def scenario(remote: RemoteWorld) -> None:
        slow = await ask(remote, remote.remote, "a", 20_000)
        for _ in range(3):
            assert len(text_of(await finish(await ask(remote, remote.remote, "b", 500))).split()) == 500
        assert len(slow._ready) <= WINDOW
        events = await finish(slow)
        assert len(text_of(events).split()) == 20_000
        assert isinstance(events[-1], Finished)
        await settled(remote)

    run(tmp_path, scenario)


def test_a_worker_that_ends_lets_gateways_read_what_is_there(tmp_path: Path) -> None:
    async def scenario(remote: RemoteWorld) -> None:
        slow = await ask(remote, remote.remote, "a", 20_000)
        await settled(remote)  # the engine is done with it, and the gateway has read next to nothing
        await remote.world.agent.stop()
        closing = asyncio.create_task(remote.door.close(patience_s=60))
        await asyncio.sleep(0.1)  # a slow reader
        events = await finish(slow)
        assert len(text_of(events).split()) == 20_000
        assert isinstance(events[-1], Finished)
        await closing

    run(tmp_path, scenario)


def test_who_may_not_serve_lets_nobody_in(tmp_path: Path) -> None:
    async def scenario(remote: RemoteWorld) -> None:
        newer = remote.gateway_end(remote.address, fence=2)
        life = asyncio.create_task(newer.run())
        await asyncio.sleep(0.3)
        assert not newer.is_ready()
        remote.fence = 2
        async with asyncio.timeout(60):
            await newer.wait_ready()
        remote.fence = 0
        remote.door.shut_out("another agent has its identity")
        async with asyncio.timeout(60):
            while newer.is_ready() or remote.remote.is_ready():
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        assert not newer.is_ready()
        assert not remote.remote.is_ready()
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)

    run(tmp_path, scenario)


def test_over_tls_a_certificate_says_who_somebody_is(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path / "ca"), Authority(tmp_path / "other")
    ours = (authority.issue("worker", "w1"), authority.issue("gateway", "g1"))

    async def scenario(remote: RemoteWorld) -> None:
        assert len(text_of(await finish(await ask(remote, remote.remote, "a", 300))).split()) == 300
        entry = remote.remote.entry
        pretenders = [
            RemoteAgent(entry, me=Peer("gateway", "g2"), clock=CLOCK, tls=ours[1]),
            RemoteAgent(entry, me=GATEWAY, clock=CLOCK, tls=authority.issue("worker", "g1")),
            RemoteAgent(entry, me=GATEWAY, clock=CLOCK, tls=stranger.issue("gateway", "g1")),
        ]
        lives = [asyncio.create_task(agent.run()) for agent in pretenders]
        await asyncio.sleep(0.5)
        assert not any(agent.is_ready() for agent in pretenders)
        assert remote.remote.is_ready()
        for life in lives:
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)

    run(tmp_path, scenario, address="tls://127.0.0.1:0", tls=ours)


def test_a_worker_that_answers_before_it_accepts_loses_its_link_and_nobody_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    links: list[Link[ToWorker]] = []

    def hear(message: ToWorker) -> None:
        if isinstance(message, Greeting):
            links[-1].send(Welcome(Peer("worker", "w1"), world.world.base.digest, 1))
            links[-1].send(Beat(Heartbeat(worker=WORKER, fence=1, number=1, is_ready=True)))
        elif isinstance(message, Submit):
            links[-1].send(Batch(message.stream, [Finished(message.work.request_id, 1, 1)]))

    world = RemoteWorld(AgentWorld(tmp_path))
    where = parse_address(f"unix:{tmp_path}/run/liar.sock", "x")
    decoder: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)

    async def scenario() -> None:
        server = await listen(
            where, None, lambda: Link(decoder, on_open=links.append, on_message=hear, on_end=lambda _: None), "x"
        )
        agent = world.gateway_end(str(where))
        life = asyncio.create_task(agent.run())
        async with asyncio.timeout(60):
            await agent.wait_ready()
            with pytest.raises(EngineUnavailableError, match="was lost"):
                await agent.submit(world.world.work("a"))
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)
        server.close()

    asyncio.run(scenario())
    assert "was not accepted" in " ".join(str(record.__dict__.get("reason")) for record in caplog.records)


@pytest.mark.parametrize("text", ["tcp://127.0.0.1:9000", "tcp://0.0.0.0:9000", "unix:relative", "tls://host", "x"])
def test_an_address_is_a_socket_or_tls_and_nothing_plain(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_address(text, "fleet.worker_address")
    assert "fleet.worker_address" in caught.value.message


def test_a_sockets_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o755)

    async def scenario() -> None:
        world = RemoteWorld(AgentWorld(tmp_path))
        with pytest.raises(ConfigError):
            await world.door.open(parse_address(f"unix:{folder}/w.sock", "x"), None, "x")

    asyncio.run(scenario())
