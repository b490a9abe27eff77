"""The record of one version as it travels from control to an agent: files, proved modules, approval.

Plain values, still unchecked: an agent trusts a record only through `registry.approval.check_approval`.
"""

import msgspec

from hotset.core.ids import AdapterId, Digest, Route, TenantId, VersionRef
from hotset.core.messages import ModuleSpec


class FileEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One stored file of a version."""

    #: A plain file name; versions have no sub-folders.
    name: str
    digest: Digest
    size_bytes: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A version as `verify` proved it. `files` is sorted by name, `modules` by module path.

    Law: ``msgspec.json.decode(msgspec.json.encode(m), type=Manifest) == m``.
    """

    files: tuple[FileEntry, ...]
    modules: tuple[ModuleSpec, ...]
    #: Largest rank of any module.
    rank_max: int
    #: Overrides recorded with the version, such as ``ignore_shipped_tokenizer``.
    overrides: tuple[str, ...] = ()
    #: Codes and messages of warnings the publisher was told.
    warnings: tuple[tuple[str, str], ...] = ()


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A reviewer's signed statement that one version may be served.

    The signature covers base version, version digest, adapter id and number (`registry.approval.statement`).
    """

    #: ``ed25519:`` and 16 hex digits of the public key's SHA-256.
    reviewer_key: str
    #: Hex of the 64-byte Ed25519 signature.
    signature: str


class VersionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What control says of a version. An agent trusts it only through `registry.approval.check_approval`."""

    owner: str
    name: str
    number: int
    base: Digest
    digest: Digest
    manifest: Manifest
    approval: Approval | None = None

    @property
    def ref(self) -> VersionRef:
        """The version's reference."""
        return VersionRef(AdapterId(TenantId(self.owner), self.name), self.number)

    @property
    def route(self) -> Route:
        """The version's route."""
        return Route(self.base, self.ref.adapter, self.number, self.digest)
