"""From a body's bytes to what is asked, or to the 400 that names the field at fault.

A body is decoded once (`decoding`), into the structs of `fields`; here its values are put in range and made one.
"""

import msgspec

from hotset.core.errors import InvalidRequestError, UnsupportedParameterError
from hotset.core.messages import Message, Sampling
from hotset.gateway.decoding import decode_body, refuse_doubles_among
from hotset.gateway.fields import ChatBody, ChatMessage, CompletionBody, SharedBody, StreamOptions
from hotset.gateway.settings import GatewaySettings

_decode_chat = msgspec.json.Decoder(ChatBody).decode
_decode_completion = msgspec.json.Decoder(CompletionBody).decode


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One request, parsed and in range."""

    model: str
    stream: bool
    include_usage: bool
    sampling: Sampling
    n: int
    #: Prompts times samples.
    num_choices: int
    messages: tuple[Message, ...] | None = None
    prompts: tuple[str | tuple[int, ...], ...] | None = None
    #: The client wants a job and no answer on this connection.
    in_background: bool = False


def parse_chat(body: bytes, settings: GatewaySettings) -> Asked:
    """Parse the body of a chat request.

    Raises:
        InvalidRequestError: not JSON, a missing field, a wrong type or a value out of range.
        UnsupportedParameterError: a field that is not served, or one that appears twice.
    """
    chat = decode_body(_decode_chat, body)
    num_keys = _num_keys(chat) + (chat.response_format is not None)
    for message in chat.messages:
        num_keys += _num_message_keys(message)
    refuse_doubles_among(body, num_keys)
    if len(chat.messages) > settings.messages_max:
        raise InvalidRequestError(f"At most {settings.messages_max} messages are taken.", param="messages")
    n = _samples(chat.n, 1, settings)
    return Asked(
        model=chat.model,
        stream=chat.stream is True,
        include_usage=_includes_usage(chat),
        sampling=_sampling(chat, _max_tokens(chat), _chat_logprobs(chat)),
        n=n,
        num_choices=n,
        messages=tuple(_message(message) for message in chat.messages),
    )


def parse_completion(body: bytes, settings: GatewaySettings) -> Asked:
    """Parse the body of a text completion request.

    Raises:
        InvalidRequestError: not JSON, a missing field, a wrong type or a value out of range.
        UnsupportedParameterError: a field that is not served, or one that appears twice.
    """
    asked = decode_body(_decode_completion, body)
    refuse_doubles_among(body, _num_keys(asked))
    if asked.echo:
        raise UnsupportedParameterError("'echo' is not supported.", param="echo")
    prompts = _prompts(asked.prompt, settings)
    n = _samples(asked.n, len(prompts), settings)
    return Asked(
        model=asked.model,
        stream=asked.stream is True,
        include_usage=_includes_usage(asked),
        sampling=_sampling(asked, asked.max_tokens, asked.logprobs),
        n=n,
        num_choices=n * len(prompts),
        prompts=prompts,
    )


def _num_keys(body: SharedBody) -> int:
    """Keys of the body and its stream options, but for those written as null."""
    options = body.stream_options
    return _num_set(body) + (0 if options is None else _num_set(options))


def _num_set(struct: SharedBody | ChatMessage | StreamOptions) -> int:
    values = msgspec.structs.astuple(struct)
    return len(values) - values.count(None)


def _num_message_keys(message: ChatMessage) -> int:
    return _num_set(message) + (0 if isinstance(message.content, str) else 2 * len(message.content))


def _message(message: ChatMessage) -> Message:
    content = message.content
    if not isinstance(content, str):
        content = "".join(part.text for part in content)
    return Message(role=message.role, content=content)


def _max_tokens(chat: ChatBody) -> int | None:
    old, new = chat.max_tokens, chat.max_completion_tokens
    if old is not None and new is not None and old != new:
        raise InvalidRequestError(
            "'max_tokens' and 'max_completion_tokens' disagree; send one of them.", param="max_tokens"
        )
    return old if new is None else new


def _chat_logprobs(chat: ChatBody) -> int | None:
    if chat.top_logprobs is not None and not chat.logprobs:
        raise InvalidRequestError("'top_logprobs' needs 'logprobs' to be true.", param="top_logprobs")
    return (chat.top_logprobs or 0) if chat.logprobs else None


def _includes_usage(body: SharedBody) -> bool:
    if body.stream_options is None:
        return False
    if not body.stream:
        raise InvalidRequestError("'stream_options' needs 'stream' to be true.", param="stream_options")
    return body.stream_options.include_usage is True


def _samples(n: int | None, num_prompts: int, settings: GatewaySettings) -> int:
    samples = 1 if n is None else n
    if samples > settings.n_max:
        raise InvalidRequestError(f"'n' may be at most {settings.n_max}.", param="n")
    if samples * num_prompts > settings.choices_max:
        raise InvalidRequestError(f"Prompts times 'n' may be at most {settings.choices_max}.", param="n")
    return samples


def _prompts(prompt: str | list[str | int | list[int]], settings: GatewaySettings) -> tuple[str | tuple[int, ...], ...]:
    if isinstance(prompt, str):
        prompts: tuple[str | tuple[int, ...], ...] = (prompt,)
    elif prompt and all(isinstance(item, int) for item in prompt):
        prompts = (_token_ids(prompt),)
    elif all(isinstance(item, str) for item in prompt):
        prompts = tuple(item for item in prompt if isinstance(item, str))
    elif all(isinstance(item, list) for item in prompt):
        prompts = tuple(tuple(item) for item in prompt if isinstance(item, list))
    else:
        raise InvalidRequestError("'prompt' mixes texts and token ids.", param="prompt")
    if not prompts or not all(prompts):
        raise InvalidRequestError("'prompt' is empty.", param="prompt")
    if len(prompts) > settings.prompts_max:
        raise InvalidRequestError(f"At most {settings.prompts_max} prompts are taken.", param="prompt")
    return prompts


def _token_ids(items: list[str | int | list[int]]) -> tuple[int, ...]:
    ids = tuple(item for item in items if isinstance(item, int))
    if not all(0 <= token < 1 << 31 for token in ids):
        raise InvalidRequestError("'prompt' holds a number that is no token id.", param="prompt")
    return ids


def _sampling(body: SharedBody, max_tokens: int | None, logprobs: int | None) -> Sampling:
    stop = body.stop
    return Sampling(
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        top_k=max(body.top_k or 0, 0),
        min_p=body.min_p or 0.0,
        seed=body.seed,
        stop=() if stop is None else (stop,) if isinstance(stop, str) else tuple(stop),
        max_tokens=max_tokens,
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        repetition_penalty=1.0 if body.repetition_penalty is None else body.repetition_penalty,
        logprobs=logprobs,
    )
