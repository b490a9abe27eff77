"""A worker's local store under several threads: one that fills a version's folder keeps nobody from another's."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hotset.core.errors import LoadFailedError
from hotset.core.ids import Digest
from hotset.registry.approval import ApprovedVersion, check_approval, reviewer_key_id
from hotset.storage.blobs import BlobStore
from hotset.worker.local_store import LocalStore
from tests.support.agent_world import REVIEWER, AgentWorld

KEYS = {reviewer_key_id(REVIEWER.public_key()): REVIEWER.public_key()}


class HeldBlobs:
    """The blobs of a trusted store; the copy of some of them waits until it is let go on."""

    def __init__(self, blobs: BlobStore, held: set[Digest]) -> None:
        self._blobs = blobs
        self._held = held
        self.has_begun, self.goes_on = threading.Event(), threading.Event()

    def bring(self, digest: Digest, size_bytes: int) -> None:
        """They are here."""

    def copy_verified(self, digest: Digest, destination: Path) -> int:
        if digest in self._held:
            self.has_begun.set()
            assert self.goes_on.wait(30)
        return self._blobs.copy_verified(digest, destination)


class Place:
    """A store whose copy of ``a`` is held back, and threads."""

    def __init__(self, root: Path) -> None:
        world = AgentWorld(root)
        self.versions: dict[str, ApprovedVersion] = {
            name: check_approval(record, KEYS) for name, record in world.records.items()
        }
        self.engine_names = {name: world.engine_name(name) for name in world.records}
        self.folders = {name: root / "local" / self.engine_names[name] for name in world.records}
        self.blobs = HeldBlobs(world.blobs, {world.records["a"].manifest.files[0].digest})
        self.store = LocalStore(root / "local", self.blobs)
        self.store.open()

    def names(self) -> set[str]:
        """Return which versions are here, and no folder besides."""
        found = {path.name for path in next(iter(self.folders.values())).parent.iterdir()}
        return {name for name, folder in self.folders.items() if folder.name in found}


def test_while_one_version_is_copied_others_are_fetched_loaded_and_deleted(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(place.store.fetch, place.versions["a"])
        assert place.blobs.has_begun.wait(30)
        place.store.fetch(place.versions["b"])
        assert place.store.materialise(place.versions["c"]).folder == str(place.folders["c"])
        place.store.discard(place.engine_names["b"])
        assert place.names() == {"c"}, "what is half there does not count"
        place.blobs.goes_on.set()
        slow.result(30)
    assert place.names() == {"a", "c"}
    assert len(list((tmp_path / "local").iterdir())) == 2, "parts are taken away"


@pytest.mark.parametrize("again", [LocalStore.fetch, LocalStore.materialise])
def test_two_calls_for_one_version_bring_it_whole(tmp_path: Path, again: Callable[..., object]) -> None:
    place = Place(tmp_path)
    with ThreadPoolExecutor(2) as threads:
        calls = [threads.submit(call, place.store, place.versions["a"]) for call in (LocalStore.fetch, again)]
        assert place.blobs.has_begun.wait(30)
        place.blobs.goes_on.set()
        for call in calls:
            call.result(30)
    assert len(list((tmp_path / "local").iterdir())) == 1
    (file,) = place.folders["a"].iterdir()
    assert file.read_bytes() == b"weights of a" * 100


def test_what_comes_for_an_engine_that_is_gone_is_in_no_other_ones_store(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with ThreadPoolExecutor(1) as threads:
        late = threads.submit(place.store.fetch, place.versions["a"])
        assert place.blobs.has_begun.wait(30)
        place.store.open()
        place.store.fetch(place.versions["b"])
        place.blobs.goes_on.set()
        with pytest.raises((LoadFailedError, OSError)):
            late.result(30)
    assert place.names() == {"b"}
    assert len(list((tmp_path / "local").iterdir())) == 1
