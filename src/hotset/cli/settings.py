"""What an installation is started with: one frozen value, filled by `config` and read by all wiring."""

import ipaddress
from dataclasses import dataclass, field, replace
from pathlib import Path

from hotset.control.control import ControlSettings
from hotset.control.declaring import Desired
from hotset.control.fleet import FollowSettings
from hotset.engines.settings import EngineSettings
from hotset.gateway.jobs.settings import JobSettings
from hotset.gateway.settings import GatewaySettings
from hotset.links.settings import FleetSettings
from hotset.routing.placements import HomesSettings
from hotset.storage.staging import UploadLimits
from hotset.worker.settings import WorkerSettings


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where `hotset serve` listens, and who may do what there."""

    #: Address of the tenant plane.
    tenant_host: str = "127.0.0.1"
    #: Port of the tenant plane; 0 lets the system choose one.
    tenant_port: int = 8080
    #: Address of the operator plane.
    admin_host: str = "127.0.0.1"
    #: Port of the operator plane; 0 lets the system choose one.
    admin_port: int = 8081
    #: One person may publish and approve the same version; null: yes while both planes listen on loopback alone.
    one_person: bool | None = None

    @property
    def is_one_person(self) -> bool:
        """Whether one person may publish and approve the same version."""
        if self.one_person is not None:
            return self.one_person
        return is_loopback(self.tenant_host) and is_loopback(self.admin_host)


@dataclass(frozen=True, slots=True)
class Remote:
    """A server elsewhere."""

    url: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that was configured."""

    #: The state folder.
    home: Path
    #: The file that was read, where there was one.
    file: Path | None = None
    #: Set where commands go to a server elsewhere.
    remote: Remote | None = None
    server: ServerSettings = field(default_factory=ServerSettings)
    uploads: UploadLimits = field(default_factory=UploadLimits)
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    jobs: JobSettings = field(default_factory=JobSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    fleet: FleetSettings = field(default_factory=FleetSettings)
    homes: HomesSettings = field(default_factory=HomesSettings)
    #: What the file declares to be there.
    desired: Desired = field(default_factory=Desired)

    @property
    def control(self) -> ControlSettings:
        """The settings of the control room, which follow from the others."""
        return ControlSettings(
            one_person=self.server.is_one_person,
            one_person_setting="server.one_person: true (in hotset.yaml), or HOTSET_SERVER_ONE_PERSON=true",
            rank_max=self.engine.rank_max,
            dtype=self.engine.verified_dtype,
            uploads=self.uploads,
            follow=FollowSettings(homes=self.homes),
            job_keep_s=self.jobs.keep_s,
        )

    def at(self, home: Path) -> "Settings":
        """Return the same settings over another state folder."""
        return replace(self, home=home)


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
