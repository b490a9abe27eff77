"""Prompts as token ids: the base's own tokenizer and chat template, from its folder, through transformers.

Nothing is downloaded and no code of the folder is run. Whatever a template or tokenizer objects to is the request's
own fault and is said so.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from hotset.core.errors import ConfigError, ContextLengthExceededError, InvalidRequestError
from hotset.core.messages import Message
from hotset.engines.embedded.detokeniser import TokenTable


class PromptEncoder:
    """Tokenizer and chat template of one base."""

    def __init__(self, folder: Path, *, model_len_max: int) -> None:
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=False
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"the base's tokenizer can't be used: {error}") from error
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        if not isinstance(backend, Tokenizer):
            raise ConfigError("the base has no tokenizer.json; slow tokenizers are not served.")
        self.table = TokenTable(backend)
        self.end_ids = _end_ids(folder, self._tokenizer.eos_token_id)
        self._model_len_max = model_len_max

    def encode_text(self, text: str, *, param: str) -> list[int]:
        """Return a text's ids, with the special tokens that the tokenizer puts around one.

        Raises:
            InvalidRequestError: the text can't be encoded.
            ContextLengthExceededError: it is so long that it can't fit whatever it holds.
        """
        return self._encode(text, add_special_tokens=True, param=param)

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of a conversation, ready for the assistant's answer.

        Raises:
            InvalidRequestError: the template refuses the conversation, or there is none.
            ContextLengthExceededError: as for `encode_text`.
        """
        turns = [{"role": message.role, "content": message.content} for message in messages]
        try:
            text: str = self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        except (TemplateError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
            raise InvalidRequestError(f"the chat template refuses the messages: {error}", param="messages") from error
        return self._encode(text, add_special_tokens=False, param="messages")

    def _encode(self, text: str, *, add_special_tokens: bool, param: str) -> list[int]:
        # Every token stands for at most so many bytes: far longer texts are refused before the work is done.
        if len(text) > self._model_len_max * self.table.longest:
            raise ContextLengthExceededError(
                f"the prompt is longer than the model's {self._model_len_max} tokens.", param=param
            )
        try:
            return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens))
        except (ValueError, TypeError, UnicodeError, OverflowError) as error:
            raise InvalidRequestError(f"the text can't be tokenised: {error}", param=param) from error


def _end_ids(folder: Path, tokenizer_end: int | None) -> frozenset[int]:
    """Return the ids that end an answer: generation_config.json's (else config.json's) and the tokenizer's own."""
    found: set[int] = set() if tokenizer_end is None else {tokenizer_end}
    for name in ("generation_config.json", "config.json"):
        path = folder / name
        if not path.is_file():
            continue
        ends = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
        if ends is not None:
            found.update([ends] if isinstance(ends, int) else ends)
            break
    return frozenset(found)
