"""A base model's folder: the digests of the files that count, and whether they are still what they were.

A base stays where its owner put it; only digests are kept. Links are followed, since model caches are made of them: the
digest, not the path, says what a file is.
"""

from pathlib import Path

from hotset.core.base import BaseVersion
from hotset.core.errors import DigestMismatchError
from hotset.core.ids import BaseName, Digest
from hotset.registry.base_reader import read_base
from hotset.storage.folder import open_base
from hotset.storage.hashing import OnBytes, hash_files


def base_bytes(folder: Path) -> int:
    """Return the number of bytes in the folder's files that count.

    Raises:
        VersionRefusedError: there is no such folder, or it holds what no base folder may.
    """
    with open_base(folder) as contents:
        return sum(view.nbytes for view in contents.values())


def read_base_folder(
    folder: Path, name: BaseName, synonyms: tuple[str, ...], on_bytes: OnBytes | None = None
) -> BaseVersion:
    """Return the base version that the folder's files fix, hashing them in parallel.

    Raises:
        VersionRefusedError: the folder or the model is not one that is served.
    """
    with open_base(folder) as contents:
        return read_base(name, synonyms, contents, _hash(folder, list(contents), on_bytes))


def check_base_files(base: BaseVersion, folder: Path, on_bytes: OnBytes | None = None) -> None:
    """Hash the base's files where they lie; pass if they are those it was registered with.

    Raises:
        VersionRefusedError: the folder is gone, or holds what no base folder may.
        DigestMismatchError: a file changed, is missing, or has come; the message names it.
    """
    with open_base(folder) as contents:
        present = list(contents)
    for name in sorted({*present, *base.files}):
        if name not in base.files:
            raise DigestMismatchError(f"{folder / name} was not there when base {base.name!r} was registered.")
        if name not in present:
            raise DigestMismatchError(f"{folder / name} of base {base.name!r} is missing.")
    for name, digest in _hash(folder, sorted(base.files), on_bytes).items():
        if digest != base.files[name]:
            raise DigestMismatchError(f"{folder / name} changed since base {base.name!r} was registered.")


def _hash(folder: Path, names: list[str], on_bytes: OnBytes | None) -> dict[str, Digest]:
    paths = [(folder / name).resolve() for name in names]
    return dict(zip(names, hash_files(paths, on_bytes), strict=True))
