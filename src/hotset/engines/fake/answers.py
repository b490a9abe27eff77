"""The fake engine's texts: each token follows from (base version, adapter's bytes, prompt, position) alone.

So an answer that came by a wrong route reads differently, and whoever knows the route knows the whole answer.
"""

import hashlib
from collections.abc import Mapping, Sequence

from hotset.core.ids import Digest
from hotset.core.messages import Generate, Message

_CONSONANTS, _VOWELS = "bdfghklmnprstvwz", "aeio"
#: Log-probabilities of a word under the base and under an adapter, the wider part drawn from the word itself.
_BASE_LOGPROB, _ADAPTER_LOGPROB, _SPREAD = -2.0, -1.0, 0.5


def mark_of(files: Mapping[str, Digest]) -> str:
    """Return what stands for an adapter's bytes, whatever it is called; the base's is empty."""
    lines = sorted(f"{name}\x00{digest}" for name, digest in files.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def prompts_of(request: Generate) -> list[str]:
    """Return a request's prompts as texts; one for a chat."""
    if request.messages is not None:
        return [chat_prompt(request.messages)]
    return [prompt if isinstance(prompt, str) else " ".join(map(str, prompt)) for prompt in request.prompts or ()]


def chat_prompt(messages: Sequence[Message]) -> str:
    """Return a chat as one text."""
    return " ".join(f"{message.role}: {message.content}" for message in messages)


class Answerer:
    """Writes for one base version."""

    def __init__(self, base: Digest) -> None:
        self._base = base

    def token(self, mark: str, prompt: str, position: int) -> str:
        """Return one token of an answer, with a blank behind it."""
        drawn = self._draw(mark, prompt, position)
        return f"{_syllable(drawn[0])}{_syllable(drawn[1])} "

    def text(self, mark: str, prompt: str, num_tokens: int) -> str:
        """Return a whole answer."""
        return "".join(self.token(mark, prompt, position) for position in range(num_tokens))

    def scores(self, mark: str, text: str) -> list[float]:
        """Return a log-probability for each word after the first."""
        likeliest = _ADAPTER_LOGPROB if mark else _BASE_LOGPROB
        num_words = len(text.split())
        return [likeliest - _SPREAD * self._draw(mark, text, at)[0] / 255 for at in range(1, num_words)]

    def _draw(self, mark: str, text: str, position: int) -> bytes:
        return hashlib.blake2b(f"{self._base}\x00{mark}\x00{text}\x00{position}".encode(), digest_size=2).digest()


def _syllable(byte: int) -> str:
    return _CONSONANTS[byte >> 4] + _VOWELS[byte >> 2 & 3]
