"""Uploads against real files: names, bounds, wholeness, claims."""

import os
from pathlib import Path

import pytest

from hotset.core.errors import ConflictError, InvalidNameError, NotFoundError, RequestTooLargeError
from hotset.storage.staging import Staging, UploadLimits

LIMITS = UploadLimits(file_bytes_max=10, upload_bytes_max=15, num_files_max=3, num_uploads_max=2)


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    return Staging(tmp_path / "staging", LIMITS)


def send(staging: Staging, upload: str, name: str, content: bytes = b"x") -> None:
    with staging.receive(upload, name) as staged:
        staged.write(content)


def test_a_file_arrives_whole_with_its_digest(staging: Staging) -> None:
    upload = staging.create_upload()
    with staging.receive(upload, "adapter_config.json") as staged:
        staged.write(b"ab")
        assert not (staging.upload_folder(upload) / "adapter_config.json").exists()
        staged.write(b"c")
    path = staging.upload_folder(upload) / "adapter_config.json"
    assert path.read_bytes() == b"abc"
    assert path.stat().st_nlink == 1
    assert staged.size == 3
    assert staged.digest == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", ".hidden", "a/b", "../a", "a\\b", "a\0b", "a b", "ä", "a" * 129, "/etc/passwd", "a\n", "%2e%2e"],
)
def test_names_that_are_no_plain_file_name(staging: Staging, name: str) -> None:
    upload = staging.create_upload()
    with pytest.raises(InvalidNameError):
        send(staging, upload, name)
    assert list(staging.upload_folder(upload).iterdir()) == []


@pytest.mark.parametrize("upload", ["", "..", "0" * 32, "../blobs", "0" * 31 + "G"])
def test_unknown_uploads(staging: Staging, upload: str) -> None:
    with pytest.raises(NotFoundError):
        send(staging, upload, "a")
    with pytest.raises(NotFoundError):
        staging.claim(upload)


def test_bounds_on_bytes_files_and_uploads(staging: Staging) -> None:
    upload = staging.create_upload()
    with pytest.raises(RequestTooLargeError):
        send(staging, upload, "large", b"x" * 11)
    send(staging, upload, "a", b"x" * 10)
    with pytest.raises(RequestTooLargeError):
        send(staging, upload, "b", b"x" * 6)
    send(staging, upload, "b")
    send(staging, upload, "c")
    with pytest.raises(RequestTooLargeError):
        send(staging, upload, "d")
    staging.create_upload()
    with pytest.raises(RequestTooLargeError):
        staging.create_upload()


def test_files_that_come_at_once_share_an_uploads_bytes(staging: Staging) -> None:
    upload = staging.create_upload()
    with pytest.raises(RequestTooLargeError), staging.receive(upload, "a") as first:
        first.write(b"x" * 10)
        send(staging, upload, "b", b"x" * 10)
    assert [path.name for path in staging.upload_folder(upload).iterdir()] == ["b"]


def test_a_file_that_breaks_off_leaves_nothing(staging: Staging, tmp_path: Path) -> None:
    upload = staging.create_upload()
    with pytest.raises(KeyError), staging.receive(upload, "a") as staged:
        staged.write(b"half")
        raise KeyError
    assert list(staging.upload_folder(upload).iterdir()) == []
    assert list((tmp_path / "staging" / "incoming").iterdir()) == []


def test_a_name_is_taken_once(staging: Staging) -> None:
    upload = staging.create_upload()
    send(staging, upload, "a", b"first")
    with pytest.raises(ConflictError):
        send(staging, upload, "a", b"other")
    assert (staging.upload_folder(upload) / "a").read_bytes() == b"first"


def test_of_two_files_of_one_name_at_once_the_first_whole_one_stays(staging: Staging) -> None:
    upload = staging.create_upload()
    with pytest.raises(ConflictError), staging.receive(upload, "a") as slow:
        slow.write(b"slow")
        send(staging, upload, "a", b"fast")
    assert (staging.upload_folder(upload) / "a").read_bytes() == b"fast"


def test_of_two_claims_one_wins_and_late_files_find_nothing(staging: Staging) -> None:
    upload = staging.create_upload()
    with pytest.raises(NotFoundError), staging.receive(upload, "late") as staged:
        staged.write(b"x")
        folder = staging.claim(upload)
    assert list(folder.iterdir()) == []
    with pytest.raises(NotFoundError):
        staging.claim(upload)


def test_discard_and_scratch_leave_nothing(staging: Staging, tmp_path: Path) -> None:
    upload = staging.create_upload()
    send(staging, upload, "a")
    staging.discard_upload(upload)
    scratch = staging.create_scratch()
    (scratch / "x").write_bytes(b"x")
    staging.discard(scratch)
    assert [path.name for path in (tmp_path / "staging").iterdir()] == ["incoming"]


def test_sweep_spares_fresh_uploads_but_not_at_start(staging: Staging) -> None:
    old, fresh = staging.create_upload(), staging.create_upload()
    os.utime(staging.upload_folder(old), (1000.0, 1000.0))
    os.utime(staging.upload_folder(fresh), (90_000.0, 90_000.0))
    assert staging.sweep(100_000.0) == 1
    assert staging.upload_folder(fresh).is_dir()
    assert staging.sweep() == 1
    with pytest.raises(NotFoundError):
        staging.upload_folder(fresh)
