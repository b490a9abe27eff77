"""Blobs against real files: what comes out is what went in, or an error."""

import hashlib
import os
import stat
from pathlib import Path

import pytest

from hotset.core.errors import DigestMismatchError
from hotset.core.ids import Digest
from hotset.storage.blobs import BlobStore

CONTENT = b"adapter bytes " * 1000
DIGEST = Digest("sha256:" + hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.safetensors"
    path.write_bytes(CONTENT)
    return path


def blob_path(tmp_path: Path) -> Path:
    hexadecimal = DIGEST.partition(":")[2]
    return tmp_path / "blobs" / "sha256" / hexadecimal[:2] / hexadecimal


def test_ingest_keeps_bytes_under_their_digest_and_read_only(store: BlobStore, source: Path, tmp_path: Path) -> None:
    assert store.ingest(source) == (DIGEST, len(CONTENT))
    assert blob_path(tmp_path).read_bytes() == CONTENT
    assert stat.S_IMODE(blob_path(tmp_path).stat().st_mode) == 0o400
    assert list(store.digests()) == [DIGEST]
    assert not list((tmp_path / "blobs" / "incoming").iterdir())


def test_ingesting_twice_is_one_blob(store: BlobStore, source: Path) -> None:
    store.ingest(source)
    store.ingest(source)
    assert list(store.digests()) == [DIGEST]


def test_ingest_again_heals_a_rotten_blob(store: BlobStore, source: Path, tmp_path: Path) -> None:
    store.ingest(source)
    flip_a_byte(blob_path(tmp_path))
    store.ingest(source)
    assert store.verify(DIGEST) == len(CONTENT)


def test_copy_out_is_checked_and_read_only(store: BlobStore, source: Path, tmp_path: Path) -> None:
    store.ingest(source)
    destination = tmp_path / "copy"
    assert store.copy_verified(DIGEST, destination) == len(CONTENT)
    assert destination.read_bytes() == CONTENT
    assert stat.S_IMODE(destination.stat().st_mode) == 0o400


def test_a_flipped_byte_never_leaves_the_store(store: BlobStore, source: Path, tmp_path: Path) -> None:
    store.ingest(source)
    flip_a_byte(blob_path(tmp_path))
    destination = tmp_path / "out" / "copy"
    destination.parent.mkdir()
    with pytest.raises(DigestMismatchError):
        store.copy_verified(DIGEST, destination)
    assert list(destination.parent.iterdir()) == []
    with pytest.raises(DigestMismatchError):
        store.verify(DIGEST)


def test_a_blob_replaced_by_a_link_is_refused(store: BlobStore, source: Path, tmp_path: Path) -> None:
    store.ingest(source)
    blob_path(tmp_path).unlink()
    blob_path(tmp_path).symlink_to(source)
    with pytest.raises(OSError, match="symbolic link"):
        store.copy_verified(DIGEST, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_missing_blob_is_a_mismatch(store: BlobStore, tmp_path: Path) -> None:
    for act in (lambda: store.verify(DIGEST), lambda: store.copy_verified(DIGEST, tmp_path / "copy")):
        with pytest.raises(DigestMismatchError, match="missing"):
            act()
    assert not (tmp_path / "copy").exists()


def test_a_destination_folder_that_is_missing_is_not_blamed_on_the_blob(
    store: BlobStore, source: Path, tmp_path: Path
) -> None:
    store.ingest(source)
    with pytest.raises(FileNotFoundError):
        store.copy_verified(DIGEST, tmp_path / "nowhere" / "copy")


@pytest.mark.parametrize(
    "text", ["", "sha256:", "sha256:../../etc/passwd", "sha256:" + "g" * 64, "sha256:" + "A" * 64, DIGEST + "0"]
)
def test_a_text_that_is_no_digest_names_no_path(store: BlobStore, text: str) -> None:
    with pytest.raises(DigestMismatchError, match="not a digest"):
        store.verify(Digest(text))


def test_links_pipes_and_folders_are_not_ingested(store: BlobStore, source: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(source)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (link, pipe, tmp_path):
        with pytest.raises(OSError):
            store.ingest(path)
    assert list(store.digests()) == []
    assert not list((tmp_path / "blobs" / "incoming").iterdir())


def test_delete_frees_and_is_harmless_twice(store: BlobStore, source: Path) -> None:
    store.ingest(source)
    assert store.delete(DIGEST) == len(CONTENT)
    assert store.delete(DIGEST) == 0
    assert list(store.digests()) == []


def test_sweep_removes_what_a_killed_ingest_left(store: BlobStore, tmp_path: Path) -> None:
    (tmp_path / "blobs" / "incoming" / "abc.part").write_bytes(b"half")
    assert store.sweep() == 1
    assert store.sweep() == 0


def test_progress_adds_up(store: BlobStore, source: Path) -> None:
    seen: list[int] = []
    store.ingest(source, seen.append)
    assert sum(seen) == len(CONTENT)


def flip_a_byte(path: Path) -> None:
    path.chmod(0o600)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    path.chmod(0o400)
