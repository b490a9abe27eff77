"""Control: every operator command, wired over one state folder, and the fleet that it follows.

Commands live in groups by concept (`bases`, `tenants`, `keys`, `grants`, `jobs`, `terms`, `operators`, `pools`,
`workers`, `publishing`, `proving`, `approving`, `withholding`, `usage`, `upkeep`), one method a command. Each
validates, changes the catalogue in one transaction with its audit entry, and leads to a new snapshot for every holder.
"""

import asyncio
from dataclasses import dataclass, field

import hotset
from hotset.control.actors import LOCAL_ADMIN, Separation
from hotset.control.approving import Approving
from hotset.control.bases import BaseCommands
from hotset.control.commits import Commits
from hotset.control.fleet import Fleet, FollowSettings
from hotset.control.gateways import Gateways
from hotset.control.grants import Grants
from hotset.control.holders import Holders, known_holders
from hotset.control.jobs import Jobs
from hotset.control.keys import Keys
from hotset.control.operators import Operators
from hotset.control.pools import Pools
from hotset.control.prover import Prover
from hotset.control.proving import Proving
from hotset.control.publishing import Publishing
from hotset.control.streaming import Listening
from hotset.control.suspects import Suspects
from hotset.control.tenants import Tenants
from hotset.control.terms import TermsCommands
from hotset.control.tokens import Entropy, system_entropy
from hotset.control.upkeep import Upkeep
from hotset.control.usage import UsageCommands
from hotset.control.withholding import Withholding
from hotset.control.witnesses import OwnProcess, Witness
from hotset.control.workers import Workers
from hotset.core.clock import Clock
from hotset.core.on_call import Unreached
from hotset.core.ports import ResidencyViewer
from hotset.core.snapshot import SnapshotHolder
from hotset.registry.approval import reviewer_key_id
from hotset.registry.verify import VerifyPolicy
from hotset.storage.blobs import BlobStore
from hotset.storage.database import Database
from hotset.storage.staging import Staging, UploadLimits
from hotset.storage.state_folder import StateFolder


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """What an operator may set of control."""

    #: One person may publish and approve the same version.
    one_person: bool = True
    #: How errors name the setting above, as the operator would write it.
    one_person_setting: str = "one_person: true"
    #: Largest rank that is published, and the dtype whose range values must fit: those of the engines that serve.
    rank_max: int = 64
    dtype: str = "bfloat16"
    uploads: UploadLimits = field(default_factory=UploadLimits)
    #: How long a job that ended is kept.
    job_keep_s: float = 86_400.0
    follow: FollowSettings = field(default_factory=FollowSettings)


@dataclass(frozen=True, slots=True)
class Opened:
    """What opening led to."""

    #: The first admin token, made and shown once in an installation's life.
    first_token: str | None = field(repr=False)


class Control:
    """The operator plane's commands. The caller holds the state folder's lock."""

    def __init__(
        self,
        folder: StateFolder,
        clock: Clock,
        prover: Prover,
        settings: ControlSettings,
        *,
        entropy: Entropy = system_entropy,
    ) -> None:
        folder.initialise()
        self._database = Database(folder.database)
        private_key = folder.reviewer_private_key()
        store_lock = asyncio.Lock()
        self.version = hotset.__version__
        self.is_one_person = settings.one_person
        self.reviewer_key = reviewer_key_id(private_key.public_key())
        self.blobs = BlobStore(folder.blobs)
        self.staging = Staging(folder.staging, settings.uploads)
        self.listening = Listening()
        #: Who can say what goes on; whoever runs gateways and agents here, or takes them in, says so.
        self.witness: Witness = OwnProcess()
        #: Who knows what is in the workers' slots; none where no server runs.
        self.viewers: list[ResidencyViewer] = []
        #: Gateways and workers in processes of their own; none where one process is all.
        self.holders: list[Holders] = []
        self.commits = Commits(self._database, clock)
        self.bases = BaseCommands(self.commits)
        self.tenants = Tenants(self.commits)
        self.keys = Keys(self.commits, entropy)
        self.grants = Grants(self.commits)
        self.jobs = Jobs(self.commits, keep_s=settings.job_keep_s)
        self.terms = TermsCommands(self.commits)
        self.operators = Operators(self.commits, entropy)
        self.pools = Pools(self.commits)
        self.workers = Workers(self.commits)
        self.gateways = Gateways(self.commits, self.holders)
        self.fleet = Fleet(self.commits, clock, settings.follow)
        policy = VerifyPolicy(settings.rank_max, settings.dtype)
        self.publishing = Publishing(self.commits, self.blobs, self.staging, store_lock, policy)
        self.proving = Proving(self.commits, self.blobs, self.staging, prover)
        separation = Separation(settings.one_person, settings.one_person_setting)
        self.approving = Approving(
            self.commits,
            self.blobs,
            store_lock,
            private_key=private_key,
            reviewer_keys=folder.reviewer_keys(),
            separation=separation,
        )
        self.withholding = Withholding(self.commits, separation)
        self.suspects = Suspects(self.commits, self.withholding, clock)
        self.usage = UsageCommands(self.commits)
        self.upkeep = Upkeep(self.commits, self.blobs, self.staging, store_lock)

    async def open(self) -> Opened:
        """Migrate the database, clear what a crash left, make the first admin token, build the first snapshot.

        Raises:
            ConfigError: the database is damaged, or was lost and the store was not.
        """
        await asyncio.to_thread(self._database.migrate)
        await self.upkeep.check_not_orphaned()
        await self.upkeep.collect_garbage(LOCAL_ADMIN, at_start=True)
        issued = await self.operators.first()
        await self.commits.publish()
        return Opened(None if issued is None else issued.token)

    async def absent(self) -> list[Unreached]:
        """Return every gateway and worker of this installation: nobody is linked where control does not run."""
        known = await self.commits.read(known_holders)
        return [Unreached(peer.role, peer.name, "control does not run, so it is not linked") for peer in known]

    async def close(self) -> None:
        """Wait for long work to end, then close the database."""
        await self.listening.finish()
        await asyncio.to_thread(self._database.close)

    def add_holder(self, holder: SnapshotHolder) -> None:
        """Give a gateway or agent the current snapshot and every later one."""
        self.commits.add_holder(holder)

    def add_viewer(self, viewer: ResidencyViewer) -> None:
        """Ask an agent, too, who is in its slots when somebody wants to see it."""
        self.viewers.append(viewer)

    def add_holders(self, holders: Holders) -> None:
        """Look after gateways and workers in processes of their own."""
        self.holders.append(holders)
        self.add_holder(holders)
        self.add_viewer(holders)
        self.suspects.sources.append(holders)
