"""The engine process's loop over a scripted engine: a step that fails ends its requests and nothing else."""

import socket
import threading
from collections.abc import Iterator

import msgspec
import pytest

from hotset.core.ids import RequestId
from hotset.core.messages import EngineEvent, Failed, Finished, Generate, Sampling
from hotset.engines.host import Host
from hotset.engines.instant import InstantEngine
from hotset.engines.wire import Events, FromEngine
from hotset.links.frames import FrameSplitter, frame
from tests.support.adapters import tiny_base_version


class StumblingEngine(InstantEngine):
    """Fails the first step that holds a request named ``poison``, as a bug in a kernel would, and to take ``venom``."""

    def add(self, request: Generate) -> list[EngineEvent]:
        if request.request_id == "venom":
            raise IndexError("a character past the table")
        return super().add(request)

    def step(self) -> list[EngineEvent]:
        if "poison" in self.inventory().running:
            raise IndexError("an index past the vocabulary")
        return super().step()


@pytest.fixture
def owner() -> Iterator[socket.socket]:
    """The owner's end of a host that runs until it is closed."""
    ours, theirs = socket.socketpair()
    ours.settimeout(60)
    engine = StumblingEngine(tiny_base_version(), num_slots=1, rank_max=8, num_waiting_max=8)
    host = threading.Thread(target=lambda: Host(engine, theirs).run(FrameSplitter(), []))
    host.start()
    yield ours
    ours.close()
    host.join(60)
    theirs.close()
    assert not host.is_alive()


def ask(request_id: str) -> bytes:
    sampling = Sampling(max_tokens=2)
    return frame(
        Generate(request_id=RequestId(request_id), engine_name=None, cache_salt="", sampling=sampling, prompts=("a b",))
    )


def last_events(owner: socket.socket, *request_ids: str) -> dict[str, EngineEvent]:
    """Read until each request has ended; return how."""
    splitter, ended = FrameSplitter(), dict[str, EngineEvent]()
    while set(ended) != set(request_ids):
        for body in splitter.feed(owner.recv(1 << 16)):
            message = msgspec.msgpack.decode(body, type=FromEngine)
            assert isinstance(message, Events)
            ended.update((e.request_id, e) for e in message.events if isinstance(e, Finished | Failed))
    return ended


def test_a_failed_step_ends_its_requests_and_the_engine_serves_on(owner: socket.socket) -> None:
    owner.sendall(ask("neighbour") + ask("poison"))
    ended = last_events(owner, "neighbour", "poison")
    assert isinstance(ended["poison"], Failed)
    assert ended["poison"].code == "engine_failed"
    assert isinstance(ended["neighbour"], Finished | Failed)
    owner.sendall(ask("next"))
    assert isinstance(last_events(owner, "next")["next"], Finished)


def test_a_request_that_breaks_while_it_is_taken_in_ends_alone(owner: socket.socket) -> None:
    owner.sendall(ask("venom"))
    ended = last_events(owner, "venom")["venom"]
    assert isinstance(ended, Failed)
    assert ended.code == "engine_failed"
    owner.sendall(ask("next"))
    assert isinstance(last_events(owner, "next")["next"], Finished)
