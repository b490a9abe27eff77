"""`hotset doctor`: looks over an installation and its machine, and says what to do about what is wrong."""

import importlib.util
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from hotset.cli.client import AdminClient, is_listening, open_client
from hotset.cli.output import size
from hotset.cli.serve import read_addresses
from hotset.cli.session import tell_first_token
from hotset.cli.settings import Settings
from hotset.core.clock import Clock
from hotset.core.errors import HotsetError
from hotset.storage.state_folder import StateFolder

_FREE_BYTES_MIN = 1 << 30


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    subject: str
    text: str
    is_ok: bool = True


def examine(settings: Settings, clock: Clock) -> list[Finding]:
    """Return what was found, most basic first; what can't be reached is a finding, not an error."""
    findings = [*_packages()]
    if settings.remote is None:
        findings += _state_folder(settings.home)
        findings += _server(settings.home)
    try:
        with open_client(settings, clock, tell_first_token) as client:
            findings += _installation(client)
    except HotsetError as error:
        findings.append(Finding("installation", f"{error.code}: {error.message}", is_ok=False))
    return findings


def _packages() -> Iterator[Finding]:
    has_torch = importlib.util.find_spec("torch") is not None and importlib.util.find_spec("transformers") is not None
    text = "PyTorch and transformers are there" if has_torch else "missing: pip install 'hotset[embedded]'"
    yield Finding("embedded engine", text, has_torch)


def _state_folder(home: Path) -> Iterator[Finding]:
    if not home.exists():
        yield Finding("state folder", f"{home} is made at the first command that needs it")
        return
    mode = stat.S_IMODE(home.stat().st_mode)
    is_private = mode & 0o077 == 0
    yield Finding("state folder", f"{home}, mode {mode:03o}" + ("" if is_private else ": chmod 700 it"), is_private)
    free = shutil.disk_usage(home).free
    yield Finding("disk", f"{size(free)} free", free >= _FREE_BYTES_MIN)


def _server(home: Path) -> Iterator[Finding]:
    if not is_listening(StateFolder(home).admin_socket):
        yield Finding("server", "none runs over this state folder")
        return
    addresses = read_addresses(home)
    if addresses is None:
        yield Finding("server", "one listens but has not said where; it is starting or ending", is_ok=False)
        return
    try:
        response = httpx.get(f"{addresses.tenant_url}/readyz", timeout=5.0, trust_env=False)
        yield Finding("server", f"{addresses.tenant_url}: {response.json()['status']}", response.is_success)
    except (httpx.HTTPError, ValueError, KeyError) as error:
        yield Finding("server", f"{addresses.tenant_url} does not answer: {error}", is_ok=False)


def _installation(client: AdminClient) -> Iterator[Finding]:
    status = client.get("/status")
    yield Finding("version", f"{status['version']}, epoch {status['epoch']}")
    audit = client.get("/audit/verify")
    text = "intact" if audit["is_intact"] else f"broken at entry {audit['first_broken']}"
    yield Finding("audit log", f"{audit['num_entries']} entries, {text}", audit["is_intact"])
    for base in client.get("/bases")["bases"]:
        there = Path(base["folder"]).is_dir() or not client.is_local
        text = base["folder"] if there else f"{base['folder']} is gone: add it again from where it is now"
        yield Finding(f"base {base['name']}", text, there)
    for adapter in client.get("/adapters")["adapters"]:
        if adapter["active"] is None:
            yield Finding(f"adapter {adapter['adapter']}", "no active version: it can't be called yet")
