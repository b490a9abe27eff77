"""Compares the tokenizer files that come with an adapter with the pinned base's, in what matters for ids.

The base's tokenizer and template serve every adapter; an adapter trained with others would be asked in words that it
never saw. An id that the base does not have is refused always; other differences yield to the override
``ignore_shipped_tokenizer``.
"""

import hashlib
from collections.abc import Iterator, Mapping

from hotset.core.base import BaseVersion
from hotset.core.errors import VersionRefusedError
from hotset.core.ids import Digest
from hotset.registry.refusals import Refusal, refusal, shown
from hotset.registry.tokenizer_facts import digest_of, template_digest, tokenizer_digest
from hotset.registry.tokenizer_files import FLAG_SETTINGS, TokenizerFiles, id_map, parse_large

_ADVICE = (
    "Serve the adapter on the base it was trained with, or push it with the override ignore_shipped_tokenizer "
    "(--ignore-shipped-tokenizer)."
)


def check_vocabulary(shipped: TokenizerFiles, base: BaseVersion) -> None:
    """Check that no shipped file brings a token id that the base does not have.

    Raises:
        VersionRefusedError: ``extra_vocabulary``.
    """
    limit = base.tokenizer.vocab_size or base.shape.vocab_size
    for file, tokens in _shipped_ids(shipped):
        for text, token_id in tokens.items():
            if token_id >= limit:
                message = (
                    f"{file} gives {shown(text)} the id {token_id}, and the base has ids below {limit}. Adapters "
                    "that extend the vocabulary are not served. Train with the base's own tokens."
                )
                raise refusal(Refusal.EXTRA_VOCABULARY, message, file)


def _shipped_ids(shipped: TokenizerFiles) -> Iterator[tuple[str, Mapping[str, int]]]:
    yield from shipped.added.items()
    yield "tokenizer.json", shipped.vocabulary


def tokenizer_difference(
    shipped: TokenizerFiles, files: Mapping[str, memoryview], base: BaseVersion
) -> VersionRefusedError | None:
    """Return the first difference that changes ids or prompts, as the refusal it would be; None if all agree.

    Args:
        shipped: The adapter's tokenizer files, parsed.
        files: The adapter's files.
        base: The pinned base.

    Raises:
        VersionRefusedError: ``json_invalid``: vocab.json can't be read at all.
    """
    return (
        _model_difference(shipped, files, base)
        or _added_difference(shipped, base)
        or _settings_difference(shipped, base)
        or _template_difference(shipped, base)
    )


def _model_difference(
    shipped: TokenizerFiles, files: Mapping[str, memoryview], base: BaseVersion
) -> VersionRefusedError | None:
    facts = base.tokenizer
    digest = tokenizer_digest(shipped)
    if digest is not None:
        # It alone decides where it is there; the files of older formats beside it are not read by anybody.
        return _unless_equal("tokenizer.json", digest, facts.tokenizer)
    pinned: dict[str, tuple[Digest, Digest | None]] = {}
    if "tokenizer.model" in files:
        digest = Digest("sha256:" + hashlib.sha256(files["tokenizer.model"]).hexdigest())
        pinned["tokenizer.model"] = (digest, base.files.get("tokenizer.model"))
    if "vocab.json" in files:
        vocabulary = id_map(parse_large(files, "vocab.json"), "vocab.json")
        pinned["vocab.json"] = (digest_of(vocabulary), facts.vocabulary)
    if "merges.txt" in files:
        pinned["merges.txt"] = (digest_of(_merges(files["merges.txt"])), facts.merges)
    differences = (_unless_equal(file, *digests) for file, digests in pinned.items())
    return next((difference for difference in differences if difference is not None), None)


def _merges(content: memoryview) -> list[list[str]]:
    lines = str(content, "utf-8", "replace").splitlines()
    return [line.split(" ") for line in lines if line and not line.startswith("#version")]


def _unless_equal(file: str, digest: Digest, pinned: Digest | None) -> VersionRefusedError | None:
    if digest == pinned:
        return None
    why = "gives other ids than the base's" if pinned else "can't be compared: the base has none"
    return refusal(Refusal.TOKENIZER_DIFFERS, f"The shipped {file} {why}. {_ADVICE}", file)


def _added_difference(shipped: TokenizerFiles, base: BaseVersion) -> VersionRefusedError | None:
    if base.tokenizer.tokenizer is None:
        return None
    for file, tokens in shipped.added.items():
        for text, token_id in tokens.items():
            if base.tokenizer.added_tokens.get(text) != token_id:
                message = f"{file} gives {shown(text)} the id {token_id}; the base does not. {_ADVICE}"
                return refusal(Refusal.TOKENIZER_DIFFERS, message, file)
    return None


def _settings_difference(shipped: TokenizerFiles, base: BaseVersion) -> VersionRefusedError | None:
    for name, value in shipped.settings.items():
        pinned = base.tokenizer.settings.get(name, False if name in FLAG_SETTINGS else None)
        if pinned != value:
            message = f"The shipped tokenizer sets {name} to {shown(value)}, the base's {shown(pinned)}. {_ADVICE}"
            return refusal(Refusal.TOKENIZER_DIFFERS, message, name)
    return None


def _template_difference(shipped: TokenizerFiles, base: BaseVersion) -> VersionRefusedError | None:
    digest = template_digest(shipped)
    if digest is None or digest == base.tokenizer.chat_template:
        return None
    message = f"The shipped chat template renders other prompts than the base's. {_ADVICE}"
    return refusal(Refusal.CHAT_TEMPLATE_DIFFERS, message, "chat_template")
