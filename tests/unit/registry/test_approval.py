"""An approval covers exactly one version, by a key that may approve now."""

import dataclasses
from collections.abc import Callable

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hotset.core.errors import ApprovalInvalidError
from hotset.core.ids import Digest, engine_name
from hotset.core.versions import Approval, FileEntry, Manifest, VersionRecord
from hotset.registry.approval import (
    ApprovedVersion,
    check_approval,
    reviewer_key_id,
    sign_approval,
    statement,
)
from hotset.registry.artifact import Artifact
from hotset.registry.verify import VerifyPolicy, verify
from tests.support.adapters import tiny_base_version
from tests.support.bad_adapters import adapter_files

KEY = Ed25519PrivateKey.from_private_bytes(b"\x01" * 32)
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(b"\x02" * 32)
KEYS = {reviewer_key_id(KEY.public_key()): KEY.public_key()}
replace = msgspec.structs.replace


def record_of(number: int = 1) -> VersionRecord:
    verified = verify(Artifact.of(adapter_files()), tiny_base_version(), VerifyPolicy(rank_max=16))
    return VersionRecord(
        owner="acme",
        name="support",
        number=number,
        base=verified.base,
        digest=verified.digest,
        manifest=verified.manifest,
    )


def approved(record: VersionRecord) -> VersionRecord:
    return replace(record, approval=sign_approval(KEY, record))


def test_a_signed_version_is_approved() -> None:
    record = approved(record_of())

    version = check_approval(record, KEYS)

    assert version.record is record
    load = version.load_from("/store/x")
    assert load.engine_name == engine_name(record.route)
    assert load.modules == record.manifest.modules
    assert load.files == {entry.name: entry.digest for entry in record.manifest.files}


def test_only_check_approval_makes_an_approved_version() -> None:
    with pytest.raises(AssertionError, match=r"only registry\.approval\.check_approval"):
        ApprovedVersion(record_of(), object())
    with pytest.raises(ValueError, match="seal"):
        dataclasses.replace(check_approval(approved(record_of()), KEYS), record=record_of())


def _scaled(manifest: Manifest) -> Manifest:
    first, *rest = manifest.modules
    return replace(manifest, modules=(replace(first, scaling=first.scaling * 2), *rest))


def _other_file(manifest: Manifest) -> Manifest:
    first, *rest = manifest.files
    return replace(manifest, files=(replace(first, digest=Digest("sha256:" + "f" * 64)), *rest))


def _more_files(manifest: Manifest) -> Manifest:
    extra = FileEntry(name="adapter_model.bin", digest=Digest("sha256:" + "f" * 64), size_bytes=1)
    return replace(manifest, files=(*manifest.files, extra))


CHANGES: dict[str, Callable[[VersionRecord], VersionRecord]] = {
    "no approval": lambda record: replace(record, approval=None),
    "owner": lambda record: replace(record, owner="evil"),
    "name": lambda record: replace(record, name="other"),
    "number": lambda record: replace(record, number=2),
    "base": lambda record: replace(record, base=Digest("sha256:" + "c" * 64)),
    "digest": lambda record: replace(record, digest=Digest("sha256:" + "d" * 64)),
    "scaling": lambda record: replace(record, manifest=_scaled(record.manifest)),
    "file": lambda record: replace(record, manifest=_other_file(record.manifest)),
    "more files": lambda record: replace(record, manifest=_more_files(record.manifest)),
    "signature": lambda record: replace(record, approval=replace(record.approval, signature="00" * 64)),
    "no hex": lambda record: replace(record, approval=replace(record.approval, signature="zz")),
    "short": lambda record: replace(record, approval=replace(record.approval, signature="00")),
    "other key": lambda record: replace(record, approval=sign_approval(OTHER_KEY, record)),
    "key name": lambda record: replace(
        record,
        approval=Approval(
            reviewer_key=reviewer_key_id(KEY.public_key()), signature=sign_approval(OTHER_KEY, record).signature
        ),
    ),
}


@pytest.mark.parametrize("change", list(CHANGES.values()), ids=list(CHANGES))
def test_anything_else_is_not_covered(change: Callable[[VersionRecord], VersionRecord]) -> None:
    with pytest.raises(ApprovalInvalidError, match="No valid approval covers"):
        check_approval(change(approved(record_of())), KEYS)


def test_a_digest_that_moves_with_the_files_is_still_not_the_signed_one() -> None:
    one, other = approved(record_of()), record_of()
    policy = VerifyPolicy(rank_max=16)
    verified = verify(Artifact.of(adapter_files(seed=9)), tiny_base_version(), policy)

    swapped = replace(other, digest=verified.digest, manifest=verified.manifest, approval=one.approval)

    with pytest.raises(ApprovalInvalidError, match="signature"):
        check_approval(swapped, KEYS)


def test_a_key_filed_under_another_name_is_no_reviewers() -> None:
    record = approved(record_of())

    with pytest.raises(ApprovalInvalidError):
        check_approval(record, {reviewer_key_id(KEY.public_key()): OTHER_KEY.public_key()})
    with pytest.raises(ApprovalInvalidError):
        check_approval(record, {})


def test_statements_of_different_versions_differ() -> None:
    record = record_of()
    # The same letters, cut differently between the fields.
    shifted = replace(record, owner="acmes", name="upport")

    assert statement(record) != statement(shifted)
    assert statement(record) == statement(approved(record))
