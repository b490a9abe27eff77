"""The fake engine's texts: each token follows from (base version, adapter's bytes, prompt, position) alone.

So an answer that came by a wrong route reads differently, and whoever knows the route knows the whole answer.
"""

import hashlib
from collections.abc import Mapping, Sequence

from hotset.core.ids import Digest
from hotset.core.messages import Generate, Message, TokenLogprob

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


def num_tokens(prompt: str) -> int:
    """Return how many tokens a prompt is: a word is one."""
    return max(1, prompt.count(" ") + 1)


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

    def logprob(self, mark: str, prompt: str, position: int, num_top: int) -> TokenLogprob:
        """Return one token's log-probability and those of as many others, the likeliest first."""
        token = self.token(mark, prompt, position)
        value = self._logprob(mark, prompt, position)
        others = (self.token(f"{mark}\x00{rank}", prompt, position) for rank in range(1, num_top))
        top = [(token, value), *((other, value - rank) for rank, other in enumerate(others, start=1))]
        alternatives = tuple(TokenLogprob(text, text.encode(), each) for text, each in top[:num_top])
        return TokenLogprob(token, token.encode(), value, alternatives)

    def scores(self, mark: str, text: str) -> list[float]:
        """Return a log-probability for each word after the first."""
        return [self._logprob(mark, text, at) for at in range(1, len(text.split()))]

    def _logprob(self, mark: str, text: str, position: int) -> float:
        likeliest = _ADAPTER_LOGPROB if mark else _BASE_LOGPROB
        return likeliest - _SPREAD * self._draw(mark, text, position)[0] / 255

    def _draw(self, mark: str, text: str, position: int) -> bytes:
        return hashlib.blake2b(f"{self._base}\x00{mark}\x00{text}\x00{position}".encode(), digest_size=2).digest()


def _syllable(byte: int) -> str:
    return _CONSONANTS[byte >> 4] + _VOWELS[byte >> 2 & 3]
