"""Commands on base versions."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from hotset.control.actors import Actor
from hotset.control.commits import Change, Commits
from hotset.control.progress import ByteCount, Report, silent
from hotset.core.base import BaseVersion
from hotset.core.errors import ConflictError, InvalidRequestError, NotFoundError
from hotset.core.ids import BaseName
from hotset.storage.base_files import base_bytes, check_base_files, read_base_folder
from hotset.storage.catalogue import Catalogue
from hotset.storage.rows import BaseRow

_NUM_SYNONYMS_MAX = 64
_SYNONYM_CHARS_MAX = 256


@dataclass(frozen=True, slots=True)
class AddedBase:
    """A base and whether the command changed anything."""

    row: BaseRow
    is_new: bool


class BaseCommands:
    """Base versions: one method a command."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits

    async def add(
        self, actor: Actor, folder: Path, name: BaseName, synonyms: tuple[str, ...] = (), report: Report = silent
    ) -> AddedBase:
        """Fix a base version: one digest over its files, which stay where they are.

        Adding the same bytes under the same name again adds the new synonyms and records where the folder is now.

        Raises:
            PermissionDeniedError: the actor is no admin on this machine.
            VersionRefusedError: the folder can't be read, or the model is of a family or form that is not served.
            ConflictError: the name stands for other bytes, or the bytes have another name.
        """
        actor.require("admin")
        actor.require_local()
        _check_synonyms(synonyms)
        base, where = await asyncio.to_thread(_read, folder, name, synonyms, report)
        return await self._commits.run(actor, lambda change: _add(change, base, where))

    async def get(self, name: BaseName) -> BaseRow:
        """Return a base.

        Raises:
            NotFoundError: there is none of this name.
        """
        return await self._commits.read(lambda catalogue: need_base(catalogue, name))

    async def check_files(self, actor: Actor, name: BaseName, report: Report = silent) -> BaseRow:
        """Hash a base's files again where they lie.

        Raises:
            NotFoundError: there is no such base.
            VersionRefusedError: its folder is gone.
            DigestMismatchError: a file is not what it was; the message names it.
        """
        actor.require("admin", "deployer", "reviewer")
        row = await self.get(name)
        await asyncio.to_thread(_check, row, report)
        return row


def need_base(catalogue: Catalogue, name: BaseName) -> BaseRow:
    """Return the base of exactly this name.

    Raises:
        NotFoundError: there is none.
    """
    row = catalogue.bases.by_name(name)
    if row is None:
        raise NotFoundError(f"There is no base {name!r}; see `hotset base list`.", param="base")
    return row


def _read(folder: Path, name: BaseName, synonyms: tuple[str, ...], report: Report) -> tuple[BaseVersion, Path]:
    where = folder.absolute()
    return read_base_folder(where, name, synonyms, ByteCount("hash", base_bytes(where), report, name)), where


def _check(row: BaseRow, report: Report) -> None:
    folder = Path(row.folder)
    check_base_files(row.base, folder, ByteCount("hash", base_bytes(folder), report, row.base.name))


def _add(change: Change, base: BaseVersion, folder: Path) -> AddedBase:
    catalogue = change.catalogue
    same_bytes = catalogue.bases.by_digest(base.digest)
    same_name = catalogue.bases.by_folded_name(base.name)
    if same_bytes is not None and same_bytes.base.name != base.name:
        raise ConflictError(f"These bytes are already registered as base {same_bytes.base.name!r}.", param="name")
    if same_bytes is not None:
        return _change(change, same_bytes, base, folder)
    if same_name is not None:
        raise ConflictError(
            f"Base {same_name.base.name!r} is registered with other bytes ({same_name.base.digest}); "
            "a base never changes, so register these under a new name.",
            param="name",
        )
    holders = catalogue.grants.named(base.name)
    if holders:
        raise ConflictError(f"{base.name!r} is already an alias of tenant {holders[0].tenant!r}.", param="name")
    catalogue.bases.add(base, str(folder), change.now_s)
    change.audit("base.add", base.name, digest=base.digest, folder=str(folder), synonyms=list(base.synonyms))
    return AddedBase(need_base(catalogue, base.name), is_new=True)


def _change(change: Change, known: BaseRow, base: BaseVersion, folder: Path) -> AddedBase:
    new = [synonym for synonym in base.synonyms if synonym not in known.base.synonyms]
    if new or known.folder != str(folder):
        merged = BaseVersion(
            name=known.base.name,
            digest=known.base.digest,
            synonyms=(*known.base.synonyms, *new),
            shape=known.base.shape,
            tokenizer=known.base.tokenizer,
            files=known.base.files,
        )
        change.catalogue.bases.change(merged, str(folder))
        change.audit("base.change", base.name, folder=str(folder), synonyms=new)
    return AddedBase(need_base(change.catalogue, base.name), is_new=False)


def _check_synonyms(synonyms: tuple[str, ...]) -> None:
    well_formed = all(0 < len(text) <= _SYNONYM_CHARS_MAX and text.isprintable() for text in synonyms)
    if len(synonyms) > _NUM_SYNONYMS_MAX or not well_formed:
        raise InvalidRequestError("At most 64 synonyms of 1 to 256 printable characters.", param="synonyms")
