"""What an embedded engine is made with."""

from typing import Literal

import msgspec

from hotset.core.base import BaseVersion

DtypeName = Literal["auto", "float32", "bfloat16", "float16"]


class EmbeddedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How to serve one base version. Counts are at least 1 unless 0 is said to mean something."""

    #: Folder with config.json, safetensors weights and tokenizer, in Hugging Face format.
    base_folder: str
    base: BaseVersion
    #: ``auto`` is bfloat16 where the CPU multiplies it natively, else float32.
    dtype: DtypeName = "auto"
    #: Distinct adapters loaded at once.
    num_slots: int = 8
    rank_max: int = 64
    #: Tokens of prompt and answer together; 0 is the model's context, or what the KV cache can hold if that is less.
    model_len_max: int = 0
    #: Sequences in one step.
    num_sequences_max: int = 64
    #: Sequences that wait for a place in the step before `add` refuses more.
    num_waiting_max: int = 1024
    #: Blocks of KV cache; 0 takes as many as fit `kv_bytes_max`.
    kv_blocks: int = 0
    kv_bytes_max: int = 1 << 30
    #: Tokens in one block.
    block_size: int = 16
    #: Tokens computed in one step: every decoding sequence's one, and pieces of prompts up to this sum.
    step_tokens_max: int = 256
    #: Threads of one operation; 0 is PyTorch's own choice.
    num_threads: int = 0
    #: Seeds the requests that bring no seed of their own.
    seed: int = 0
