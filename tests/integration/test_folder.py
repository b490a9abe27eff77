"""Folders are opened without trusting them: no link is followed, nothing but the counted files is read."""

import contextlib
import mmap
import os
import socket
from pathlib import Path

import pytest

from hotset.core.errors import VersionRefusedError
from hotset.registry.artifact import Artifact
from hotset.registry.verify import VerifyPolicy, verify
from hotset.storage import folder as folder_module
from hotset.storage.folder import open_artifact, open_base
from tests.support.adapters import make_adapter, tiny_base_shape, tiny_base_version
from tests.support.bad_adapters import BAD_ADAPTERS, write_files
from tests.support.bases import make_tiny_base


def reason(path: Path) -> str:
    with pytest.raises(VersionRefusedError) as caught, open_artifact(path):
        pass
    return caught.value.reason


def test_counted_files_are_mapped_and_the_rest_is_listed(tmp_path: Path) -> None:
    path = make_adapter(tmp_path / "a", tiny_base_shape())
    (path / "README.md").write_text("read me")
    (path / "adapter_model.bin").write_bytes(b"pickle")
    (path / "checkpoint-10").mkdir()
    (path / "chat_template.jinja").touch()

    with open_artifact(path) as artifact:
        assert sorted(artifact.files) == ["adapter_config.json", "adapter_model.safetensors", "chat_template.jinja"]
        assert artifact.ignored == ("README.md", "adapter_model.bin", "checkpoint-10/")
        content = {name: bytes(view) for name, view in artifact.files.items()}
    assert content == {name: (path / name).read_bytes() for name in content}


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    path = make_adapter(tmp_path / "a", tiny_base_shape())
    (path / "adapter_model.bin").write_bytes(b"pickle")
    (path / "adapter_model.bin").chmod(0)

    with open_artifact(path) as artifact:
        assert "adapter_model.bin" in artifact.ignored


@pytest.mark.parametrize("target", ["inside", "outside", "dangling", "folder"])
@pytest.mark.parametrize("name", ["adapter_model.safetensors", "README.md", "tokenizer.json"])
def test_a_symbolic_link_of_any_name_is_refused(tmp_path: Path, target: str, name: str) -> None:
    path = make_adapter(tmp_path / "a", tiny_base_shape())
    targets = {
        "inside": path / "adapter_config.json",
        "outside": tmp_path / "secret",
        "dangling": tmp_path / "nowhere",
        "folder": tmp_path,
    }
    (tmp_path / "secret").write_text("secret")
    (path / name).unlink(missing_ok=True)
    (path / name).symlink_to(targets[target])

    assert reason(path) == "file_link"
    assert (tmp_path / "secret").read_text() == "secret"


def test_a_hard_link_is_refused(tmp_path: Path) -> None:
    path = make_adapter(tmp_path / "a", tiny_base_shape())
    os.link(path / "adapter_model.safetensors", tmp_path / "other")

    assert reason(path) == "file_link"


def test_what_is_no_regular_file_is_refused_without_waiting_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_adapter(tmp_path / "a", tiny_base_shape())
    os.mkfifo(path / "tokenizer.json")
    assert reason(path) == "file_link"
    (path / "tokenizer.json").unlink()

    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(path)  # a socket's address has room for a short path only
        listener.bind("tokenizer.json")
        assert reason(path) == "file_link"
    (path / "tokenizer.json").unlink()
    (path / "tokenizer.json").mkdir()
    assert reason(path) == "file_link"


def test_a_link_put_in_place_after_the_listing_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_adapter(tmp_path / "a", tiny_base_shape())
    listed = folder_module._list_folder

    def swap(*arguments: object) -> object:
        result = listed(*arguments)  # type: ignore[arg-type]
        (path / "adapter_config.json").rename(tmp_path / "moved")
        (path / "adapter_config.json").symlink_to(tmp_path / "moved")
        return result

    monkeypatch.setattr(folder_module, "_list_folder", swap)

    assert reason(path) == "folder_unreadable"


@pytest.mark.parametrize("kind", ["missing", "file", "nul"])
def test_what_is_no_folder_is_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").touch()

    assert reason(tmp_path / ("a\x00b" if kind == "nul" else kind)) == "folder_unreadable"


