"""Who a process of a fleet is, and where it finds the others, by its settings."""

import secrets
from dataclasses import dataclass
from pathlib import Path

from hotset.cli.settings import Settings
from hotset.core.errors import ConfigError, InvalidNameError
from hotset.core.ids import parse_worker
from hotset.links.address import Address, TlsFiles, UnixAddress, parse_address
from hotset.links.peers import Peer, Role
from hotset.storage.holder_folder import HolderFolder
from hotset.storage.state_folder import StateFolder

_INSTANCE_BYTES = 8


@dataclass(frozen=True)
class Place:
    """One process of a fleet."""

    me: Peer
    #: Of this start of the process.
    instance: str
    folder: StateFolder
    #: Where control takes holders in.
    control: Address
    #: Where this process listens for others of the fleet; for control the same.
    listen: Address
    tls: TlsFiles | None

    @property
    def own(self) -> HolderFolder:
        """The folder of this gateway or worker."""
        return self.folder.of_holder(self.me.role, self.me.name)

    @property
    def address_file(self) -> Path:
        """Where this process says where it listens."""
        return self.folder.run / f"{self.me.role}-{self.me.name}.json"


def place_of(settings: Settings, role: Role) -> Place:
    """Return the place of a process with this role.

    Raises:
        ConfigError: its name, an address or the certificates are not valid.
    """
    fleet, folder = settings.fleet, StateFolder(settings.home)
    try:
        name = parse_worker(fleet.name or role)
    except InvalidNameError as error:
        raise ConfigError(f"fleet.name: {error.message}", param="fleet.name") from error
    tls = _tls_files(settings)
    control = _address(fleet.control, folder.socket_of("control", ""), "fleet.control")
    listen = control if role == "control" else _address(fleet.listen, folder.socket_of(role, name), "fleet.listen")
    if tls is None and not (isinstance(control, UnixAddress) and isinstance(listen, UnixAddress)):
        message = "TLS needs fleet.certificate, fleet.key and fleet.authority: PEM files (docs/fleet.md)."
        raise ConfigError(message, param="fleet.certificate")
    return Place(Peer(role, name), secrets.token_hex(_INSTANCE_BYTES), folder, control, listen, tls)


def _address(text: str, otherwise: Path, setting: str) -> Address:
    return parse_address(text, setting) if text else UnixAddress(otherwise)


def _tls_files(settings: Settings) -> TlsFiles | None:
    fleet = settings.fleet
    named = {"certificate": fleet.certificate, "key": fleet.key, "authority": fleet.authority}
    if not any(named.values()):
        return None
    missing = [f"fleet.{setting}" for setting, path in named.items() if not path]
    if missing:
        raise ConfigError(f"{' and '.join(missing)} must be named, too.", param=missing[0])
    root = settings.file.parent if settings.file is not None else Path()
    certificate, key, authority = (root / Path(path).expanduser() for path in named.values())
    files = TlsFiles(certificate, key, authority)
    files.context(is_server=True)  # says now what is wrong with them
    return files
