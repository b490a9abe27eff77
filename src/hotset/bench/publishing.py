"""Versions for benches that serve real ones: verified, stored and approved as control does it, in one call."""

from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hotset.core.base import BaseVersion
from hotset.core.ids import TenantId
from hotset.core.versions import VersionRecord
from hotset.registry.approval import sign_approval
from hotset.registry.verify import VerifyPolicy, verify
from hotset.storage.blobs import BlobStore
from hotset.storage.folder import open_artifact


def publish_version(
    folder: Path,
    base: BaseVersion,
    tenant: TenantId,
    name: str,
    *,
    policy: VerifyPolicy,
    blobs: BlobStore,
    signer: Ed25519PrivateKey,
) -> VersionRecord:
    """Verify an adapter's folder, store its files and return its approved first version.

    Raises:
        VersionRefusedError: the adapter does not fit the base.
    """
    with open_artifact(folder) as artifact:
        verified = verify(artifact, base, policy)
    for entry in verified.manifest.files:
        blobs.ingest(folder / entry.name)
    record = VersionRecord(
        owner=tenant,
        name=name,
        number=1,
        base=base.digest,
        digest=verified.digest,
        manifest=verified.manifest,
    )
    return msgspec.structs.replace(record, approval=sign_approval(signer, record))
