"""What a base version is: one digest, and the shapes an adapter must fit.

The shapes come from the Hugging Face ``config.json`` of the dense Llama, Mistral, Qwen2 and Qwen3 families.
"""

import msgspec

from hotset.core.ids import BaseName, Digest

#: The seven linear projections an adapter may target, by their path within a decoder layer.
LINEARS = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
)


class BaseShape(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a base model that verification and serving need."""

    #: ``llama``, ``mistral``, ``qwen2`` or ``qwen3``.
    family: str
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    #: Tokens of context the model was made for.
    context_len: int
    tie_word_embeddings: bool

    def linear_shape(self, linear: str) -> tuple[int, int]:
        """Return (d_out, d_in) of one of `LINEARS`."""
        query, key_value = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        return {
            "self_attn.q_proj": (query, self.hidden_size),
            "self_attn.k_proj": (key_value, self.hidden_size),
            "self_attn.v_proj": (key_value, self.hidden_size),
            "self_attn.o_proj": (self.hidden_size, query),
            "mlp.gate_proj": (self.intermediate_size, self.hidden_size),
            "mlp.up_proj": (self.intermediate_size, self.hidden_size),
            "mlp.down_proj": (self.hidden_size, self.intermediate_size),
        }[linear]

    def lora_bytes(self, rank: int, number_bytes: int) -> int:
        """Return the bytes of an adapter of this rank over all linears, at so many bytes a number."""
        return rank * number_bytes * self.num_layers * sum(sum(self.linear_shape(linear)) for linear in LINEARS)


class TokenizerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What decides token ids and rendered prompts, digested so that a shipped copy can be compared.

    Each digest is over a canonical form, so a re-serialised but equal tokenizer agrees.
    """

    #: Of tokenizer.json: model (vocabulary, merges), added tokens, normaliser, pre-tokenizer, post-processor.
    tokenizer: Digest | None = None
    #: The chat template's text, from chat_template.jinja or tokenizer_config.json.
    chat_template: Digest | None = None
    #: Ids at or above this are not the base's.
    vocab_size: int = 0
    #: Token to id of vocabulary and merges alone, for a copy shipped as vocab.json and merges.txt.
    vocabulary: Digest | None = None
    merges: Digest | None = None
    #: Text to id of the added tokens, such as ``<|im_end|>``.
    added_tokens: dict[str, int] = {}
    #: Settings of tokenizer_config.json that change ids: ``add_bos_token``, ``eos_token`` and the like.
    settings: dict[str, str | bool] = {}


class BaseVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A base model fixed by one digest over its config, weights, tokenizer and chat template."""

    name: BaseName
    digest: Digest
    #: Other names under which adapters may declare it, such as ``HuggingFaceTB/SmolLM2-135M-Instruct``.
    synonyms: tuple[str, ...] = ()
    shape: BaseShape
    tokenizer: TokenizerFacts
    #: File name to digest of every file under the digest.
    files: dict[str, Digest]
