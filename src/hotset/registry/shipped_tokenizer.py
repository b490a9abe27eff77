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
from hotset.registry.artifact import TOKENIZER_FILES
from hotset.registry.json_strict import parse_object
from hotset.registry.refusals import Refusal, refusal, shown
from hotset.registry.tokenizer_facts import (
    FLAG_SETTINGS,
    TOKENIZER_BYTES_MAX,
    added_tokens_file,
    added_tokens_of,
    decoder_entries,
    digest_of,
    parse_settings,
    parse_tokenizer,
    template_digest,
    tokenizer_digest,
    vocabulary_of,
)

_ADVICE = "Serve the adapter on the base it was trained with, or push it with the override ignore_shipped_tokenizer."


def check_vocabulary(files: Mapping[str, memoryview], base: BaseVersion) -> None:
    """Check that no shipped file brings a token id that the base does not have.

    Raises:
        VersionRefusedError: ``extra_vocabulary``, or ``json_invalid``.
    """
    limit = base.tokenizer.vocab_size or base.shape.vocab_size
    for file, text, token_id in _shipped_ids(files):
        if token_id >= limit:
            message = (
                f"{file} gives {shown(text)} the id {token_id}, and the base has ids below {limit}. Adapters that "
                "extend the vocabulary are not served."
            )
            raise refusal(Refusal.EXTRA_VOCABULARY, message, file)


def _shipped_ids(files: Mapping[str, memoryview]) -> Iterator[tuple[str, str, int]]:
    """Yield (file, token, id) of every token that a shipped file names with its id."""
    for text, token_id in added_tokens_file(files).items():
        yield "added_tokens.json", text, token_id
    for text, token_id in decoder_entries(files).items():
        yield "tokenizer_config.json", text, token_id
    if "tokenizer.json" in files:
        tokenizer = parse_tokenizer(files["tokenizer.json"])
        for text, token_id in {**vocabulary_of(tokenizer), **added_tokens_of(tokenizer)}.items():
            yield "tokenizer.json", text, token_id


def tokenizer_difference(files: Mapping[str, memoryview], base: BaseVersion) -> VersionRefusedError | None:
    """Return the first difference that changes ids or prompts, as the refusal it would be; None if all agree.

    Raises:
        VersionRefusedError: ``json_invalid``: a file can't be read at all.
    """
    shipped = {name: files[name] for name in TOKENIZER_FILES if name in files}
    return (
        _model_difference(shipped, base)
        or _added_difference(shipped, base)
        or _settings_difference(shipped, base)
        or _template_difference(shipped, base)
    )


def _model_difference(shipped: Mapping[str, memoryview], base: BaseVersion) -> VersionRefusedError | None:
    facts = base.tokenizer
    if "tokenizer.json" in shipped:
        tokenizer = parse_tokenizer(shipped["tokenizer.json"])
        return _unless_equal("tokenizer.json", tokenizer_digest(tokenizer), facts.tokenizer)
    if "tokenizer.model" in shipped:
        digest = _bytes_digest(shipped["tokenizer.model"])
        return _unless_equal("tokenizer.model", digest, base.files.get("tokenizer.model"))
    if "vocab.json" in shipped:
        vocabulary = parse_object(shipped["vocab.json"], "vocab.json", bytes_max=TOKENIZER_BYTES_MAX)
        difference = _unless_equal("vocab.json", digest_of(vocabulary), facts.vocabulary)
        if difference is not None:
            return difference
    if "merges.txt" in shipped:
        return _unless_equal("merges.txt", digest_of(_merges_text(shipped["merges.txt"])), facts.merges)
    return None


def _merges_text(content: memoryview) -> list[list[str]]:
    lines = str(content, "utf-8", "replace").split("\n")
    return [line.split(" ") for line in lines if line and not line.startswith("#version")]


def _bytes_digest(content: memoryview) -> Digest:
    return Digest("sha256:" + hashlib.sha256(content).hexdigest())


def _unless_equal(file: str, digest: Digest, pinned: Digest | None) -> VersionRefusedError | None:
    if digest == pinned:
        return None
    why = "gives other ids than the base's" if pinned else "can't be compared: the base has none"
    return refusal(Refusal.TOKENIZER_DIFFERS, f"The shipped {file} {why}. {_ADVICE}", file)


def _added_difference(shipped: Mapping[str, memoryview], base: BaseVersion) -> VersionRefusedError | None:
    known = base.tokenizer.added_tokens
    if base.tokenizer.tokenizer is None:
        return None
    for file, entries in (
        ("added_tokens.json", added_tokens_file(shipped)),
        ("tokenizer_config.json", decoder_entries(shipped)),
    ):
        for text, token_id in entries.items():
            if known.get(text) != token_id:
                message = f"{file} gives {shown(text)} the id {token_id}; the base does not. {_ADVICE}"
                return refusal(Refusal.TOKENIZER_DIFFERS, message, file)
    return None


def _settings_difference(shipped: Mapping[str, memoryview], base: BaseVersion) -> VersionRefusedError | None:
    if not shipped.keys() & {"tokenizer_config.json", "special_tokens_map.json"}:
        return None
    settings, pinned = parse_settings(shipped), base.tokenizer.settings
    for name, value in settings.items():
        expected = pinned.get(name, False if name in FLAG_SETTINGS else None)
        if expected != value:
            message = f"The shipped tokenizer sets {name} to {shown(value)}, the base's {shown(expected)}. {_ADVICE}"
            return refusal(Refusal.TOKENIZER_DIFFERS, message, name)
    return None


def _template_difference(shipped: Mapping[str, memoryview], base: BaseVersion) -> VersionRefusedError | None:
    digest = template_digest(shipped)
    if digest is None or digest == base.tokenizer.chat_template:
        return None
    message = f"The shipped chat template renders other prompts than the base's. {_ADVICE}"
    return refusal(Refusal.CHAT_TEMPLATE_DIFFERS, message, "chat_template")
