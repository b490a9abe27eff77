"""The state folder (`HOTSET_HOME`): the one folder that holds all state of an installation.

::

    hotset.db      metadata and audit log        lock           held by the process that runs here
    blobs/         the trusted store             staging/       uploads and versions being proved
    worker/        the agent's local store       run/           sockets
    trust/         reviewer.pem (private key), reviewers/*.pem (public keys whose approvals count),
                   job-keys/N.key (jobs are sealed under the highest N; the others open what they sealed)
    secrets/       cache-salt.key                logs/          request log
    gateways/NAME, workers/NAME                  folders of gateways and workers in processes of their own

Every folder is 0700 and every secret 0600. `initialise` may be cut short anywhere and run again.
"""

import fcntl
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from hotset.core.errors import ConfigError, StateLockedError
from hotset.registry.approval import reviewer_key_id
from hotset.storage.durable import make_private_folder, write_durably
from hotset.storage.holder_folder import HolderFolder
from hotset.storage.sealing import KEY_BYTES

_SALT_BYTES = 32


class StateFolder:
    """Paths under the state folder, its lock, and the keys that are made when it is first used."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.database = self.path / "hotset.db"
        self.blobs = self.path / "blobs"
        self.staging = self.path / "staging"
        self.worker = self.path / "worker"
        self.run = self.path / "run"
        self.trust = self.path / "trust"
        self.logs = self.path / "logs"
        self.secrets = self.path / "secrets"
        self._lock = self.path / "lock"
        self._private_key = self.trust / "reviewer.pem"
        self._public_keys = self.trust / "reviewers"
        self._job_keys = self.trust / "job-keys"
        self._salt = self.secrets / "cache-salt.key"

    @property
    def admin_socket(self) -> Path:
        """Where the operator plane listens for local commands."""
        return self.run / "admin.sock"

    def initialise(self) -> None:
        """Make what is missing: folders, the reviewer's key pair, keys of salts and jobs. Call it under the lock."""
        for folder in self._folders():
            make_private_folder(folder)
        if not self._private_key.exists():
            # The public half first: cut short between the two, a public key without a private one is left, which
            # approves nothing; and one that an operator takes away later is not put back.
            key = Ed25519PrivateKey.generate()
            write_durably(self._public_key_path(key.public_key()), _public_pem(key.public_key()))
            write_durably(self._private_key, _private_pem(key))
        if not self._salt.exists():
            write_durably(self._salt, secrets.token_bytes(_SALT_BYTES))
        if not any(self._job_keys.glob("*.key")):
            write_durably(self._job_keys / "1.key", secrets.token_bytes(KEY_BYTES))

    def prepare(self) -> None:
        """Make what a gateway or worker in a process of its own needs here, beside control or on its own machine."""
        for folder in (self.path, self.run, self.logs, self.secrets):
            make_private_folder(folder)
        if not self._salt.exists():
            write_durably(self._salt, secrets.token_bytes(_SALT_BYTES))

    @property
    def is_initialised(self) -> bool:
        """Whether control has run over this folder: there is a database, and keys for what is kept in it."""
        return self.database.exists() and any(self._job_keys.glob("*.key"))

    def of_holder(self, role: str, name: str) -> HolderFolder:
        """Return the folder of one gateway or worker."""
        return HolderFolder(self.path / f"{role}s" / name)

    def socket_of(self, role: str, name: str) -> Path:
        """Return where a process of the fleet listens, unless it is told otherwise."""
        return self.run / ("control.sock" if role == "control" else f"{role}-{name}.sock")

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the folder for this process; the lock dies with the process, however it ends.

        Raises:
            StateLockedError: another process holds it; the message names its pid.
        """
        make_private_folder(self.path)
        handle = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise StateLockedError(self._locked_by(handle)) from error
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(handle)

    def reviewer_private_key(self) -> Ed25519PrivateKey:
        """Return the key that signs approvals on this installation.

        Raises:
            ConfigError: the file holds no Ed25519 private key.
        """
        try:
            key = load_pem_private_key(self._private_key.read_bytes(), password=None)
        except ValueError as error:
            raise ConfigError(f"{self._private_key} is not a private key in PEM form.") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigError(f"{self._private_key} is not an Ed25519 private key.")
        return key

    def reviewer_keys(self) -> dict[str, Ed25519PublicKey]:
        """Return the public keys whose approvals count, by key id; a file taken away is a reviewer revoked.

        Raises:
            ConfigError: a file there holds no Ed25519 public key.
        """
        keys: dict[str, Ed25519PublicKey] = {}
        for path in sorted(self._public_keys.glob("*.pem")):
            try:
                key = load_pem_public_key(path.read_bytes())
            except ValueError as error:
                raise ConfigError(f"{path} is not a public key in PEM form.") from error
            if not isinstance(key, Ed25519PublicKey):
                raise ConfigError(f"{path} is not an Ed25519 public key.")
            keys[reviewer_key_id(key)] = key
        return keys

    def cache_salt_key(self) -> bytes:
        """Return the key under which tenants' cache salts are made.

        Raises:
            ConfigError: the file is shorter than it was made.
        """
        key = self._salt.read_bytes()
        if len(key) < _SALT_BYTES:
            raise ConfigError(f"{self._salt} holds {len(key)} bytes; expected {_SALT_BYTES}.")
        return key

    def job_keys(self) -> list[bytes]:
        """Return the keys under which jobs are sealed, oldest first; the last one seals.

        Raises:
            ConfigError: a file is not named by a number, holds no key of the right length, or there is none.
        """
        paths = list(self._job_keys.glob("*.key"))
        odd = [path for path in paths if not path.stem.isdecimal() or len(path.read_bytes()) != KEY_BYTES]
        if odd or not paths:
            raise ConfigError(f"{odd[0] if odd else self._job_keys} is no N.key of {KEY_BYTES} bytes.")
        return [path.read_bytes() for path in sorted(paths, key=lambda path: int(path.stem))]

    def _public_key_path(self, key: Ed25519PublicKey) -> Path:
        return self._public_keys / f"{reviewer_key_id(key).partition(':')[2]}.pem"

    def _folders(self) -> tuple[Path, ...]:
        own = (self.blobs, self.staging, self.worker, self.run, self.trust, self.logs, self.secrets)
        return (self.path, *own, self._public_keys, self._job_keys)

    def _locked_by(self, handle: int) -> str:
        pid = os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
        return (
            f"The state folder {self.path} is held by another Hotset process (pid {pid}). "
            "Stop it, or send the command to it."
        )


def _private_pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _public_pem(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
