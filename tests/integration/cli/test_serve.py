"""A server's start and end: what it declares, how it drains, what a kill leaves."""

import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from hotset.cli.serve import read_addresses
from hotset.core.errors import ServerUnreachableError
from tests.support.adapters import BASE_NAME
from tests.support.server import RunningServer, bare_server, running_server, write_config, write_world

Revive = Callable[..., AbstractContextManager[RunningServer]]


@pytest.fixture(scope="module")
def revive(tmp_path_factory: pytest.TempPathFactory) -> Revive:
    """Return what gives a server over a copy of a state folder made once, with the embedded engine if none is named."""
    world = tmp_path_factory.mktemp("world")
    with running_server(world, adapters=1, kind="instant") as server:
        tenants = server.tenants

    @contextlib.contextmanager
    def revived(root: Path, **sections: dict[str, Any]) -> Generator[RunningServer]:
        shutil.copytree(world / "home", root / "home")
        with bare_server(root / "home", write_config(root, **sections)) as server:
            server.tenants = tenants
            server.process.wait_ready()
            yield server

    return revived


class Stream(threading.Thread):
    """Reads one long answer; its first event can be waited for."""

    def __init__(self, server: RunningServer, tokens: int) -> None:
        super().__init__(daemon=True)
        self.lines: list[str] = []
        self.has_begun = threading.Event()
        self._server, self._tokens = server, tokens

    def run(self) -> None:
        body = {"model": "adapter", "prompt": "a b c", "max_tokens": self._tokens, "stream": True, "seed": 1}
        headers = {"Authorization": f"Bearer {self._server.tenants['tenant-0'].token}"}
        url = f"{self._server.url}/v1/completions"
        with (
            contextlib.suppress(httpx.TransportError),
            httpx.stream("POST", url, json=body, headers=headers, timeout=60) as answer,
        ):
            for line in answer.iter_lines():
                if line:
                    self.lines.append(line)
                    self.has_begun.set()


def begun(server: RunningServer, tokens: int) -> Stream:
    stream = Stream(server, tokens)
    stream.start()
    assert stream.has_begun.wait(60), server.log()
    return stream


def test_what_is_running_finishes_before_a_server_ends(revive: Revive, tmp_path: Path) -> None:
    with revive(tmp_path, worker={"drain_timeout_s": 60}) as server:
        engines = psutil.Process(server.pid).children()
        stream = begun(server, tokens=150)
        os.kill(server.pid, signal.SIGTERM)
        server.process.wait_end()
        stream.join(60)
        assert stream.lines[-1] == "data: [DONE]"
        assert "Traceback" not in server.log()
    assert engines
    assert not any(engine.is_running() for engine in engines)
    assert list((tmp_path / "home" / "run").iterdir()) == []


def test_what_does_not_finish_in_time_is_told_so(revive: Revive, tmp_path: Path) -> None:
    slow = {"kind": "fake", "speed": 0.1}  # a minute and a half, however late the signal comes
    with revive(tmp_path, worker={"drain_timeout_s": 0.2}, engine=slow) as server:
        stream = begun(server, tokens=900)
        os.kill(server.pid, signal.SIGTERM)
        server.process.wait_end()
        stream.join(60)
        assert "shutting_down" in stream.lines[-1]


def test_a_second_signal_ends_at_once(revive: Revive, tmp_path: Path) -> None:
    with revive(tmp_path, worker={"drain_timeout_s": 600}) as server:
        engines = psutil.Process(server.pid).children()
        stream = begun(server, tokens=900)
        os.kill(server.pid, signal.SIGINT)
        wait_for_log(server, "Ending;")
        os.kill(server.pid, signal.SIGINT)
        server.process.wait_end()
        stream.join(60)
    gone, alive = psutil.wait_procs(engines, timeout=60)
    assert gone
    assert not alive


@pytest.mark.slow
def test_after_a_kill_the_same_folder_serves_again(revive: Revive, tmp_path: Path) -> None:
    with revive(tmp_path) as server:
        token, engines = server.tenants["tenant-0"].token, psutil.Process(server.pid).children()
        begun(server, tokens=900)
        server.kill()
    assert (tmp_path / "home" / "run" / "admin.sock").exists()
    assert not psutil.wait_procs(engines, timeout=60)[1]
    with bare_server(tmp_path / "home", tmp_path / "hotset.yaml") as again:
        again.process.wait_ready()
        body = {"model": "adapter", "prompt": "a b c", "max_tokens": 3}
        headers = {"Authorization": f"Bearer {token}"}
        answer = httpx.post(f"{again.url}/v1/completions", json=body, headers=headers, timeout=60)
        assert answer.status_code == 200, answer.text
        assert again.admin.long("/store/verify", {}, lambda _event: None)["damaged"] == []


def test_a_file_declares_what_is_there_and_says_what_can_not_be(tmp_path: Path) -> None:
    write_world(tmp_path, adapters=1)
    config = write_config(tmp_path, engine={"kind": "instant"})
    config.write_text(
        config.read_text()
        + f"""
bases: [{{name: tiny, folder: base, synonyms: [{BASE_NAME}]}}]
tenants: [acme, globex]
adapters:
  - {{adapter: acme/one, folder: adapter-0, base: tiny}}
  - {{adapter: acme/two, folder: base, base: tiny}}
grants: [{{tenant: globex, base: tiny, alias: plain}}]
"""
    )
    with bare_server(tmp_path / "home", config) as server:
        wait_for_log(server, "granted globex:plain")
        wait_for_log(server, "adapter acme/two: config_missing")
        assert server.admin.get("/adapters")["adapters"][0]["active"] == 1
        assert read_addresses(tmp_path / "home") is not None


def test_a_second_server_over_the_folder_is_refused(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    with (
        bare_server(tmp_path / "home", config),
        pytest.raises(ServerUnreachableError, match="state_locked"),
        bare_server(tmp_path / "home", config),
    ):
        raise AssertionError("two servers over one folder")


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    with bare_server(tmp_path / "one", config) as first:
        taken = int(first.url.rpartition(":")[2])
        other = write_config(tmp_path, server={"tenant_port": taken})
        with pytest.raises(ServerUnreachableError, match="tenant_port"), bare_server(tmp_path / "two", other):
            raise AssertionError("two servers on one port")


def wait_for_log(server: RunningServer, text: str) -> None:
    pause = threading.Event()
    for _ in range(600):
        if text in server.log():
            return
        pause.wait(0.1)
    raise AssertionError(f"{text!r} never came: {server.log()}")
