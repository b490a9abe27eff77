"""Reads an adapter's folder for the fake engine: all bytes, but none of their meaning beyond the stated rank."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from hotset.core.errors import LoadFailedError
from hotset.core.ids import Digest
from hotset.engines.fake.adapter_tiers import Weights
from hotset.engines.fake.answers import mark_of

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


class _PeftConfig(msgspec.Struct):
    r: int = 8


def read_checked(folder: str, files: Mapping[str, Digest]) -> Weights:
    """Return what a version's folder holds.

    Raises:
        LoadFailedError: a file can't be read, or holds other bytes than promised.
    """
    num_bytes = 0
    for name, digest in files.items():
        try:
            content = (Path(folder) / name).read_bytes()
        except OSError as error:
            raise LoadFailedError(f"{name} can't be read: {error.strerror}.") from error
        if _digest(content) != digest:
            raise LoadFailedError(f"{name} does not have the digest it was approved under.")
        num_bytes += len(content)
    return Weights(mark_of(files), num_bytes)


def read_unchecked(folder: str) -> Weights:
    """Return what a folder of an adapter in PEFT's layout holds now, whatever it held before.

    Raises:
        FileNotFoundError: there is no adapter in it.
        LoadFailedError: it has no weights, or a config that can't be read.
    """
    config = (Path(folder) / CONFIG).read_bytes()
    try:
        weights = (Path(folder) / WEIGHTS).read_bytes()
    except FileNotFoundError as error:
        raise LoadFailedError(f"{folder} doesn't contain tensors") from error
    try:
        rank = msgspec.json.decode(config, type=_PeftConfig).r
    except msgspec.DecodeError as error:
        raise LoadFailedError(str(error)) from error
    mark = mark_of({CONFIG: _digest(config), WEIGHTS: _digest(weights)})
    return Weights(mark, len(config) + len(weights), rank)


def _digest(content: bytes) -> Digest:
    return Digest(f"sha256:{hashlib.sha256(content).hexdigest()}")
