"""What is true in a simulated fleet, whoever knows of it yet: versions and their bytes, epochs, withdrawals."""

import hashlib
from dataclasses import dataclass, field

from hotset.core.ids import Digest, EngineName
from hotset.core.ports import Withdrawal
from hotset.core.snapshot import RoutingSnapshot
from hotset.core.versions import VersionRecord


@dataclass(slots=True)
class Truth:
    """Written by the simulated control, read by the rules and by the trusted store."""

    #: The bytes of each version's one file, as they were published.
    weights: dict[EngineName, bytes] = field(default_factory=dict[EngineName, bytes])
    #: Versions that a reviewer truly approved.
    approved: set[EngineName] = field(default_factory=set[EngineName])
    #: Every snapshot ever published, by epoch, with the true time of it.
    published: dict[int, tuple[float, RoutingSnapshot]] = field(
        default_factory=dict[int, tuple[float, RoutingSnapshot]]
    )
    #: Withdrawals with `--cut`, by the epoch they came with.
    cuts: list[tuple[int, Withdrawal]] = field(default_factory=list[tuple[int, Withdrawal]])

    @property
    def snapshot(self) -> RoutingSnapshot:
        """The newest one."""
        return self.published[max(self.published)][1]


def digest_of(content: bytes) -> Digest:
    """Return the digest of a file's bytes."""
    return Digest("sha256:" + hashlib.sha256(content).hexdigest())


def weights_of(record: VersionRecord) -> bytes:
    """Return the bytes that a version was published with."""
    return f"weights of {record.ref}".encode()
