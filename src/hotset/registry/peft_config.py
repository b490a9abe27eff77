"""Reads adapter_config.json and admits only what is served exactly.

Every setting that PEFT 0.21 writes has a rule here. A setting without a rule must be null: a newer library may have
given it a meaning that changes the mathematics, so it is refused by name.

Source: PEFT 0.21 ``LoraConfig`` and its layers (which initialisations change the base's weights).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hotset.registry.peft_rules import RULES, pattern_items, setting_invalid
from hotset.registry.refusals import Refusal, refusal, shown


@dataclass(frozen=True, slots=True)
class LoraSettings:
    """What of a configuration decides where a LoRA acts and how strongly."""

    rank: int
    alpha: float
    use_rslora: bool
    #: One regular expression (or ``all-linear``), or names that match a path's end.
    target_modules: str | tuple[str, ...]
    exclude_modules: str | tuple[str, ...]
    #: None is every layer.
    layers_to_transform: tuple[int, ...] | None
    layers_pattern: tuple[str, ...]
    #: In the file's order: the first key that matches counts.
    rank_pattern: Mapping[str, int]
    alpha_pattern: Mapping[str, float]
    base_model: str | None
    #: Codes and messages for the publisher.
    warnings: tuple[tuple[str, str], ...]


def read_settings(config: Mapping[str, Any]) -> LoraSettings:
    """Return the settings of a parsed adapter_config.json.

    Raises:
        VersionRefusedError: a setting is invalid, unknown and not null, or asks for what is not served exactly.
    """
    RULES["peft_type"]("peft_type", config.get("peft_type"))
    for name, value in config.items():
        rule = RULES.get(name)
        if rule is not None:
            rule(name, value)
        elif value is not None:
            message = (
                f"The setting {shown(name)} is not known here and might change what the adapter computes. "
                "Remove it, or set it to null if it has no effect."
            )
            raise refusal(Refusal.SETTING_UNKNOWN, message, name)
    if "r" not in config or "lora_alpha" not in config:
        missing = "r" if "r" not in config else "lora_alpha"
        raise setting_invalid(missing, None, "a number; without it the scaling is unknown")
    _check_combinations(config)
    return LoraSettings(
        rank=config["r"],
        alpha=float(config["lora_alpha"]),
        use_rslora=config.get("use_rslora") is True,
        target_modules=_names(config["target_modules"]),
        exclude_modules=_names(config.get("exclude_modules")),
        layers_to_transform=_layer_indexes(config.get("layers_to_transform")),
        layers_pattern=_name_list(config.get("layers_pattern")),
        rank_pattern=dict(pattern_items(config.get("rank_pattern"))),
        alpha_pattern={key: float(alpha) for key, alpha in pattern_items(config.get("alpha_pattern"))},
        base_model=config.get("base_model_name_or_path") or None,
        warnings=tuple(_warnings(config)),
    )


def _check_combinations(config: Mapping[str, Any]) -> None:
    target = config.get("target_modules")
    if not target:
        raise setting_invalid("target_modules", target, "a list of module names, a regular expression or 'all-linear'")
    layers, pattern = config.get("layers_to_transform"), config.get("layers_pattern")
    if isinstance(target, str) and (layers is not None or pattern is not None):
        raise setting_invalid("layers_to_transform", layers, "null while target_modules is one string")
    if pattern and layers is None:
        raise setting_invalid("layers_pattern", pattern, "null while layers_to_transform is null")


def _warnings(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    warnings: list[tuple[str, str]] = []
    if config.get("fan_in_fan_out"):
        message = "fan_in_fan_out is set, but the base's linears are not transposed; it is ignored, as PEFT does."
        warnings.append(("setting_ignored", message))
    if config.get("revision") not in (None, "", "main"):
        message = f"revision {shown(config['revision'])} of the base is declared; only its name is compared."
        warnings.append(("revision_unchecked", message))
    return warnings


def _names(value: Any) -> str | tuple[str, ...]:
    return value if isinstance(value, str) else tuple(value or ())


def _name_list(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) and value else tuple(value or ())


def _layer_indexes(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, int):
        return (value,)
    return tuple(value) if value else None
