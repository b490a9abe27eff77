"""Verifying an adapter against a base model's folder that is not registered anywhere: no state, no server."""

from pathlib import Path
from typing import Any

from hotset.control.adapter_views import verdict_answer
from hotset.control.publishing import Verdict
from hotset.core.base import BaseVersion
from hotset.core.errors import InvalidRequestError, VersionRefusedError
from hotset.core.ids import BaseName
from hotset.registry.verify import VerifyPolicy, verify
from hotset.storage.base_files import read_base_folder
from hotset.storage.folder import open_artifact


def is_folder(base: str) -> bool:
    """Whether what was given for a base is a folder: it holds a slash, as no base's name can."""
    return "/" in base or base in (".", "..")


def verify_against_folder(
    folder: Path, base_folder: Path, synonyms: tuple[str, ...], policy: VerifyPolicy
) -> dict[str, Any]:
    """Return the verdict in the form of the admin API.

    Args:
        folder: The adapter's.
        base_folder: The base model's.
        synonyms: Names under which the adapter may declare the base, beside its folder's name.
        policy: Limits, serving dtype and overrides.

    Raises:
        InvalidRequestError: the base's folder is no base model that is served.
    """
    base = _read_base(base_folder, synonyms)
    try:
        with open_artifact(folder) as artifact:
            verdict = Verdict(verify(artifact, base, policy), None)
    except VersionRefusedError as error:
        verdict = Verdict(None, error)
    return verdict_answer(verdict).model_dump(mode="json")


def _read_base(folder: Path, synonyms: tuple[str, ...]) -> BaseVersion:
    try:
        return read_base_folder(folder, BaseName(folder.resolve().name), synonyms)
    except VersionRefusedError as error:
        raise InvalidRequestError(f"{folder} is no base that can be served: {error.message}", param="base") from error
