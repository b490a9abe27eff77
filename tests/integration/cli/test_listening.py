"""Sockets: taken ports, long paths, what a former life left."""

import socket
import stat
from pathlib import Path

import pytest

from hotset.cli.client import is_listening
from hotset.cli.listening import address_of, bind_tcp, bind_unix, free_port
from hotset.core.errors import ConfigError


def test_a_taken_port_is_an_error_that_names_the_setting_or_another_port_is_taken() -> None:
    with bind_tcp("127.0.0.1", 0, "x") as bound:
        bound.listen()
        port = bound.getsockname()[1]
        with pytest.raises(ConfigError, match=r"set server\.tenant_port") as caught:
            bind_tcp("127.0.0.1", port, "server.tenant_port")
        assert caught.value.param == "server.tenant_port"
        assert free_port("127.0.0.1", port) == 0
    assert free_port("127.0.0.1", port) == port


def test_addresses_are_written_as_urls() -> None:
    with bind_tcp("127.0.0.1", 0, "x") as bound:
        assert address_of(bound) == f"http://127.0.0.1:{bound.getsockname()[1]}"
    if socket.has_ipv6:
        with bind_tcp("::1", 0, "x") as bound:
            assert address_of(bound).startswith("http://[::1]:")


def test_a_socket_is_its_owners_alone_and_replaces_a_stale_one(tmp_path: Path) -> None:
    path = tmp_path / "run.sock"
    assert not is_listening(path)
    bind_unix(path).close()
    assert path.exists()
    assert not is_listening(path)
    with bind_unix(path) as bound:
        bound.listen()
        assert is_listening(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_path_that_is_too_long_for_a_socket_says_what_to_shorten(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="HOTSET_HOME"):
        bind_unix(tmp_path / ("x" * 120) / "run" / "admin.sock")
