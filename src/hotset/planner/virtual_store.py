"""A simulated worker's local store and the trusted store behind it: slow disks, full ones, flipped bits.

As the agent's own store does, it checks the approval and every byte at each load and deletes what does not check.
"""

import random

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hotset.core.errors import DigestMismatchError
from hotset.core.ids import EngineName, engine_name
from hotset.core.versions import VersionRecord
from hotset.planner.calibration import Calibration
from hotset.planner.truth import Truth, digest_of
from hotset.registry.approval import check_approval

_MB = 1e6


class VirtualStore:
    """Files by engine name; what it takes to read them is asked beforehand."""

    def __init__(self, truth: Truth, reviewer_keys: dict[str, Ed25519PublicKey], calibration: Calibration) -> None:
        self._truth = truth
        self._reviewer_keys = reviewer_keys
        self._calibration = calibration
        self._files: dict[EngineName, bytes] = {}
        #: How much slower than usual the disk is.
        self.slowness = 1.0
        #: The share of fetches that bring a flipped bit.
        self.corrupt_share = 0.0
        self.is_full = False

    def open(self) -> None:
        """Delete everything."""
        self._files.clear()

    def seconds(self, record: VersionRecord) -> float:
        """Return what `materialise` will take."""
        rates, size_mb = self._calibration, sum(entry.size_bytes for entry in record.manifest.files) / _MB
        is_warm = engine_name(record.route) in self._files
        return self.slowness * size_mb * (rates.warm_mb_s if is_warm else rates.cold_mb_s)

    def materialise(self, record: VersionRecord, rng: random.Random) -> bytes:
        """Return a version's checked bytes, fetching them where they are not here or not whole.

        Raises:
            ApprovalInvalidError: nobody approved it.
            DigestMismatchError: the bytes are not the approved ones; none are kept.
            OSError: the disk is full.
        """
        approved = check_approval(record, self._reviewer_keys)
        name = engine_name(approved.record.route)
        assert name is not None, "a version's route names an adapter"
        (entry,) = record.manifest.files
        if (weights := self._files.pop(name, None)) is None or digest_of(weights) != entry.digest:
            weights = self._fetch(name, rng)
            if digest_of(weights) != entry.digest:
                raise DigestMismatchError
        self._files[name] = weights
        return weights

    def fetch(self, record: VersionRecord, rng: random.Random) -> None:
        """Bring a version's files here where there are none; see `materialise`."""
        if engine_name(record.route) not in self._files:
            self.materialise(record, rng)

    def discard(self, name: EngineName) -> None:
        """Delete a version's files."""
        self._files.pop(name, None)

    def corrupt(self, rng: random.Random) -> None:
        """Flip a bit of one version's files."""
        if self._files:
            name = rng.choice(list(self._files))
            self._files[name] = _flipped(self._files[name])

    def _fetch(self, name: EngineName, rng: random.Random) -> bytes:
        if self.is_full:
            raise OSError("the disk is full")
        weights = self._truth.weights[name]
        return _flipped(weights) if rng.random() < self.corrupt_share else weights


def _flipped(weights: bytes) -> bytes:
    return bytes([weights[0] ^ 1]) + weights[1:]
