"""The rule for every setting of a LoRA configuration: what it may be, and what else is refused by name.

Source: PEFT 0.21 ``LoraConfig`` and its layers (which initialisations change the base's weights).
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

from hotset.core.errors import VersionRefusedError
from hotset.registry.refusals import Refusal, refusal, shown

#: Far above any base's sizes; keeps arithmetic on a stated rank small.
_RANK_MAX = 1 << 20
_LIST_MAX = 4096

#: Initialisations that leave the base's weights alone.
_HARMLESS_INITS = ("gaussian", "eva", "orthogonal")
#: Initialisations that subtract something from the base's weights, so the adapter fits only the changed base.
_BASE_CHANGING_INITS = ("pissa", "olora", "corda", "loftq", "lora_ga")

Rule = Callable[[str, Any], None]


def is_number(value: object) -> bool:
    """Return whether a parsed JSON value is a number that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def setting_invalid(name: str, value: object, expected: str) -> VersionRefusedError:
    """Return the refusal of a value that a setting can't have."""
    return refusal(Refusal.SETTING_INVALID, f"{name} is {shown(value)}; expected {expected}.", name)


def _check_rank(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise setting_invalid(name, value, "a whole number of at least 1")
    if value < 1:
        raise refusal(
            Refusal.RANK_INVALID, f"{name} is {shown(value)}; a rank is at least 1. Write the one of the tensors.", name
        )
    if value > _RANK_MAX:
        raise refusal(
            Refusal.RANK_OVER_LIMIT, f"{name} is {shown(value)}; no base takes such a rank. Train a smaller one.", name
        )


def _is_name_list(value: object) -> bool:
    if not isinstance(value, list):
        return False
    items = cast(list[object], value)
    return len(items) <= _LIST_MAX and all(isinstance(item, str) and item for item in items)


def _rule_peft_type(name: str, value: Any) -> None:
    if value != "LORA":
        message = f"{name} is {shown(value)}; only LORA is served. Train a LoRA adapter."
        raise refusal(Refusal.PEFT_TYPE_UNSUPPORTED, message, name)


def _rule_task_type(name: str, value: Any) -> None:
    if value not in (None, "CAUSAL_LM"):
        message = f"{name} is {shown(value)}; only CAUSAL_LM adapters are served. Train for that."
        raise refusal(Refusal.TASK_TYPE_UNSUPPORTED, message, name)


def _rule_alpha(name: str, value: Any) -> None:
    if not is_number(value):
        raise setting_invalid(name, value, "a finite number")


def _rule_dropout(name: str, value: Any) -> None:
    if value is not None and not (is_number(value) and 0 <= value <= 1):
        raise setting_invalid(name, value, "a number from 0 to 1")


def _rule_names(name: str, value: Any) -> None:
    if not (value is None or isinstance(value, str) or _is_name_list(value)):
        raise setting_invalid(name, value, "a string or a list of strings")


def _rule_text(name: str, value: Any) -> None:
    if not (value is None or isinstance(value, str)):
        raise setting_invalid(name, value, "a string or null")


def _rule_flag(name: str, value: Any) -> None:
    if not (value is None or isinstance(value, bool)):
        raise setting_invalid(name, value, "true or false")


def _rule_layers(name: str, value: Any) -> None:
    items = cast(list[object], value if isinstance(value, list) else [value])
    if value is not None and not all(type(item) is int and item >= 0 for item in items):
        raise setting_invalid(name, cast(object, value), "a layer index or a list of them")


def _rule_rank_pattern(name: str, value: Any) -> None:
    for key, rank in _checked_items(name, value):
        _check_rank(f"{name}[{shown(key)}]", rank)


def _rule_alpha_pattern(name: str, value: Any) -> None:
    for key, alpha in _checked_items(name, value):
        _rule_alpha(f"{name}[{shown(key)}]", alpha)


def _checked_items(name: str, value: Any) -> list[tuple[str, Any]]:
    items = pattern_items(value)
    if len(items) > _LIST_MAX or not (value is None or isinstance(value, dict)):
        raise setting_invalid(name, cast(object, value), f"an object of at most {_LIST_MAX} module names")
    return items


def pattern_items(value: Any) -> list[tuple[str, Any]]:
    """Return the keys and values of a pattern setting in the file's order; none for null."""
    return list(cast(dict[str, Any], value).items()) if isinstance(value, dict) else []


def _rule_bias(name: str, value: Any) -> None:
    if value not in (None, "none"):
        message = (
            f"{name} is {shown(value)}; trained biases are not served. Train with bias 'none', or set it to "
            "'none' if no bias was trained."
        )
        raise refusal(Refusal.BIAS_UNSUPPORTED, message, name)


def _rule_init(name: str, value: Any) -> None:
    if value is None or isinstance(value, bool) or value in _HARMLESS_INITS:
        return
    if isinstance(value, str) and value.lower().startswith(_BASE_CHANGING_INITS):
        message = (
            f"{name} is {shown(value)}, which changed the base's own weights. Save the adapter converted to plain "
            "LoRA (PEFT: path_initial_model_for_weight_conversion)."
        )
        raise refusal(Refusal.BASE_CHANGING_INIT, message, name)
    raise refusal(
        Refusal.VARIANT_UNSUPPORTED,
        f"{name} is {shown(value)}; this initialisation is not served. Train plain LoRA.",
        name,
    )


def _rule_init_settings(name: str, value: Any) -> None:
    if value:
        message = (
            f"{name} is set: that initialisation changes the base's own weights. Save the adapter converted to "
            "plain LoRA and set it to null."
        )
        raise refusal(Refusal.BASE_CHANGING_INIT, message, name)


def _rule_object(name: str, value: Any) -> None:
    if not (value is None or isinstance(value, dict)):
        raise setting_invalid(name, value, "an object or null")


def _rule_group_size(name: str, value: Any) -> None:
    if value is not None and type(value) is not int:
        raise setting_invalid(name, value, "a whole number")


def _refuse_unless_off(reason: Refusal, feature: str, advice: str) -> Rule:
    """Return a rule that takes null, false and empty values, and refuses the feature by name otherwise."""

    def rule(name: str, value: Any) -> None:
        if value is None or value is False or value in ([], {}, ""):
            return
        raise refusal(reason, f"{name} is {shown(value)}: {feature} is not served. {advice}", name)

    return rule


_PLAIN_LORA = "Train plain LoRA."

#: A rule for every setting that PEFT 0.21 writes, and for those that earlier releases wrote.
RULES: Mapping[str, Rule] = {
    "alora_invocation_tokens": _refuse_unless_off(Refusal.ALORA_UNSUPPORTED, "activated LoRA", _PLAIN_LORA),
    "alpha_pattern": _rule_alpha_pattern,
    "arrow_config": _refuse_unless_off(Refusal.VARIANT_UNSUPPORTED, "Arrow routing", _PLAIN_LORA),
    "auto_mapping": _rule_object,  # names classes to import; nothing is imported
    "base_model_name_or_path": _rule_text,
    "bias": _rule_bias,
    "corda_config": _rule_init_settings,
    "enable_lora": _refuse_unless_off(Refusal.VARIANT_UNSUPPORTED, "LoRA on parts of a fused linear", _PLAIN_LORA),
    "ensure_weight_tying": _rule_flag,  # acts on embeddings alone, which are refused
    "eva_config": _rule_object,  # chooses A and ranks before training; the base stays as it is
    "exclude_modules": _rule_names,
    "fan_in_fan_out": _rule_flag,
    "inference_mode": _rule_flag,
    "init_lora_weights": _rule_init,
    "kasa_config": _refuse_unless_off(Refusal.VARIANT_UNSUPPORTED, "KaSA", _PLAIN_LORA),
    "layer_replication": _refuse_unless_off(
        Refusal.LAYER_REPLICATION_UNSUPPORTED, "stacking the base's layers anew", "Train on the base as it is."
    ),
    "layers_pattern": _rule_names,
    "layers_to_transform": _rule_layers,
    "loftq_config": _rule_init_settings,
    "lora_alpha": _rule_alpha,
    "lora_bias": _refuse_unless_off(Refusal.LORA_BIAS_UNSUPPORTED, "a bias on lora_B", _PLAIN_LORA),
    "lora_dropout": _rule_dropout,
    "lora_ga_config": _rule_init_settings,
    "megatron_config": _refuse_unless_off(Refusal.VARIANT_UNSUPPORTED, "Megatron layers", _PLAIN_LORA),
    "megatron_core": _rule_text,  # read only together with megatron_config
    "merge_weights": _rule_flag,  # written by PEFT before 0.4: how to compute, not what
    "modules_to_save": _refuse_unless_off(
        Refusal.MODULES_TO_SAVE_UNSUPPORTED, "training whole modules", "Train without modules_to_save."
    ),
    "monteclora_config": _refuse_unless_off(Refusal.VARIANT_UNSUPPORTED, "Monte Carlo LoRA", _PLAIN_LORA),
    "peft_type": _rule_peft_type,
    "peft_version": _rule_text,
    "qalora_group_size": _rule_group_size,  # read only together with use_qalora
    "r": _check_rank,
    "rank_pattern": _rule_rank_pattern,
    "revision": _rule_text,
    "runtime_config": _rule_object,  # where things are computed, not what
    "target_modules": _rule_names,
    "target_parameters": _refuse_unless_off(
        Refusal.TARGET_PARAMETERS_UNSUPPORTED, "LoRA on parameters", "Target linear modules."
    ),
    "task_type": _rule_task_type,
    "trainable_token_indices": _refuse_unless_off(
        Refusal.TRAINABLE_TOKENS_UNSUPPORTED, "training rows of the embedding", "Train without them."
    ),
    "use_bdlora": _refuse_unless_off(Refusal.VARIANT_UNSUPPORTED, "block-diagonal LoRA", _PLAIN_LORA),
    "use_dora": _refuse_unless_off(Refusal.DORA_UNSUPPORTED, "DoRA", _PLAIN_LORA),
    "use_qalora": _refuse_unless_off(Refusal.QALORA_UNSUPPORTED, "QA-LoRA", _PLAIN_LORA),
    "use_rslora": _rule_flag,
    "velora_config": _refuse_unless_off(Refusal.VARIANT_UNSUPPORTED, "VeLoRA", _PLAIN_LORA),
}
