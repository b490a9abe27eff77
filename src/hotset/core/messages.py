"""What rooms and processes say to each other about one generation: plain values, encoded with msgspec.

The same values travel inside one process, over the engine's Unix socket as MessagePack, and (later)
between machines. They hold no policy. Token ids are non-negative; times are seconds unless named otherwise.
"""

from typing import Literal

import msgspec

from hotset.core.ids import Digest, EngineName, RequestId

FinishReason = Literal["stop", "length", "cancelled"]


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn of a conversation, already reduced to text."""

    role: Literal["system", "user", "assistant", "developer", "tool"]
    content: str


class Sampling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the next token is chosen. Ranges are checked by whoever parses a client's request.

    Source: OpenAI API reference for the shared fields; vLLM's SamplingParams for top_k, min_p and
    repetition_penalty.
    """

    #: 0 is greedy; 0 to 2.
    temperature: float = 1.0
    #: (0, 1].
    top_p: float = 1.0
    #: 0 is off.
    top_k: int = 0
    #: [0, 1]; relative to the likeliest token.
    min_p: float = 0.0
    #: None draws one from the engine's own generator.
    seed: int | None = None
    #: At most 4 strings; the text ends before the first one met.
    stop: tuple[str, ...] = ()
    #: None: up to the model's context.
    max_tokens: int | None = None
    #: [-2, 2].
    presence_penalty: float = 0.0
    #: [-2, 2].
    frequency_penalty: float = 0.0
    #: (0, 2]; 1 is off; counts prompt and output.
    repetition_penalty: float = 1.0
    #: How many alternatives to report for each token, 0 to 20; None reports no log-probabilities.
    logprobs: int | None = None
    #: Go on past the end-of-sequence token (benchmarks only; never set from a tenant's request).
    ignore_eos: bool = False


class Generate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="generate"):
    """One request to an engine: exactly one of `messages` and `prompts` is set.

    Choice ``i * n + j`` is the j-th sample of prompt i.
    """

    request_id: RequestId
    #: None means the bare base, said explicitly: an engine never falls back to it.
    engine_name: EngineName | None
    #: HMAC of the tenant; keys every cache of prompt state.
    cache_salt: str
    sampling: Sampling
    #: A chat, rendered with the base version's own template.
    messages: tuple[Message, ...] | None = None
    #: Text prompts, or prompts of token ids.
    prompts: tuple[str | tuple[int, ...], ...] | None = None
    #: Samples a prompt, 1 to 16.
    n: int = 1


class TokenLogprob(msgspec.Struct, frozen=True, array_like=True):
    """One token with its log-probability (natural log) and, where asked for, the likeliest alternatives."""

    token: str
    #: The token's own bytes, which need not be valid UTF-8 on their own.
    content: bytes
    logprob: float
    top: tuple["TokenLogprob", ...] = ()


class Started(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """The engine accepted the request; comes before any delta."""

    request_id: RequestId
    #: Prompt tokens over all prompts, each counted once.
    prompt_tokens: int


class Delta(msgspec.Struct, frozen=True, array_like=True, tag="d"):
    """A piece of one choice's answer. `text` may be empty while a character or stop string is undecided."""

    request_id: RequestId
    index: int
    text: str
    #: Tokens that this piece stands for, 0 or more.
    num_tokens: int
    #: Set on the choice's last delta.
    finish_reason: FinishReason | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None


class Finished(msgspec.Struct, frozen=True, array_like=True, tag="f"):
    """The engine is done with the request, all choices; the last event of a request that went well."""

    request_id: RequestId
    prompt_tokens: int
    completion_tokens: int


class Failed(msgspec.Struct, frozen=True, array_like=True, tag="x"):
    """The request ended without a full answer; the last event of a request that did not go well."""

    request_id: RequestId
    #: `code` of a leaf of the error tree.
    code: str
    message: str
    param: str | None = None


EngineEvent = Started | Delta | Finished | Failed


class ModuleSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One adapted linear, as `registry.verify` proved it: y += scaling * B @ (A @ x)."""

    #: Path in the base, such as ``model.layers.0.self_attn.q_proj``.
    module: str
    rank: int
    alpha: float
    scaling: float
    #: Tensor names in the safetensors file: A is [rank, d_in], B is [d_out, rank].
    key_a: str
    key_b: str
    #: The file that holds both, relative to the version's folder.
    file: str


class AdapterLoad(msgspec.Struct, frozen=True, kw_only=True, tag="load"):
    """What an engine needs to load one verified version; everything in it was proved before."""

    engine_name: EngineName
    #: Absolute path of the version's folder in the agent's local store, named after `engine_name`.
    folder: str
    #: File name to digest of every file the engine may open; an engine that reads bytes checks them.
    files: dict[str, Digest]
    modules: tuple[ModuleSpec, ...]


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a load cost and did."""

    seconds: float
    #: Seconds in which the engine could not step because of the load.
    stall_seconds: float
    num_modules: int
    #: Bytes that the version occupies in its slot.
    slot_bytes: int


class StepFacts(msgspec.Struct, frozen=True, array_like=True):
    """What one step of an engine computed, and in what time."""

    seconds: float
    #: Sequences that got a token each.
    num_decodes: int
    #: Tokens of prompts that were read.
    num_prompt_tokens: int
    #: Distinct adapters among all of them; the base is none.
    num_adapters: int


class EngineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine says of itself once it serves."""

    #: Such as ``embedded 0.1.0`` or ``vllm 0.32.0``.
    engine: str
    base: Digest
    #: ``float32``, ``bfloat16`` or ``float16``.
    dtype: str
    #: Such as ``cpu-avx512_bf16``; effect proofs compare within one class.
    hardware_class: str
    #: Distinct adapters that may be dispatched at once (usable slots).
    num_slots: int
    rank_max: int
    #: Tokens of prompt and answer together.
    model_len_max: int
    #: Sequences in one step.
    num_sequences_max: int
    #: Bytes that each slot takes, as wide as `rank_max` whatever is in it; 0 where the engine does not say.
    slot_bytes: int = 0
    #: Whether a step computes each adapter at its own rank, and not at that of its slot.
    computes_own_rank: bool = False


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """What is in an engine at one moment, by the engine's own account."""

    loaded: tuple[EngineName, ...]
    running: tuple[RequestId, ...]
    kv_blocks_used: int
    kv_blocks_total: int


class Score(msgspec.Struct, frozen=True, kw_only=True, tag="score"):
    """Ask for the log-probability of each token of each text after its first, under one version or the base."""

    engine_name: EngineName | None
    texts: tuple[str, ...]
