"""What of a tokenizer decides ids and rendered prompts, in a canonical form that survives being saved again.

Left out on purpose: truncation, padding, the decoder and offsets, which change no id.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from hotset.core.base import TokenizerFacts
from hotset.core.ids import Digest
from hotset.registry.tokenizer_files import Contents, TokenizerFiles, as_list, as_object, parse_tokenizer_files

_ADDED_TOKEN_FLAGS = ("lstrip", "rstrip", "single_word", "normalized")
_PARTS = ("normalizer", "pre_tokenizer", "post_processor")


def read_tokenizer_facts(contents: Contents) -> TokenizerFacts:
    """Return the facts of the tokenizer files among `contents`; digests are None where there are none.

    Raises:
        VersionRefusedError: ``json_invalid`` for a file that is no tokenizer file.
    """
    files = parse_tokenizer_files(contents)
    has_tokenizer = files.tokenizer is not None
    top = max([-1, *files.vocabulary.values(), *files.added_tokens.values()])
    return TokenizerFacts(
        tokenizer=tokenizer_digest(files),
        chat_template=template_digest(files),
        vocab_size=top + 1,
        vocabulary=digest_of(files.vocabulary) if has_tokenizer else None,
        merges=digest_of(files.merges) if has_tokenizer else None,
        added_tokens=files.added_tokens,
        settings=dict(files.settings),
    )


def digest_of(value: object) -> Digest:
    """Return the digest of a JSON value, whatever the order of its keys."""
    return Digest("sha256:" + hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest())


def tokenizer_digest(files: TokenizerFiles) -> Digest | None:
    """Return the digest of what decides ids in tokenizer.json; None where it is not there."""
    tokenizer = files.tokenizer
    if tokenizer is None:
        return None
    model = as_object(tokenizer.get("model"))
    tokens = [as_object(token) for token in as_list(tokenizer.get("added_tokens"))]
    added = [
        [token["id"], token["content"], *(bool(token.get(flag)) for flag in _ADDED_TOKEN_FLAGS)] for token in tokens
    ]
    canonical: dict[str, Any] = {
        "model": {key: value for key, value in model.items() if key not in ("vocab", "merges") and value},
        "vocabulary": files.vocabulary,
        "merges": files.merges,
        "added_tokens": sorted(added, key=lambda token: (token[0], token[1])),
        **{part: _canonical(tokenizer.get(part)) for part in _PARTS},
    }
    return digest_of(canonical)


def template_digest(files: TokenizerFiles) -> Digest | None:
    """Return the digest of the default chat template; None where there is none.

    Line ends and one final line end do not count: Jinja reads them alike.
    """
    if files.template is None:
        return None
    return digest_of(files.template.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n"))


def _canonical(value: object) -> object:
    """Return a component without null entries, offsets, and defaults that older files leave out."""
    if isinstance(value, list):
        return [_canonical(item) for item in cast(list[object], value)]
    if not isinstance(value, dict):
        return value
    entries = cast(Mapping[str, object], value)
    kept = {key: _canonical(item) for key, item in entries.items() if item is not None and key != "trim_offsets"}
    if kept.get("type") == "ByteLevel":
        kept.setdefault("use_regex", True)
    return kept
