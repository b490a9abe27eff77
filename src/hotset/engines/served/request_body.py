"""Writes a generation as the body that engines with OpenAI's API take.

Log-probabilities, penalties and stops carry the same names there as here. Source: `entrypoints/openai` of vLLM 0.33.0;
the per-chunk usage (`continuous_usage_stats`) tells how many tokens a piece of text stands for.
"""

from hotset.core.messages import Generate, Sampling

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_STREAM_OPTIONS = {"include_usage": True, "continuous_usage_stats": True}


def path_of(request: Generate) -> str:
    """Return where a request is sent."""
    return CHAT if request.messages is not None else COMPLETIONS


def body_of(request: Generate, model: str) -> dict[str, object]:
    """Return a request's body; its answer is always a stream.

    Args:
        request: What is asked for.
        model: What the engine calls the version, or the base.
    """
    body: dict[str, object] = {
        "model": model,
        "request_id": request.request_id,
        "stream": True,
        "stream_options": _STREAM_OPTIONS,
        "n": request.n,
        **_sampling(request.sampling),
    }
    if request.cache_salt:
        body["cache_salt"] = request.cache_salt
    num_top = request.sampling.logprobs
    if request.messages is not None:
        body["messages"] = [{"role": message.role, "content": message.content} for message in request.messages]
        if num_top is not None:
            body |= {"logprobs": True, "top_logprobs": num_top}
    else:
        body["prompt"] = list(request.prompts or ())
        if num_top is not None:
            body["logprobs"] = num_top
    return body


def _sampling(sampling: Sampling) -> dict[str, object]:
    body: dict[str, object] = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "repetition_penalty": sampling.repetition_penalty,
        # Said even where there is no bound: left out, a completion ends after 16 tokens.
        "max_tokens": sampling.max_tokens,
    }
    if sampling.top_k:
        body["top_k"] = sampling.top_k
    if sampling.min_p:
        body["min_p"] = sampling.min_p
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if sampling.ignore_eos:
        body["ignore_eos"] = True
    return body
