"""Blobs that a machine keeps of a store elsewhere: whole or not at all, and no more than there is room for."""

import errno
import hashlib
import os
from pathlib import Path

import pytest

from hotset.core.errors import DigestMismatchError
from hotset.core.ids import Digest
from hotset.storage.hashing import as_digest
from hotset.storage.kept_blobs import PART_KEPT_S, KeptBlobs

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


def test_what_nobody_went_on_with_for_long_is_swept_and_what_was_cut_off_lately_goes_on(tmp_path: Path) -> None:
    now_s = 1_000_000.0
    store, contents = KeptBlobs(tmp_path / "blobs", 1 << 20), {"old": b"old " * 1000, "new": CONTENT}
    for name, content in contents.items():
        with pytest.raises(ConnectionError), store.receiving(digest_of(content), len(content)) as arriving:
            arriving.add(content[:3000])
            raise ConnectionError
        age_s = PART_KEPT_S + 1.0 if name == "old" else PART_KEPT_S - 1.0
        hexadecimal = digest_of(content).removeprefix("sha256:")
        (part,) = [each for each in (tmp_path / "blobs" / "incoming").iterdir() if hexadecimal in each.name]
        os.utime(part, (now_s - age_s, now_s - age_s))
    whole = put(store, b"whole")
    later = KeptBlobs(tmp_path / "blobs", 1 << 20)
    assert (later.sweep_parts(now_s), later.sweep_parts(now_s)) == (1, 0)
    assert later.use(whole)
    with later.receiving(digest_of(CONTENT), len(CONTENT)) as arriving:
        assert arriving.num_bytes == 3000
        arriving.add(CONTENT[3000:])
    with later.receiving(digest_of(contents["old"]), len(contents["old"])) as arriving:
        assert arriving.num_bytes == 0
        arriving.add(contents["old"])
    assert later.use(digest_of(CONTENT))


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
