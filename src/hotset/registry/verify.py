"""Admits an adapter only when everything about it is proven: the one way to a `VerifiedVersion`.

Invariant: for a `VerifiedVersion`, every tensor has a place in the base with the right shape, every targeted module
has both halves, configuration and tensors agree on each rank, every scaling and value is finite in the serving dtype,
and base, token ids and template are the pinned ones, or an operator's override says so in the manifest.

The order is fixed, so the same folder always gets the same refusal: configuration, vocabulary, targets, tensor names,
shapes, values, base, tokenizer.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from typing import Final

from hotset.core.base import BaseVersion
from hotset.core.clock import Clock, SystemClock
from hotset.core.errors import VersionRefusedError
from hotset.core.ids import Digest
from hotset.core.messages import ModuleSpec
from hotset.core.versions import FileEntry, Manifest
from hotset.registry.artifact import CONFIG_FILE, PICKLED_WEIGHTS_FILE, Artifact
from hotset.registry.declared_base import base_difference
from hotset.registry.digests import version_digest
from hotset.registry.json_strict import parse_object
from hotset.registry.module_matching import TargetedModule, linear_paths, targeted_modules
from hotset.registry.patterns import PatternBudget
from hotset.registry.peft_config import read_settings
from hotset.registry.refusals import Refusal, refusal, shown
from hotset.registry.shipped_tokenizer import check_vocabulary, tokenizer_difference
from hotset.registry.tensor_names import place_tensors
from hotset.registry.tokenizer_files import parse_tokenizer_files
from hotset.registry.weights import (
    SERVED_DTYPES,
    StoredTensor,
    check_values,
    peak_magnitude,
    read_tensors,
)

IGNORE_SHIPPED_TOKENIZER: Final = "ignore_shipped_tokenizer"
OTHER_BASE: Final = "other_base"
#: What an operator may override; each is recorded with the version.
OVERRIDES = frozenset((IGNORE_SHIPPED_TOKENIZER, OTHER_BASE))

_CLOCK = SystemClock()
_VERIFY_ONLY = object()

Warned = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class VerifyPolicy:
    """What an operator allows."""

    #: Largest rank of any module.
    rank_max: int
    #: The serving dtype: ``float32``, ``bfloat16`` or ``float16``.
    dtype: str = "float32"
    #: Of `OVERRIDES`.
    overrides: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class VerifiedVersion:
    """An adapter's bytes and modules as `verify` proved them for one base; nothing else can make one."""

    base: Digest
    digest: Digest
    manifest: Manifest
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        if seal is not _VERIFY_ONLY:
            raise AssertionError("only registry.verify.verify makes a VerifiedVersion")

    @property
    def warnings(self) -> tuple[tuple[str, str], ...]:
        """Codes and messages that the publisher is owed."""
        return self.manifest.warnings

    @property
    def modules(self) -> tuple[ModuleSpec, ...]:
        """The adapted linears, sorted by path."""
        return self.manifest.modules


def verify(artifact: Artifact, base: BaseVersion, policy: VerifyPolicy, *, clock: Clock = _CLOCK) -> VerifiedVersion:
    """Prove that an adapter can be served exactly on a base.

    Opens nothing, imports nothing, asks nobody; bounded in time and memory.

    Args:
        artifact: The adapter's files.
        base: The pinned base.
        policy: Limits, serving dtype and overrides.
        clock: Bounds the time that patterns take.

    Raises:
        VersionRefusedError: with one of `Refusal` as reason and a message that says what to do.
    """
    assert policy.overrides <= OVERRIDES, "an unknown override"
    if CONFIG_FILE not in artifact.files:
        message = f"There is no {CONFIG_FILE}, so rank, scaling and targets are unknown. Add it."
        raise refusal(Refusal.CONFIG_MISSING, message, CONFIG_FILE)
    config = parse_object(artifact.files[CONFIG_FILE], CONFIG_FILE)
    shipped = parse_tokenizer_files(artifact.files)
    check_vocabulary(shipped, base)
    settings = read_settings(config)
    modules, warnings = targeted_modules(settings, base.shape, PatternBudget(clock))
    _check_ranks(modules, policy)
    tensors = read_tensors(artifact)
    specs = _place(modules, tensors, base, warnings)
    _check_all_values(artifact, specs, tensors, policy, warnings)
    origin = base_difference(settings.base_model, base)
    warnings.extend(origin.warnings)
    tokenizer = tokenizer_difference(shipped, artifact.files, base)
    differences = {OTHER_BASE: origin.difference, IGNORE_SHIPPED_TOKENIZER: tokenizer}
    used = _overridden(differences, policy, warnings)
    manifest = Manifest(
        files=_file_entries(artifact),
        modules=specs,
        rank_max=max(spec.rank for spec in specs),
        overrides=used,
        warnings=(*settings.warnings, *warnings, *_ignored_warnings(artifact)),
    )
    digest = version_digest(base.digest, manifest.files)
    return VerifiedVersion(base.digest, digest, manifest, seal=_VERIFY_ONLY)


