"""The state folder: private, made once, resumable, held by one process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from hotset.core.errors import ConfigError, StateLockedError
from hotset.registry.approval import reviewer_key_id
from hotset.storage.state_folder import StateFolder


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    folder = StateFolder(tmp_path / "deep" / "state")
    folder.initialise()
    return folder


def everything(folder: StateFolder) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder.path)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.path.rglob("*"))
    }


def test_all_of_it_is_private(folder: StateFolder) -> None:
    for path in [folder.path, *folder.path.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path
    assert folder.admin_socket.parent == folder.run


def test_making_it_again_changes_nothing(folder: StateFolder) -> None:
    before = everything(folder)
    folder.initialise()
    assert everything(folder) == before


def test_a_wide_folder_is_tightened(folder: StateFolder) -> None:
    folder.run.chmod(0o755)
    folder.initialise()
    assert folder.run.stat().st_mode & 0o077 == 0


def test_the_private_key_signs_for_a_public_one(folder: StateFolder) -> None:
    assert list(folder.reviewer_keys()) == [reviewer_key_id(folder.reviewer_private_key().public_key())]
    assert len(folder.cache_salt_key()) == 32


def test_it_takes_up_where_a_crash_left_it(tmp_path: Path) -> None:
    """Whatever subset of the key files a crash left, a restart ends with a private key that may sign."""
    for index, lost in enumerate(("trust/reviewer.pem", "secrets/cache-salt.key", "trust/reviewers")):
        folder = StateFolder(tmp_path / str(index))
        folder.initialise()
        path = folder.path / lost
        if path.is_dir():
            # Cut short before anything was made.
            folder.path.joinpath("trust/reviewer.pem").unlink()
            for public in path.iterdir():
                public.unlink()
        else:
            path.unlink()
        (folder.path / "trust" / ".reviewer.pem.0a.part").write_bytes(b"half a k")
        folder.initialise()
        assert reviewer_key_id(folder.reviewer_private_key().public_key()) in folder.reviewer_keys()
        assert len(folder.cache_salt_key()) == 32


def test_a_revoked_reviewers_key_is_not_put_back(folder: StateFolder) -> None:
    for path in (folder.trust / "reviewers").iterdir():
        path.unlink()
    folder.initialise()
    assert folder.reviewer_keys() == {}


def test_keys_of_another_kind_are_refused(folder: StateFolder) -> None:
    other = generate_private_key(SECP256R1())
    private = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for content in (private, b"no key"):
        (folder.trust / "reviewer.pem").write_bytes(content)
        with pytest.raises(ConfigError):
            folder.reviewer_private_key()
    for content in (public, b"no key"):
        (folder.trust / "reviewers" / "other.pem").write_bytes(content)
        with pytest.raises(ConfigError, match=r"other\.pem"):
            folder.reviewer_keys()
    (folder.secrets / "cache-salt.key").write_bytes(b"short")
    with pytest.raises(ConfigError, match="5 bytes"):
        folder.cache_salt_key()


HOLD = """
import sys, time
from pathlib import Path
from hotset.storage.state_folder import StateFolder
with StateFolder(Path(sys.argv[1])).locked():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_one_process_holds_it_and_a_killed_one_lets_go(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StateLockedError, match=rf"pid {holder.pid}\)"), folder.locked():
            pass
        holder.kill()
        holder.wait()
    with folder.locked(), pytest.raises(StateLockedError, match=f"pid {os.getpid()}"), folder.locked():
        pass
    with folder.locked():
        pass
