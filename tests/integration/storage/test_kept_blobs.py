"""Blobs that a machine keeps of a store elsewhere: whole or not at all, and no more than there is room for."""

import errno
import hashlib
import os
from pathlib import Path

import pytest

from hotset.core.errors import DigestMismatchError
from hotset.core.ids import Digest
from hotset.storage.hashing import as_digest
from hotset.storage.kept_blobs import KeptBlobs

CONTENT = b"weights " * 1000


def digest_of(content: bytes) -> Digest:
    return as_digest(hashlib.sha256(content).hexdigest())


def put(store: KeptBlobs, content: bytes) -> Digest:
    digest = digest_of(content)
    with store.receiving(digest, len(content)) as arriving:
        arriving.add(content)
    return digest


def copy_of(store: KeptBlobs, digest: Digest, root: Path) -> bytes:
    store.copy_verified(digest, root / "copy")
    return (root / "copy").read_bytes()


def test_what_was_cut_off_goes_on_where_it_stopped(tmp_path: Path) -> None:
    store, digest = KeptBlobs(tmp_path / "blobs", 1 << 20), digest_of(CONTENT)
    with pytest.raises(ConnectionError), store.receiving(digest, len(CONTENT)) as arriving:
        arriving.add(CONTENT[:3000])
        raise ConnectionError
    assert not store.use(digest)
    with store.receiving(digest, len(CONTENT)) as arriving:
        assert arriving.num_bytes == 3000
        arriving.add(CONTENT[3000:])
    assert store.use(digest)
    assert copy_of(store, digest, tmp_path) == CONTENT
    assert list((tmp_path / "blobs" / "incoming").iterdir()) == []


@pytest.mark.parametrize(
    "content", [CONTENT[:-1] + b"?", CONTENT + b"more", CONTENT[:-1]], ids=["other", "longer", "shorter"]
)
def test_other_bytes_than_the_digests_never_count_as_the_blob(tmp_path: Path, content: bytes) -> None:
    store, digest = KeptBlobs(tmp_path / "blobs", 1 << 20), digest_of(CONTENT)
    with pytest.raises(DigestMismatchError), store.receiving(digest, len(CONTENT)) as arriving:
        arriving.add(content)
    assert not store.use(digest)
    assert list((tmp_path / "blobs" / "incoming").iterdir()) == [], "the next try begins anew"


def test_a_part_that_rotted_is_found_out(tmp_path: Path) -> None:
    store, digest = KeptBlobs(tmp_path / "blobs", 1 << 20), digest_of(CONTENT)
    with pytest.raises(ConnectionError), store.receiving(digest, len(CONTENT)) as arriving:
        arriving.add(CONTENT[:3000])
        raise ConnectionError
    (part,) = (tmp_path / "blobs" / "incoming").iterdir()
    part.write_bytes(b"?" * 3000)
    with pytest.raises(DigestMismatchError), store.receiving(digest, len(CONTENT)) as arriving:
        arriving.add(CONTENT[3000:])
    assert put(store, CONTENT) == digest


def test_what_was_used_longest_ago_makes_room_and_the_newest_stays(tmp_path: Path) -> None:
    store = KeptBlobs(tmp_path / "blobs", 250)
    first, second = put(store, b"a" * 100), put(store, b"b" * 100)
    for age_s, digest in ((200, second), (100, first)):
        path = next(path for path in (tmp_path / "blobs").rglob("*") if digest.endswith(path.name))
        os.utime(path, (1e9 - age_s, 1e9 - age_s))
    third = put(store, b"c" * 100)
    assert [store.contains(digest) for digest in (first, second, third)] == [True, False, True]
    assert store.use(first)
    huge = put(store, b"d" * 400)
    assert [store.contains(digest) for digest in (first, third, huge)] == [False, False, True]


def test_on_a_full_disk_those_used_longest_ago_give_way_for_the_next_try(tmp_path: Path) -> None:
    store, wanted = KeptBlobs(tmp_path / "blobs", 1 << 40), digest_of(b"wanted" * 500)
    oldest, old, new = (put(store, word * 400) for word in (b"first", b"then.", b"last."))
    for at_s, digest in enumerate((oldest, old, new)):
        os.utime(store._path(digest), (at_s, at_s))  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(OSError, match="full"), store.receiving(wanted, 3000) as arriving:
        arriving.add(b"wanted")
        raise OSError(errno.ENOSPC, "full")
    assert [store.contains(digest) for digest in (oldest, old, new)] == [False, False, True]
    assert list((tmp_path / "blobs" / "incoming").iterdir()) == []
