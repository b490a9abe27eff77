"""How long a prompt is, before an engine has counted: by its characters."""

from hotset.core.messages import Generate

#: Characters of a token, roughly, in most languages and tokenizers.
_TOKEN_CHARS = 4


def estimated_tokens(generate: Generate) -> int:
    """Return roughly how many prompt tokens a request has, at least 1."""
    num_tokens = sum(len(message.content) // _TOKEN_CHARS for message in generate.messages or ())
    for prompt in generate.prompts or ():
        num_tokens += len(prompt) // _TOKEN_CHARS if isinstance(prompt, str) else len(prompt)
    return max(1, num_tokens)
