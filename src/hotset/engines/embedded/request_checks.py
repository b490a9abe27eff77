"""Refusing a request whose parameters are out of range. The gateway checks too; an engine relies on nobody."""

import math
import sys

from hotset.core.errors import InvalidRequestError
from hotset.core.messages import Generate, Sampling

N_MAX = 16
_STOPS_MAX = 4
_LOGPROBS_MAX = 20
_PENALTY_MAX = 2.0
#: Smaller ones would make a finite logit overflow.
_REPETITION_MIN = 0.01


def check_request(request: Generate, vocab_size: int) -> None:
    """Check what can be told without tokenising.

    Raises:
        InvalidRequestError: a parameter out of its range, named in `param`.
    """
    if (request.messages is None) == (request.prompts is None):
        raise InvalidRequestError("give either messages or prompts.", param="messages")
    if request.messages is not None and not request.messages:
        raise InvalidRequestError("messages is empty.", param="messages")
    if request.prompts is not None and not request.prompts:
        raise InvalidRequestError("prompt is empty.", param="prompt")
    for prompt in request.prompts or ():
        if not isinstance(prompt, str) and not all(0 <= token < vocab_size for token in prompt):
            raise InvalidRequestError(f"prompt holds ids outside 0 to {vocab_size - 1}.", param="prompt")
    if not 1 <= request.n <= N_MAX:
        raise InvalidRequestError(f"n must be from 1 to {N_MAX}.", param="n")
    _check_sampling(request.sampling)


def _check_sampling(sampling: Sampling) -> None:
    bounds = {
        "temperature": (sampling.temperature, 0.0, 2.0),
        "top_p": (sampling.top_p, sys.float_info.min, 1.0),
        "top_k": (sampling.top_k, 0, math.inf),
        "min_p": (sampling.min_p, 0.0, 1.0),
        "presence_penalty": (sampling.presence_penalty, -_PENALTY_MAX, _PENALTY_MAX),
        "frequency_penalty": (sampling.frequency_penalty, -_PENALTY_MAX, _PENALTY_MAX),
        "repetition_penalty": (sampling.repetition_penalty, _REPETITION_MIN, _PENALTY_MAX),
        "logprobs": (sampling.logprobs or 0, 0, _LOGPROBS_MAX),
        "max_tokens": (1 if sampling.max_tokens is None else sampling.max_tokens, 1, math.inf),
    }
    for name, (value, low, high) in bounds.items():
        # Written so that NaN is out of range as well.
        if not low <= value <= high:
            raise InvalidRequestError(f"{name} is out of range.", param=name)
    if len(sampling.stop) > _STOPS_MAX or not all(sampling.stop):
        raise InvalidRequestError(f"stop takes up to {_STOPS_MAX} strings that are not empty.", param="stop")
