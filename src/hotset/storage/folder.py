"""Opens the files of an adapter or base folder without trusting the folder.

Files are mapped, not read; a folder's links, hard links, pipes and devices are refused before anything is opened, and
again on the opened file. Which names count is `registry.artifact`'s business; what they hold is `registry.verify`'s.
"""

import mmap
import os
import stat
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from hotset.registry.artifact import Artifact, counts
from hotset.registry.base_reader import counts_for_base
from hotset.registry.refusals import Refusal, refusal, shown

#: Entries of a folder, counted ones or not.
_ENTRIES_MAX = 4096
_FILES_MAX = 64
_ADAPTER_BYTES_MAX = 8 << 30
_BASE_FILES_MAX = 1024
_COPY_ADVICE = "Copy the folder with its links resolved (cp -rL) and push the copy."


@contextmanager
def open_artifact(folder: Path) -> Generator[Artifact, None, None]:
    """Map the files of an adapter folder that count; the rest is only listed.

    The memoryviews are valid inside the ``with`` block alone.

    Raises:
        VersionRefusedError: ``folder_unreadable``, ``file_link``, ``too_many_files`` or ``file_too_large``.
    """
    with ExitStack() as stack:
        folder_fd = _open_folder(folder, stack)
        names, ignored = _list_folder(folder_fd, counts)
        if len(names) > _FILES_MAX:
            message = f"The folder holds {len(names)} files of a version; at most {_FILES_MAX} are taken."
            raise refusal(Refusal.TOO_MANY_FILES, message)
        files: dict[str, memoryview] = {}
        total = 0
        for name in names:
            files[name] = _map(folder_fd, name, stack, os.O_NOFOLLOW)
            total += files[name].nbytes
            if total > _ADAPTER_BYTES_MAX:
                message = f"The adapter has more than {_ADAPTER_BYTES_MAX} bytes, with {shown(name)}."
                raise refusal(Refusal.FILE_TOO_LARGE, message, name)
        yield Artifact(files, ignored)


@contextmanager
def open_base(folder: Path) -> Generator[dict[str, memoryview], None, None]:
    """Map the files that fix a base version, by name.

    A base is an operator's own folder, often a download cache made of links, so links are followed here.

    Raises:
        VersionRefusedError: ``folder_unreadable``, ``file_link`` (no regular file) or ``too_many_files``.
    """
    with ExitStack() as stack:
        folder_fd = _open_folder(folder, stack)
        names = sorted(name for name in _entry_names(folder_fd) if counts_for_base(name))
        if len(names) > _BASE_FILES_MAX:
            message = f"The folder holds {len(names)} files of a base; at most {_BASE_FILES_MAX} are taken."
            raise refusal(Refusal.TOO_MANY_FILES, message)
        yield {name: _map(folder_fd, name, stack, 0) for name in names}


def _open_folder(folder: Path, stack: ExitStack) -> int:
    try:
        folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        message = f"{shown(str(folder))} can't be opened as a folder: {reason}."
        raise refusal(Refusal.FOLDER_UNREADABLE, message, str(folder)) from error
    stack.callback(os.close, folder_fd)
    return folder_fd


def _entry_names(folder_fd: int) -> list[str]:
    with os.scandir(folder_fd) as entries:
        names: list[str] = []
        for entry in entries:
            names.append(entry.name)
            if len(names) > _ENTRIES_MAX:
                message = f"The folder holds more than {_ENTRIES_MAX} entries. Push only the adapter's own files."
                raise refusal(Refusal.TOO_MANY_FILES, message)
    return sorted(names)


def _list_folder(folder_fd: int, is_counted: Callable[[str], bool]) -> tuple[list[str], tuple[str, ...]]:
    """Return the names that count and those that don't, having refused links of any name; folders are not entered."""
    counted: list[str] = []
    ignored: list[str] = []
    for name in _entry_names(folder_fd):
        status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode) and not is_counted(name):
            ignored.append(name + "/")
            continue
        _check_regular(name, status)
        (counted if is_counted(name) else ignored).append(name)
    return counted, tuple(ignored)


def _check_regular(name: str, status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        message = f"{shown(name)} is a symbolic link; links are never followed. {_COPY_ADVICE}"
    elif not stat.S_ISREG(status.st_mode):
        message = f"{shown(name)} is no regular file. Push only the adapter's own files."
    elif status.st_nlink > 1:
        message = f"{shown(name)} has other names elsewhere (hard links), so it could change. {_COPY_ADVICE}"
    else:
        return
    raise refusal(Refusal.FILE_LINK, message, name)


def _map(folder_fd: int, name: str, stack: ExitStack, no_follow: int) -> memoryview:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | no_follow
    try:
        fd = os.open(name, flags, dir_fd=folder_fd)
    except OSError as error:
        message = f"{shown(name)} can't be opened: {error.strerror}."
        raise refusal(Refusal.FOLDER_UNREADABLE, message, name) from error
    try:
        status = os.fstat(fd)
        if no_follow:
            _check_regular(name, status)
        elif not stat.S_ISREG(status.st_mode):
            raise refusal(Refusal.FILE_LINK, f"{shown(name)} is no regular file.", name)
        if status.st_size == 0:
            return memoryview(b"")
        mapping = mmap.mmap(fd, status.st_size, access=mmap.ACCESS_READ)
    finally:
        os.close(fd)
    view = memoryview(mapping)
    stack.callback(_unmap, mapping, view)
    return view


def _unmap(mapping: mmap.mmap, view: memoryview) -> None:
    # A refusal on its way up still looks into the mapping from its traceback; it is unmapped when that goes.
    with suppress(BufferError):
        view.release()
        mapping.close()
