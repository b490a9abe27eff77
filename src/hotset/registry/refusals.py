"""Why an adapter or a base is refused: every stable reason code, and how a refusal is worded.

A code never changes its meaning; messages may get better. Text that comes from an upload is quoted and cut.
"""

from enum import StrEnum

from hotset.core.errors import VersionRefusedError

_SHOWN_CHARS = 120


class Refusal(StrEnum):
    """The stable reason codes of `VersionRefusedError`."""

    #: The folder holds a symbolic link, a hard link, or something that is no regular file.
    FILE_LINK = "file_link"
    #: A file is larger than an adapter or a base may be.
    FILE_TOO_LARGE = "file_too_large"
    #: The folder holds more files than it may.
    TOO_MANY_FILES = "too_many_files"
    #: There is no such folder, or it can't be read.
    FOLDER_UNREADABLE = "folder_unreadable"
    #: adapter_config.json is missing, so the scaling is unknown.
    CONFIG_MISSING = "config_missing"
    #: There is no weights file.
    WEIGHTS_MISSING = "weights_missing"
    #: The only weights are pickled; they are never opened.
    WEIGHTS_PICKLED = "weights_pickled"
    #: Both one weights file and shards are there.
    WEIGHTS_AMBIGUOUS = "weights_ambiguous"
    #: Shards and their index do not agree, or a module's halves lie in different shards.
    SHARDS_INVALID = "shards_invalid"
    #: The weights file holds no tensors.
    WEIGHTS_EMPTY = "weights_empty"
    #: The weights file is not a well-formed safetensors file.
    SAFETENSORS_INVALID = "safetensors_invalid"
    #: A JSON file is not strict JSON, is too deep, or is no object.
    JSON_INVALID = "json_invalid"
    #: A known setting has a value that it can't have.
    SETTING_INVALID = "setting_invalid"
    #: A setting that this version of Hotset does not know is not null.
    SETTING_UNKNOWN = "setting_unknown"
    #: The adapter is not LoRA.
    PEFT_TYPE_UNSUPPORTED = "peft_type_unsupported"
    #: The adapter was trained for something other than causal language modelling.
    TASK_TYPE_UNSUPPORTED = "task_type_unsupported"
    #: DoRA, by its setting or by magnitude vectors.
    DORA_UNSUPPORTED = "dora_unsupported"
    #: Trained biases, by the setting or by tensors.
    BIAS_UNSUPPORTED = "bias_unsupported"
    #: A bias on the LoRA's second half.
    LORA_BIAS_UNSUPPORTED = "lora_bias_unsupported"
    #: Whole modules were trained and saved.
    MODULES_TO_SAVE_UNSUPPORTED = "modules_to_save_unsupported"
    #: Rows of the embedding were trained.
    TRAINABLE_TOKENS_UNSUPPORTED = "trainable_tokens_unsupported"
    #: Activated LoRA: acts only after its invocation tokens.
    ALORA_UNSUPPORTED = "alora_unsupported"
    #: QA-LoRA: pools the input in groups.
    QALORA_UNSUPPORTED = "qalora_unsupported"
    #: The base's layers are stacked anew.
    LAYER_REPLICATION_UNSUPPORTED = "layer_replication_unsupported"
    #: LoRA on parameters rather than modules, as on stacked experts.
    TARGET_PARAMETERS_UNSUPPORTED = "target_parameters_unsupported"
    #: Another variant of LoRA whose mathematics differ.
    VARIANT_UNSUPPORTED = "variant_unsupported"
    #: The initialisation changed the base's weights, so the adapter fits only the changed base.
    BASE_CHANGING_INIT = "base_changing_init"
    #: A pattern is no regular expression, or uses syntax on which engines disagree.
    PATTERN_INVALID = "pattern_invalid"
    #: Matching the patterns takes longer than allowed.
    PATTERN_TOO_SLOW = "pattern_too_slow"
    #: No module of the base is targeted.
    TARGETS_MATCH_NOTHING = "targets_match_nothing"
    #: A target is a module that is not one of the seven linears.
    TARGET_UNSUPPORTED = "target_unsupported"
    #: A rank is below 1.
    RANK_INVALID = "rank_invalid"
    #: A rank is above the limit.
    RANK_OVER_LIMIT = "rank_over_limit"
    #: The rank that the configuration gives is not the rank of the tensors.
    RANK_MISMATCH = "rank_mismatch"
    #: The scaling is not a finite number.
    SCALING_INVALID = "scaling_invalid"
    #: No tensor has a place in the base: the names live under another prefix.
    KEYS_MATCH_NOTHING = "keys_match_nothing"
    #: A tensor belongs to a layer that the base does not have.
    LAYER_OUT_OF_RANGE = "layer_out_of_range"
    #: A tensor belongs to a fused projection that the base has split.
    FUSED_NAMES = "fused_names"
    #: A tensor belongs to an expert, and the base is dense.
    EXPERT_TENSORS = "expert_tensors"
    #: A tensor's name has no place in the base.
    TENSOR_UNPLACED = "tensor_unplaced"
    #: A tensor is no half of a LoRA.
    TENSOR_UNEXPECTED = "tensor_unexpected"
    #: Two tensors are the same half of the same module.
    TENSOR_DUPLICATE = "tensor_duplicate"
    #: A tensor belongs to a module that the configuration does not target.
    TENSOR_UNTARGETED = "tensor_untargeted"
    #: A targeted module lacks one half or both.
    MODULE_INCOMPLETE = "module_incomplete"
    #: A tensor's shape does not fit the base.
    SHAPE_MISMATCH = "shape_mismatch"
    #: A tensor is stored in a number format that is not served.
    DTYPE_UNSUPPORTED = "dtype_unsupported"
    #: A tensor holds NaN or infinity.
    VALUES_NOT_FINITE = "values_not_finite"
    #: A tensor is finite as stored but not in the serving dtype.
    VALUES_OVERFLOW = "values_overflow"
    #: The adapter does not say for which base it was trained.
    BASE_UNDECLARED = "base_undeclared"
    #: The adapter says that it was trained for another base.
    BASE_MISMATCH = "base_mismatch"
    #: The adapter brings token ids that the base does not have.
    EXTRA_VOCABULARY = "extra_vocabulary"
    #: A shipped tokenizer gives other ids than the base's.
    TOKENIZER_DIFFERS = "tokenizer_differs"
    #: A shipped chat template renders other prompts than the base's.
    CHAT_TEMPLATE_DIFFERS = "chat_template_differs"
    #: The base is of a family or kind that is not served.
    BASE_UNSUPPORTED = "base_unsupported"
    #: The base's configuration and weights do not agree.
    BASE_INVALID = "base_invalid"


def refusal(reason: Refusal, message: str, subject: str | None = None) -> VersionRefusedError:
    """Return the error that refuses for `reason`.

    Args:
        reason: The stable code.
        message: Names what is at fault and says what to do.
        subject: The file, tensor, key or setting at fault.
    """
    return VersionRefusedError(reason.value, message, subject=subject and subject[:_SHOWN_CHARS])


def shown(value: object) -> str:
    """Return `value` quoted and cut to a length that a message can hold."""
    text = ascii(value)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"
