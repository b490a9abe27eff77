"""Where an end of a link listens, and how it is reached: a Unix socket of one machine, or TLS with certificates.

There is no plain TCP: even on loopback any user of the machine could connect. A Unix socket is its folder's owner's
alone; over TLS both ends show a certificate of the installation's own authority.
"""

import asyncio
import os
import socket
import ssl
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotset.core.errors import ConfigError

#: What the kernel takes for a Unix socket's path, the final zero byte included.
UNIX_PATH_BYTES_MAX = 108
_BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A socket file on this machine."""

    path: Path

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True)
class TlsAddress:
    """A host and port that speak TLS."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"tls://[{self.host}]:{self.port}" if ":" in self.host else f"tls://{self.host}:{self.port}"


Address = UnixAddress | TlsAddress
MakeProtocol = Callable[[], asyncio.BaseProtocol]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files by which this process shows who it is, and knows who others are."""

    certificate: Path
    key: Path
    #: Certificates of the authority that signs those of this installation, and of nothing else.
    authority: Path

    def context(self, *, is_server: bool) -> ssl.SSLContext:
        """Return a context in which both ends must show a certificate of the authority.

        Raises:
            ConfigError: a file can't be read, or does not hold what it should.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        # A certificate names a role and a name of the installation, not a host: `peer_of` checks it.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_cert_chain(self.certificate, self.key)
            context.load_verify_locations(self.authority)
        except (OSError, ssl.SSLError) as error:
            files = f"{self.certificate}, {self.key} and {self.authority}"
            raise ConfigError(f"{files} don't make a TLS identity: {error}.", param="fleet.certificate") from error
        return context


def parse_address(text: str, setting: str) -> Address:
    """Return the address in `text`: ``unix:/absolute/path`` or ``tls://HOST:PORT``.

    Raises:
        ConfigError: it is anything else; the message names the setting.
    """
    scheme, _, rest = text.partition(":")
    if scheme == "unix" and rest.startswith("/"):
        return UnixAddress(Path(rest))
    if scheme == "tls" and rest.startswith("//"):
        host, colon, port = rest[2:].rpartition(":")
        if colon and host and port.isascii() and port.isdigit() and int(port) <= 65_535:
            return TlsAddress(host.removeprefix("[").removesuffix("]"), int(port))
    if scheme in ("tcp", "http"):
        raise ConfigError(f"{setting}: {text!r} would be plain TCP; use unix:/PATH or tls://HOST:PORT.", param=setting)
    raise ConfigError(f"{setting}: {text!r} is neither unix:/PATH nor tls://HOST:PORT.", param=setting)


async def connect(address: Address, tls: TlsFiles | None, make: MakeProtocol) -> None:
    """Connect to an address.

    Raises:
        OSError: nobody listens there, or it is not who it should be.
        ConfigError: there are no certificates for TLS.
    """
    loop = asyncio.get_running_loop()
    if isinstance(address, UnixAddress):
        await loop.create_unix_connection(make, str(address.path))
        return
    context = _needed(tls).context(is_server=False)
    await loop.create_connection(make, address.host, address.port, ssl=context, server_hostname="")


def connect_blocking(address: Address, tls: TlsFiles | None, *, timeout_s: float) -> socket.socket:
    """Connect to an address from a thread; return the socket, each of whose calls takes at most so long.

    Raises:
        OSError: nobody listens there, or it is not who it should be.
        ConfigError: there are no certificates for TLS.
    """
    if isinstance(address, UnixAddress):
        plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        plain.settimeout(timeout_s)
        try:
            plain.connect(str(address.path))
        except OSError:
            plain.close()
            raise
        return plain
    context = _needed(tls).context(is_server=False)
    plain = socket.create_connection((address.host, address.port), timeout=timeout_s)
    try:
        return context.wrap_socket(plain)
    except OSError:
        plain.close()
        raise


def shown_certificate(end: socket.socket) -> dict[str, Any] | None:
    """Return the certificate that the other end showed; None where it is a Unix socket's."""
    return end.getpeercert() if isinstance(end, ssl.SSLSocket) else None


async def listen(address: Address, tls: TlsFiles | None, make: MakeProtocol, setting: str) -> asyncio.Server:
    """Listen at an address; a socket left by a former life is replaced.

    Raises:
        ConfigError: it can't be listened on, or there are no certificates for TLS.
    """
    loop = asyncio.get_running_loop()
    try:
        if isinstance(address, UnixAddress):
            return await loop.create_unix_server(make, sock=_bind_unix(address.path), backlog=_BACKLOG)
        context = _needed(tls).context(is_server=True)
        return await loop.create_server(make, address.host, address.port, ssl=context, backlog=_BACKLOG)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{address} can't be listened on ({reason}); set {setting}.", param=setting) from error


def listening_address(address: Address, server: asyncio.Server) -> Address:
    """Return where a server is reached: the address with the port that the system chose for port 0."""
    if isinstance(address, UnixAddress) or address.port:
        return address
    return TlsAddress(address.host, int(server.sockets[0].getsockname()[1]))


def _bind_unix(path: Path) -> socket.socket:
    """Return a Unix socket at a path in a folder that is its owner's alone.

    Raises:
        ConfigError: the folder is open to others, or the path is too long.
        OSError: it can't be made.
    """
    if len(os.fsencode(path)) >= UNIX_PATH_BYTES_MAX:
        message = f"{path} is too long for a socket: at most {UNIX_PATH_BYTES_MAX - 1} bytes."
        raise ConfigError(message, param="HOTSET_HOME")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = path.parent.stat()
    if folder.st_uid != os.geteuid() or stat.S_IMODE(folder.st_mode) & 0o077:
        raise ConfigError(f"{path.parent} is open to other users; a socket's folder must be yours and 0700.")
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    bound.bind(str(path))
    path.chmod(0o600)
    return bound


def _needed(tls: TlsFiles | None) -> TlsFiles:
    if tls is None:
        message = "TLS needs fleet.certificate, fleet.key and fleet.authority."
        raise ConfigError(message, param="fleet.certificate")
    return tls