def _check_ranks(modules: list[TargetedModule], policy: VerifyPolicy) -> None:
    for module in modules:
        if module.rank > policy.rank_max:
            message = f"{module.path} has rank {module.rank}; the limit is {policy.rank_max}. Train a smaller rank."
            raise refusal(Refusal.RANK_OVER_LIMIT, message, module.path)


def _place(
    modules: list[TargetedModule], tensors: Mapping[str, StoredTensor], base: BaseVersion, warnings: Warned
) -> tuple[ModuleSpec, ...]:
    """Give each targeted module its two tensors, by name and shape."""
    placement = place_tensors(tensors, [module.path for module in modules], base.shape)
    warnings.extend(placement.warnings)
    shapes = linear_paths(base.shape)
    specs: list[ModuleSpec] = []
    for module in modules:
        key_a, key_b = placement.halves[module.path]
        half_a, half_b = tensors[key_a], tensors[key_b]
        _check_shapes(module, half_a, half_b, shapes[module.path])
        if half_a.file != half_b.file:
            message = f"The halves of {module.path} lie in {half_a.file} and {half_b.file}. Save one file."
            raise refusal(Refusal.SHARDS_INVALID, message, key_a)
        specs.append(
            ModuleSpec(
                module=module.path,
                rank=module.rank,
                alpha=module.alpha,
                scaling=module.scaling,
                key_a=key_a,
                key_b=key_b,
                file=half_a.file,
            )
        )
    return tuple(sorted(specs, key=lambda spec: spec.module))


def _check_shapes(module: TargetedModule, half_a: StoredTensor, half_b: StoredTensor, linear: tuple[int, int]) -> None:
    d_out, d_in = linear
    shape_a, shape_b = half_a.entry.shape, half_b.entry.shape
    rank = shape_a[0] if shape_a else 0
    if rank != module.rank and (shape_a, shape_b) == ((rank, d_in), (d_out, rank)):
        message = (
            f"{module.path}: the configuration gives rank {module.rank}, the tensors have {rank}. Its scaling "
            "would be wrong; correct r or rank_pattern."
        )
        raise refusal(Refusal.RANK_MISMATCH, message, module.path)
    for tensor, expected in ((half_a, (module.rank, d_in)), (half_b, (d_out, module.rank))):
        _check_shape(tensor, expected)


def _check_shape(tensor: StoredTensor, expected: tuple[int, int]) -> None:
    name, shape = tensor.entry.name, tensor.entry.shape
    if shape != expected:
        is_turned = shape == expected[::-1]
        hint = "It is stored transposed: save it as PEFT does." if is_turned else "Train it on this base."
        message = f"{shown(name)} has shape {list(shape)}; this base needs {list(expected)}. {hint}"
        raise refusal(Refusal.SHAPE_MISMATCH, message, name)
    if tensor.entry.dtype not in SERVED_DTYPES:
        message = f"{shown(name)} is stored as {tensor.entry.dtype}; save it as one of {', '.join(SERVED_DTYPES)}."
        raise refusal(Refusal.DTYPE_UNSUPPORTED, message, name)


def _check_all_values(
    artifact: Artifact,
    specs: tuple[ModuleSpec, ...],
    tensors: Mapping[str, StoredTensor],
    policy: VerifyPolicy,
    warnings: Warned,
) -> None:
    has_effect = False
    for spec in specs:
        content = artifact.files[spec.file]
        peaks = [peak_magnitude(content, tensors[key].entry) for key in (spec.key_a, spec.key_b)]
        check_values(spec.key_a, peaks[0], 1.0, policy.dtype)
        check_values(spec.key_b, peaks[1], spec.scaling, policy.dtype)
        has_effect = has_effect or (all(peaks) and spec.scaling != 0)
    if not has_effect:
        message = "Every module's update is zero: the adapter answers exactly as the base. Was it trained?"
        warnings.append(("no_effect", message))


def _overridden(
    differences: Mapping[str, VersionRefusedError | None], policy: VerifyPolicy, warnings: Warned
) -> tuple[str, ...]:
    """Return the overrides that were needed; raise the first difference that none of the policy's covers."""
    used: list[str] = []
    for override, difference in differences.items():
        if difference is None:
            continue
        if override not in policy.overrides:
            raise difference
        used.append(override)
        warnings.append((override, difference.message))
    return tuple(sorted(used))


def _file_entries(artifact: Artifact) -> tuple[FileEntry, ...]:
    return tuple(
        FileEntry(
            name=name,
            digest=Digest("sha256:" + hashlib.sha256(artifact.files[name]).hexdigest()),
            size_bytes=artifact.files[name].nbytes,
        )
        for name in sorted(artifact.files)
    )


def _ignored_warnings(artifact: Artifact) -> Warned:
    warnings: Warned = []
    for name in artifact.ignored:
        if name == PICKLED_WEIGHTS_FILE or name.endswith(".safetensors"):
            message = f"{shown(name)} was neither opened nor stored."
            warnings.append(("file_ignored", message))
    return warnings
