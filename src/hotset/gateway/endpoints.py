"""What differs between the generation endpoints: how a body is parsed, where a text stands, log-probabilities.

Source: OpenAI API reference, chat completion and completion objects.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from hotset.core.messages import TokenLogprob
from hotset.gateway.parse import Asked, parse_chat, parse_completion
from hotset.gateway.responses import parse_response
from hotset.gateway.settings import GatewaySettings

#: Turns the log-probabilities of one more piece of a choice into that piece's JSON member.
LogprobsOf = Callable[[tuple[TokenLogprob, ...]], dict[str, object]]

#: OpenAI's stand-in for "very unlikely"; JSON has no infinity.
_LEAST_LOGPROB = -9999.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One generation endpoint's shapes."""

    #: As the request log calls it.
    name: str
    path: str
    parse: Callable[[bytes, GatewaySettings], Asked]
    id_prefix: str
    object: str
    chunk_object: str
    #: What stands around a text in a chunk's choice.
    before_text: bytes
    after_text: bytes
    #: What replaces both and the text where a chunk has none; empty where the text always stands.
    empty_text: bytes
    #: A choice's first chunk, before any text; empty where there is none.
    opening: bytes
    #: Makes a renderer for one choice; it may count along.
    logprobs_of: Callable[[], LogprobsOf]
    #: Of the job that a request becomes where it is answered later.
    job_id_prefix: str = "job_"


def chat_logprobs(logprobs: tuple[TokenLogprob, ...]) -> dict[str, object]:
    """Return a chat choice's log-probabilities."""
    content = [{**_chat_token(token), "top_logprobs": [_chat_token(top) for top in token.top]} for token in logprobs]
    return {"content": content, "refusal": None}


class CompletionLogprobs:
    """A completion choice's log-probabilities; offsets count on from piece to piece."""

    def __init__(self) -> None:
        self._offset = 0

    def __call__(self, logprobs: tuple[TokenLogprob, ...]) -> dict[str, object]:
        """Return the member for one more piece."""
        offsets = list[int]()
        for token in logprobs:
            offsets.append(self._offset)
            self._offset += len(token.token)
        return {
            "tokens": [token.token for token in logprobs],
            "token_logprobs": [_finite(token.logprob) for token in logprobs],
            "top_logprobs": [{top.token: _finite(top.logprob) for top in token.top} for token in logprobs],
            "text_offset": offsets,
        }


CHAT = Endpoint(
    name="chat",
    path="/v1/chat/completions",
    parse=parse_chat,
    id_prefix="chatcmpl-",
    object="chat.completion",
    chunk_object="chat.completion.chunk",
    before_text=b'"delta":{"content":',
    after_text=b"}",
    empty_text=b'"delta":{}',
    opening=b'"delta":{"role":"assistant","content":""}',
    logprobs_of=lambda: chat_logprobs,
)

COMPLETION = Endpoint(
    name="completions",
    path="/v1/completions",
    parse=parse_completion,
    id_prefix="cmpl-",
    object="text_completion",
    chunk_object="text_completion",
    before_text=b'"text":',
    after_text=b"",
    empty_text=b"",
    opening=b"",
    logprobs_of=CompletionLogprobs,
)

#: Always answered later. What its job keeps is a chat's answer; `gateway.responses` shows it as a response.
RESPONSES = replace(CHAT, name="responses", path="/v1/responses", parse=parse_response, job_id_prefix="resp_")

#: Path → endpoint.
ENDPOINTS = {endpoint.path: endpoint for endpoint in (CHAT, COMPLETION, RESPONSES)}
#: The same by name, as jobs keep it.
ENDPOINTS_BY_NAME = {endpoint.name: endpoint for endpoint in ENDPOINTS.values()}


def _chat_token(token: TokenLogprob) -> dict[str, object]:
    return {"token": token.token, "logprob": _finite(token.logprob), "bytes": list(token.content)}


def _finite(logprob: float) -> float:
    return max(_LEAST_LOGPROB, logprob)
