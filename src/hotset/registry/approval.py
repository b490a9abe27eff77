"""The signed statement that one version may be served, and the one way to an `ApprovedVersion`.

The statement covers base version, version digest, adapter, number, and what `verify` proved of the modules: whoever
could change a stored scaling could otherwise change what reviewed bytes say. Its fields are length-prefixed under a
domain of their own, so no two statements share an encoding and no other signature of the same key fits.

Invariant: for an `ApprovedVersion` the files have the digest that was signed, by a key that is a reviewer's now.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import InitVar, dataclass

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from hotset.core.errors import ApprovalInvalidError
from hotset.core.ids import engine_name
from hotset.core.messages import AdapterLoad
from hotset.core.versions import Approval, Manifest, VersionRecord
from hotset.registry.digests import version_digest

_DOMAIN = b"hotset.registry.approval.v1"
_CHECK_ONLY = object()


@dataclass(frozen=True, slots=True)
class ApprovedVersion:
    """A record whose approval was checked by this process; nothing but `check_approval` can make one."""

    record: VersionRecord
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        if seal is not _CHECK_ONLY:
            raise AssertionError("only registry.approval.check_approval makes an ApprovedVersion")

    def load_from(self, folder: str) -> AdapterLoad:
        """Return what an engine needs to load this version from a folder that holds exactly its files."""
        name = engine_name(self.record.route)
        assert name is not None, "a version's route names an adapter"
        manifest = self.record.manifest
        return AdapterLoad(
            engine_name=name,
            folder=folder,
            files={entry.name: entry.digest for entry in manifest.files},
            modules=manifest.modules,
        )


def reviewer_key_id(public_key: Ed25519PublicKey) -> str:
    """Return the name of a reviewer's key: ``ed25519:`` and 16 hex digits of its SHA-256."""
    return "ed25519:" + hashlib.sha256(public_key.public_bytes_raw()).hexdigest()[:16]


def manifest_digest(manifest: Manifest) -> str:
    """Return the hex SHA-256 of a manifest: files, modules, overrides and warnings."""
    return hashlib.sha256(msgspec.json.encode(manifest, order="deterministic")).hexdigest()


def statement(record: VersionRecord) -> bytes:
    """Return the bytes that a reviewer signs for a version; `record.approval` has no part in them."""
    fields = (
        record.base,
        record.digest,
        record.owner,
        record.name,
        str(record.number),
        manifest_digest(record.manifest),
    )
    parts = [field_text.encode() for field_text in fields]
    return _DOMAIN + b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def sign_approval(private_key: Ed25519PrivateKey, record: VersionRecord) -> Approval:
    """Return a reviewer's approval of a version."""
    return Approval(
        reviewer_key=reviewer_key_id(private_key.public_key()),
        signature=private_key.sign(statement(record)).hex(),
    )


def check_approval(record: VersionRecord, reviewer_keys: Mapping[str, Ed25519PublicKey]) -> ApprovedVersion:
    """Check that a reviewer signed exactly this version.

    Args:
        record: As control or the database has it; nothing in it is trusted.
        reviewer_keys: Keys that may approve now, by `reviewer_key_id`.

    Raises:
        ApprovalInvalidError: there is no approval, its key is no reviewer's, the signature does not fit, or
            the files have another digest than the one that was signed.
    """
    approval = record.approval
    if approval is None:
        raise _invalid(record, "nobody approved it")
    public_key = reviewer_keys.get(approval.reviewer_key)
    if public_key is None or reviewer_key_id(public_key) != approval.reviewer_key:
        raise _invalid(record, f"{approval.reviewer_key[:32]} is no reviewer's key")
    if version_digest(record.base, record.manifest.files) != record.digest:
        raise _invalid(record, "its files have another digest than the approved one")
    try:
        public_key.verify(bytes.fromhex(approval.signature), statement(record))
    except (InvalidSignature, ValueError) as error:
        raise _invalid(record, "the signature does not fit") from error
    return ApprovedVersion(record, seal=_CHECK_ONLY)


def _invalid(record: VersionRecord, why: str) -> ApprovalInvalidError:
    return ApprovalInvalidError(f"No valid approval covers {record.ref}: {why}.")
