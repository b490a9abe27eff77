"""What the name of a tensor in an adapter says: which half of which linear, or why it has no place.

Canonical is ``base_model.model.PATH.lora_A.weight``. Names that carry PEFT's adapter name (``lora_A.default.weight``)
or lack the prefix say the same without doubt, so they are placed exactly; every other form is refused.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from hotset.core.base import LINEARS, BaseShape
from hotset.core.errors import VersionRefusedError
from hotset.registry.refusals import Refusal, refusal, shown

_PREFIX = "base_model.model."
_HALF = re.compile(r"(?P<module>.+)\.lora_(?P<half>[AB])(?:\.default)?\.weight", re.ASCII)
_LAYER = re.compile(r"model\.layers\.(?P<layer>\d{1,9})\.(?P<inner>.+)", re.ASCII)
_EXPERT = re.compile(r"\bexperts?\b|\bblock_sparse_moe\b|\bshared_expert\b", re.ASCII)
#: Last parts of module names that stand for several of the seven linears in one.
FUSED_NAMES = frozenset(("qkv_proj", "gate_up_proj", "query_key_value", "c_attn", "W_pack", "qkv", "w13", "kv_proj"))

#: Parts of names that give a feature away, in the order in which they are looked for.
_FEATURES = (
    ("lora_magnitude_vector", Refusal.DORA_UNSUPPORTED, "a DoRA magnitude vector"),
    ("lora_B.bias", Refusal.LORA_BIAS_UNSUPPORTED, "a bias on lora_B"),
    ("lora_B.default.bias", Refusal.LORA_BIAS_UNSUPPORTED, "a bias on lora_B"),
    ("trainable_tokens", Refusal.TRAINABLE_TOKENS_UNSUPPORTED, "trained rows of the embedding"),
    ("token_adapter", Refusal.TRAINABLE_TOKENS_UNSUPPORTED, "trained rows of the embedding"),
    ("lora_embedding_", Refusal.TARGET_UNSUPPORTED, "LoRA on the embedding"),
    ("modules_to_save", Refusal.MODULES_TO_SAVE_UNSUPPORTED, "a whole trained module"),
    ("lm_head.weight", Refusal.MODULES_TO_SAVE_UNSUPPORTED, "a whole output head"),
    ("embed_tokens.weight", Refusal.MODULES_TO_SAVE_UNSUPPORTED, "a whole embedding"),
)


@dataclass(frozen=True, slots=True)
class Placement:
    """The names of the two halves of each module that has both, and warnings."""

    halves: Mapping[str, tuple[str, str]]
    warnings: tuple[tuple[str, str], ...]


def place_tensors(names: Iterable[str], targeted: Collection[str], shape: BaseShape) -> Placement:
    """Return the two halves of every targeted module.

    Args:
        names: Of all tensors of the adapter.
        targeted: Paths of the targeted linears, in the base's order.
        shape: Of the base.

    Raises:
        VersionRefusedError: a tensor has no place, two have the same, or a targeted module lacks a half.
    """
    found: dict[tuple[str, str], str] = {}
    strangers: list[tuple[str, VersionRefusedError]] = []
    odd_names: list[str] = []
    wanted = set(targeted)
    for name in names:
        try:
            module, half = read_name(name, shape)
        except VersionRefusedError as error:
            strangers.append((name, error))
            continue
        if (module, half) in found:
            message = f"{shown(name)} and {shown(found[module, half])} are both lora_{half} of {module}. Leave one."
            raise refusal(Refusal.TENSOR_DUPLICATE, message, name)
        found[module, half] = name
        if name != f"{_PREFIX}{module}.lora_{half}.weight":
            odd_names.append(name)
    _refuse_strangers(strangers, len(found))
    _refuse_untargeted(found, wanted)
    halves = {module: _both(module, found) for module in targeted}
    return Placement(halves, _name_warnings(odd_names))


def read_name(name: str, shape: BaseShape) -> tuple[str, str]:
    """Return (path of the linear, ``A`` or ``B``) that a tensor's name means.

    Raises:
        VersionRefusedError: the name is no half of a LoRA on one of the base's linears.
    """
    for part, reason, what in _FEATURES:
        if part in name:
            raise refusal(reason, f"{shown(name)} is {what}, which is not served. Train plain LoRA.", name)
    match = _HALF.fullmatch(name.removeprefix(_PREFIX))
    if match is None:
        reason = Refusal.BIAS_UNSUPPORTED if name.endswith(".bias") else Refusal.TENSOR_UNEXPECTED
        message = f"{shown(name)} is no half of a LoRA (expected …lora_A.weight or …lora_B.weight). Leave it out."
        raise refusal(reason, message, name)
    module = match["module"]
    inside = _LAYER.fullmatch(module)
    if inside is None or inside["inner"] not in LINEARS or str(int(inside["layer"])) != inside["layer"]:
        raise _no_place(name, module)
    if int(inside["layer"]) >= shape.num_layers:
        message = f"{shown(name)} belongs to layer {inside['layer']}; the base has layers 0 to "
        raise refusal(
            Refusal.LAYER_OUT_OF_RANGE,
            f"{message}{shape.num_layers - 1}. Serve it on the base that it was trained for.",
            name,
        )
    return module, match["half"]


def _no_place(name: str, module: str) -> VersionRefusedError:
    if _EXPERT.search(module):
        message = f"{shown(name)} belongs to an expert, and the base is dense. Train on this base."
        return refusal(Refusal.EXPERT_TENSORS, message, name)
    last = module.rpartition(".")[2]
    if last in FUSED_NAMES:
        message = f"{shown(name)} belongs to the fused {last}; the base has {', '.join(LINEARS)}. Split it."
        return refusal(Refusal.FUSED_NAMES, message, name)
    if last in ("lm_head", "embed_tokens"):
        message = f"{shown(name)} is LoRA on {last}, which is not served. Train without it."
        return refusal(Refusal.TARGET_UNSUPPORTED, message, name)
    message = f"{shown(name)} has no place in the base: it has no module {shown(module)}. Train on this base."
    return refusal(Refusal.TENSOR_UNPLACED, message, name)


def _refuse_strangers(strangers: list[tuple[str, VersionRefusedError]], num_placed: int) -> None:
    if not strangers:
        return
    name, error = strangers[0]
    if num_placed == 0 and all(other.reason == Refusal.TENSOR_UNPLACED.value for _, other in strangers):
        message = (
            f"0 of {len(strangers)} tensors match a module of the base; {shown(name)} is the first. Save them "
            f"under names that begin with {_PREFIX}model.layers."
        )
        raise refusal(Refusal.KEYS_MATCH_NOTHING, message, name)
    raise error


def _refuse_untargeted(found: Mapping[tuple[str, str], str], wanted: Collection[str]) -> None:
    for (module, _), name in found.items():
        if module not in wanted:
            message = f"{shown(name)} belongs to {module}, which the configuration does not target. Add it there."
            raise refusal(Refusal.TENSOR_UNTARGETED, message, name)


def _both(module: str, found: Mapping[tuple[str, str], str]) -> tuple[str, str]:
    key_a, key_b = found.get((module, "A")), found.get((module, "B"))
    if key_a is None or key_b is None:
        lacking = " and ".join(half for half, key in (("lora_A", key_a), ("lora_B", key_b)) if key is None)
        message = f"{module} is targeted but has no {lacking}. Save the adapter again with all its tensors."
        raise refusal(Refusal.MODULE_INCOMPLETE, message, module)
    return key_a, key_b


def _name_warnings(odd_names: list[str]) -> tuple[tuple[str, str], ...]:
    if not odd_names:
        return ()
    message = (
        f"{len(odd_names)} tensors are not named as PEFT saves them, such as {shown(odd_names[0])}; each was placed by "
        "its module's path."
    )
    return (("names_not_canonical", message),)