def test_the_number_of_entries_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_adapter(tmp_path / "a", tiny_base_shape())
    for index in range(70):
        (path / f"adapter_model-{index:05}-of-00070.safetensors").touch()
    assert reason(path) == "too_many_files"

    monkeypatch.setattr(folder_module, "_ENTRIES_MAX", 60)
    assert reason(path) == "too_many_files"
    with pytest.raises(VersionRefusedError, match="more than 60"), open_base(path):
        pass


def test_the_size_is_bounded_without_reading(tmp_path: Path) -> None:
    path = make_adapter(tmp_path / "a", tiny_base_shape())
    with (path / "tokenizer.json").open("wb") as file:
        file.truncate(9 << 30)

    assert reason(path) == "file_too_large"


def test_a_name_that_is_no_text_is_only_listed(tmp_path: Path) -> None:
    path = make_adapter(tmp_path / "a", tiny_base_shape())
    (Path(os.fsdecode(os.fsencode(path) + b"/\xff\xfe"))).touch()

    with open_artifact(path) as artifact:
        assert verify(artifact, tiny_base_version(), VerifyPolicy(rank_max=16)).modules
        assert len(artifact.ignored) == 1


def test_the_mapping_ends_with_the_block(tmp_path: Path) -> None:
    path = make_adapter(tmp_path / "a", tiny_base_shape())

    with open_artifact(path) as artifact:
        view = artifact.files["adapter_config.json"]
        assert isinstance(view.obj, mmap.mmap)

    with pytest.raises(ValueError, match="released"):
        view.tobytes()


def test_a_refusal_is_not_hidden_by_the_closing(tmp_path: Path) -> None:
    for bad in BAD_ADAPTERS:
        path = write_files(tmp_path / bad.name, bad.files)
        for name in bad.ignored:
            (path / name).touch()
        with pytest.raises(VersionRefusedError) as caught, open_artifact(path) as artifact:
            verify(artifact, tiny_base_version(), VerifyPolicy(rank_max=16))
        assert caught.value.reason == bad.refusal.value


def test_no_file_stays_open(tmp_path: Path) -> None:
    path = make_adapter(tmp_path / "a", tiny_base_shape())

    def handles() -> int:
        """Those of this folder: others may come and go meanwhile."""
        num_handles = 0
        for handle in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                num_handles += handle.readlink().is_relative_to(path)
        return num_handles

    for _ in range(20):
        with open_artifact(path):
            assert handles() > 0
    assert handles() == 0


def test_a_base_in_a_cache_of_links_is_opened(tmp_path: Path) -> None:
    made = make_tiny_base(tmp_path / "blobs")
    (tmp_path / "snapshot").mkdir()
    for file in made.iterdir():
        (tmp_path / "snapshot" / file.name).symlink_to(file)
    (tmp_path / "snapshot" / "modeling_custom.py").write_text("raise SystemExit")

    with open_base(tmp_path / "snapshot") as contents:
        assert sorted(contents) == ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
        content = contents["config.json"].tobytes()
    assert content == (made / "config.json").read_bytes()

    (tmp_path / "snapshot" / "vocab.json").symlink_to(tmp_path)
    with pytest.raises(VersionRefusedError) as caught, open_base(tmp_path / "snapshot"):
        pass
    assert caught.value.reason == "file_link"


def test_a_base_may_have_only_so_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "_BASE_FILES_MAX", 3)

    with pytest.raises(VersionRefusedError) as caught, open_base(make_tiny_base(tmp_path / "b")):
        pass
    assert caught.value.reason == "too_many_files"


def test_artifacts_in_memory_and_on_disk_are_alike(tmp_path: Path) -> None:
    path = make_adapter(tmp_path / "a", tiny_base_shape())
    in_memory = Artifact.of({file.name: file.read_bytes() for file in path.iterdir()})

    with open_artifact(path) as artifact:
        policy = VerifyPolicy(rank_max=16)
        assert verify(artifact, tiny_base_version(), policy) == verify(in_memory, tiny_base_version(), policy)
