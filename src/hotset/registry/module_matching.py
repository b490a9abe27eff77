"""Which modules of a base a configuration targets, with which rank and alpha: exactly PEFT's answer.

Names match a whole path or its end after a dot; one string is a regular expression over the whole path;
``all-linear`` is every linear but the output head. Pattern settings match a path or its end, the first key wins, and a
key that matches nothing changes nothing (training did the same).

Source: PEFT 0.21 ``check_target_module_exists``, ``get_pattern_key``, ``_maybe_include_all_linear_layers``.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from hotset.core.base import LINEARS, BaseShape
from hotset.core.errors import VersionRefusedError
from hotset.registry.patterns import Matcher, PatternBudget, is_plain
from hotset.registry.peft_config import LoraSettings
from hotset.registry.refusals import Refusal, refusal, shown
from hotset.registry.tensor_names import FUSED_NAMES

T = TypeVar("T")

_ALL_LINEAR = "all-linear"
#: Largest float32; engines multiply by the scaling in it.
_SCALING_MAX = (2 - 2.0**-23) * 2.0**127
#: The index after the first segment but one; what PEFT takes for the layer where no pattern names it.
_ANY_LAYER = re.compile(r".*?\.[^.]*\.(?P<index>\d+)\.", re.ASCII)

_NORMS = ("input_layernorm", "post_attention_layernorm")
_FAMILY_NORMS = {"qwen3": ("self_attn.q_norm", "self_attn.k_norm")}


@dataclass(frozen=True, slots=True)
class TargetedModule:
    """One linear that the configuration targets."""

    path: str
    rank: int
    alpha: float
    scaling: float


def linear_paths(shape: BaseShape) -> dict[str, tuple[int, int]]:
    """Return (d_out, d_in) of every linear of the base's layers, by path, in the base's order."""
    return {
        f"model.layers.{layer}.{linear}": shape.linear_shape(linear)
        for layer in range(shape.num_layers)
        for linear in LINEARS
    }


def other_paths(shape: BaseShape) -> list[str]:
    """Return the paths of all modules that a name or pattern can hit and that are none of the seven linears."""
    inner = ["", "self_attn", "mlp", "mlp.act_fn", *_NORMS, *_FAMILY_NORMS.get(shape.family, ())]
    layers = [f"model.layers.{layer}.{name}".rstrip(".") for layer in range(shape.num_layers) for name in inner]
    ends = ["model.norm", "model.rotary_emb", "lm_head"]
    return ["model", "model.embed_tokens", "model.layers", *layers, *ends]


def targeted_modules(
    settings: LoraSettings, shape: BaseShape, budget: PatternBudget
) -> tuple[list[TargetedModule], list[tuple[str, str]]]:
    """Return the linears that the settings target, in the base's order, and warnings.

    Raises:
        VersionRefusedError: nothing or something other than the seven linears is targeted, a pattern is refused, or
            a scaling is not a float32.
    """
    is_target = _target_matcher(settings, budget)
    if not _is_all_linear(settings.target_modules):
        _refuse_other_targets(is_target, shape)
    paths = [path for path in linear_paths(shape) if is_target(path)]
    if not paths:
        raise _no_target(settings.target_modules, shape)
    ranks, rank_warnings = _by_pattern("rank_pattern", settings.rank_pattern, paths, budget)
    alphas, alpha_warnings = _by_pattern("alpha_pattern", settings.alpha_pattern, paths, budget)
    modules = [
        _module(path, ranks.get(path, settings.rank), alphas.get(path, settings.alpha), settings.use_rslora)
        for path in paths
    ]
    return modules, rank_warnings + alpha_warnings


def _no_target(targets: str | tuple[str, ...], shape: BaseShape) -> VersionRefusedError:
    named = targets if isinstance(targets, str) else list(targets)
    message = f"target_modules {shown(named)} match no linear of this base"
    has = f"It has {', '.join(LINEARS)} in each of {shape.num_layers} layers."
    if not isinstance(targets, str) and any(name.rpartition(".")[2] in FUSED_NAMES for name in targets):
        message = f"{message}: it has split projections, the adapter is for fused ones. {has} Split the adapter."
        return refusal(Refusal.FUSED_NAMES, message, "target_modules")
    return refusal(Refusal.TARGETS_MATCH_NOTHING, f"{message}. {has} Train on this base.", "target_modules")


def _module(path: str, rank: int, alpha: float, use_rslora: bool) -> TargetedModule:
    scaling = alpha / math.sqrt(rank) if use_rslora else alpha / rank
    if not abs(scaling) <= _SCALING_MAX:
        message = f"The scaling of {path} is {scaling:g}, beyond float32; check lora_alpha, alpha_pattern and r."
        raise refusal(Refusal.SCALING_INVALID, message, path)
    return TargetedModule(path, rank, alpha, scaling)


def _target_matcher(settings: LoraSettings, budget: PatternBudget) -> Matcher:
    wanted = _name_matcher("target_modules", settings.target_modules, budget)
    excluded = _name_matcher("exclude_modules", settings.exclude_modules, budget)
    in_layers = _layer_matcher(settings)
    if isinstance(settings.target_modules, str):
        return lambda path: not excluded(path) and wanted(path)
    # A name that is the whole path is taken whatever layers_to_transform says.
    whole = frozenset(settings.target_modules)
    return lambda path: not excluded(path) and (path in whole or (wanted(path) and in_layers(path)))


def _name_matcher(setting: str, names: str | tuple[str, ...], budget: PatternBudget) -> Matcher:
    if isinstance(names, str) and names:
        if setting == "target_modules" and _is_all_linear(names):
            return lambda path: path.rpartition(".")[2] in _LINEAR_NAMES
        return budget.full(names, setting)
    wanted = frozenset(names)
    return lambda path: any(end in wanted for end in _ends(path))


def _is_all_linear(names: str | tuple[str, ...]) -> bool:
    return isinstance(names, str) and names.lower() == _ALL_LINEAR


_LINEAR_NAMES = frozenset(linear.rpartition(".")[2] for linear in LINEARS)


def _ends(path: str) -> list[str]:
    """Return the path and each of its ends after a dot."""
    parts = path.split(".")
    return [".".join(parts[index:]) for index in range(len(parts))]


def _layer_matcher(settings: LoraSettings) -> Matcher:
    if settings.layers_to_transform is None:
        return lambda path: True
    wanted = frozenset(settings.layers_to_transform)
    for name in settings.layers_pattern:
        if not is_plain(name):
            message = f"layers_pattern {shown(name)} is no plain name. Write the name of the list of layers."
            raise refusal(Refusal.PATTERN_INVALID, message, "layers_pattern")
    patterns = [re.compile(rf"(?:^|.*?\.){name}\.(?P<index>\d+)\.") for name in settings.layers_pattern]

    def matches(path: str) -> bool:
        for pattern in patterns or [_ANY_LAYER]:
            match = pattern.match(path)
            if match is not None:
                return int(match["index"]) in wanted
        return False

    return matches


def _refuse_other_targets(is_target: Matcher, shape: BaseShape) -> None:
    for path in other_paths(shape):
        if is_target(path):
            message = (
                f"target_modules also match {path}, and only the linears of the layers "
                f"({', '.join(sorted(_LINEAR_NAMES))}) are served. Train without it."
            )
            raise refusal(Refusal.TARGET_UNSUPPORTED, message, path)


def _by_pattern(
    setting: str, patterns: Mapping[str, T], paths: list[str], budget: PatternBudget
) -> tuple[dict[str, T], list[tuple[str, str]]]:
    """Return the value of the first key that matches each path, and a warning for each key that matches none."""
    chosen: dict[str, T] = {}
    warnings: list[tuple[str, str]] = []
    for key, value in patterns.items():
        matches = budget.suffix(key, f"{setting} key")
        hits = [path for path in paths if matches(path)]
        if not hits:
            message = (
                f"The {setting} key {shown(key)} matches no targeted module; those keep the general value, as they "
                "did in training."
            )
            warnings.append(("pattern_unmatched", message))
        for path in hits:
            chosen.setdefault(path, value)
    return chosen, warnings
