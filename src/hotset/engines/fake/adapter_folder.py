"""Reads an adapter's folder for the fake engine: all bytes, but little of their meaning.

What is refused, and in which words, is what vLLM refuses (seen on vLLM 0.32.0); what it takes in silence, such as
weights of another base, of other shapes or with NaN in them, is taken here as well.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from hotset.core.base import LINEARS
from hotset.core.errors import LoadFailedError
from hotset.core.ids import Digest
from hotset.engines.fake.adapter_tiers import Weights
from hotset.engines.fake.answers import mark_of
from hotset.engines.fake.numbers import holds_nan
from hotset.engines.promised_files import check_promised, digest_of

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_MODULES = frozenset(linear.rpartition(".")[2] for linear in LINEARS)


class _PeftConfig(msgspec.Struct):
    r: int = 8
    use_dora: bool = False
    target_modules: list[str] | str | None = None


def read_checked(folder: str, files: Mapping[str, Digest]) -> Weights:
    """Return what a version's folder holds.

    Raises:
        LoadFailedError: a file can't be read, or holds other bytes than promised.
    """
    return Weights(mark_of(files), check_promised(folder, files))


def read_unchecked(folder: str) -> Weights:
    """Return what a folder of an adapter in PEFT's layout holds now, whatever it held before.

    Raises:
        FileNotFoundError: there is no adapter in it.
        LoadFailedError: it has no weights, or a config or weights that can't be served.
    """
    config = (Path(folder) / CONFIG).read_bytes()
    try:
        weights = (Path(folder) / WEIGHTS).read_bytes()
    except FileNotFoundError as error:
        raise LoadFailedError("<path> doesn't contain tensors") from error
    has_nan = holds_nan(weights)
    rank = _checked_rank(config)
    mark = mark_of({CONFIG: digest_of(config), WEIGHTS: digest_of(weights)})
    return Weights(mark, len(config) + len(weights), rank, has_nan)


def _checked_rank(config: bytes) -> int:
    try:
        peft = msgspec.json.decode(config, type=_PeftConfig)
    except msgspec.DecodeError as error:
        raise LoadFailedError(str(error)) from error
    if peft.use_dora:
        raise LoadFailedError("vLLM does not yet support DoRA.")
    named = peft.target_modules if isinstance(peft.target_modules, list) else []
    unknown = sorted({name.rpartition(".")[2] for name in named} - _MODULES)
    if unknown:
        raise LoadFailedError(f"expected target modules in {set(_MODULES)} but received {unknown}")
    return peft.r
