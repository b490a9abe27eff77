"""What of a tokenizer decides ids and rendered prompts, in a canonical form that survives being saved again.

Left out on purpose: truncation, padding, the decoder and offsets, which change no id.

Source: tokenizer.json of the tokenizers library; transformers for tokenizer_config.json and chat_template.jinja.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from hotset.core.base import TokenizerFacts
from hotset.core.errors import VersionRefusedError
from hotset.core.ids import Digest
from hotset.registry.json_strict import parse_object
from hotset.registry.refusals import Refusal, refusal, shown

TOKENIZER_BYTES_MAX = 64 << 20
#: Settings of tokenizer_config.json that change ids, or the prompt that a template renders.
FLAG_SETTINGS = ("add_bos_token", "add_eos_token", "add_prefix_space")
TOKEN_SETTINGS = ("bos_token", "eos_token")

_ADDED_TOKEN_FLAGS = ("lstrip", "rstrip", "single_word", "normalized")


def read_tokenizer_facts(contents: Mapping[str, bytes | memoryview]) -> TokenizerFacts:
    """Return the facts of the tokenizer files among `contents`, by file name; all None where there are none.

    Raises:
        VersionRefusedError: ``json_invalid`` for a file that is no tokenizer file.
    """
    tokenizer = parse_tokenizer(contents["tokenizer.json"]) if "tokenizer.json" in contents else None
    settings = parse_settings(contents)
    if tokenizer is None:
        return TokenizerFacts(chat_template=template_digest(contents), settings=settings)
    vocabulary = vocabulary_of(tokenizer)
    added = {**added_tokens_of(tokenizer), **added_tokens_file(contents), **decoder_entries(contents)}
    top = max([-1, *vocabulary.values(), *added.values()])
    return TokenizerFacts(
        tokenizer=tokenizer_digest(tokenizer),
        chat_template=template_digest(contents),
        vocab_size=top + 1,
        vocabulary=digest_of(vocabulary),
        merges=digest_of(merges_of(tokenizer)),
        added_tokens=added,
        settings=settings,
    )


def digest_of(value: object) -> Digest:
    """Return the digest of a JSON value, whatever the order of its keys."""
    return Digest("sha256:" + hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest())


def parse_tokenizer(content: bytes | memoryview) -> dict[str, Any]:
    """Return tokenizer.json as an object whose model has a vocabulary of ids.

    Raises:
        VersionRefusedError: ``json_invalid``.
    """
    tokenizer = parse_object(content, "tokenizer.json", bytes_max=TOKENIZER_BYTES_MAX)
    vocabulary: Any = _object(tokenizer.get("model")).get("vocab")
    if not isinstance(vocabulary, dict) or not _are_ids(cast(dict[str, Any], vocabulary).values()):
        raise _invalid("tokenizer.json", "its model has no vocabulary of ids")
    for token in _list(tokenizer.get("added_tokens")):
        entry = _object(token)
        if not isinstance(entry.get("content"), str) or not _are_ids([entry.get("id")]):
            raise _invalid("tokenizer.json", "an added token has no content or no id")
    return tokenizer


def tokenizer_digest(tokenizer: Mapping[str, Any]) -> Digest:
    """Return the digest of what decides ids in a parsed tokenizer.json."""
    model = _object(tokenizer.get("model"))
    rest = {key: value for key, value in model.items() if key not in ("vocab", "merges") and value}
    tokens = [_object(token) for token in _list(tokenizer.get("added_tokens"))]
    added = [
        [token["content"], token["id"], *(bool(token.get(flag)) for flag in _ADDED_TOKEN_FLAGS)] for token in tokens
    ]
    canonical = {
        "model": rest,
        "vocabulary": vocabulary_of(tokenizer),
        "merges": merges_of(tokenizer),
        "added_tokens": sorted(added, key=lambda token: token[1]),
        **{part: _canonical(tokenizer.get(part)) for part in ("normalizer", "pre_tokenizer", "post_processor")},
    }
    return digest_of(canonical)


def vocabulary_of(tokenizer: Mapping[str, Any]) -> dict[str, int]:
    """Return token to id of the model, without added tokens."""
    return cast(dict[str, int], _object(tokenizer.get("model"))["vocab"])


def merges_of(tokenizer: Mapping[str, Any]) -> list[list[str]]:
    """Return the merges as pairs, however they are written."""
    merges = _list(_object(tokenizer.get("model")).get("merges"))
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
    if not all(isinstance(pair, list) and len(cast(list[Any], pair)) == 2 for pair in pairs):
        raise _invalid("tokenizer.json", "a merge is no pair of tokens")
    return cast(list[list[str]], pairs)


def added_tokens_of(tokenizer: Mapping[str, Any]) -> dict[str, int]:
    """Return text to id of the added tokens."""
    return {_object(token)["content"]: _object(token)["id"] for token in _list(tokenizer.get("added_tokens"))}


def added_tokens_file(contents: Mapping[str, bytes | memoryview]) -> dict[str, int]:
    """Return text to id from added_tokens.json; empty where there is none.

    Raises:
        VersionRefusedError: ``json_invalid``.
    """
    if "added_tokens.json" not in contents:
        return {}
    tokens = parse_object(contents["added_tokens.json"], "added_tokens.json")
    if not _are_ids(tokens.values()):
        raise _invalid("added_tokens.json", "it holds something other than ids")
    return tokens


def decoder_entries(contents: Mapping[str, bytes | memoryview]) -> dict[str, int]:
    """Return text to id from ``added_tokens_decoder`` of tokenizer_config.json; empty where there is none.

    Raises:
        VersionRefusedError: ``json_invalid``.
    """
    entries: dict[str, int] = {}
    for key, token in _object(_settings_file(contents).get("added_tokens_decoder")).items():
        text = token_text(token)
        if text is None or not (key.isascii() and key.isdigit() and len(key) < 10):
            raise _invalid("tokenizer_config.json", "added_tokens_decoder has an entry without id or content")
        entries[text] = int(key)
    return entries


def _settings_file(contents: Mapping[str, bytes | memoryview]) -> dict[str, Any]:
    name = "tokenizer_config.json"
    return parse_object(contents[name], name, bytes_max=TOKENIZER_BYTES_MAX) if name in contents else {}


def parse_settings(contents: Mapping[str, bytes | memoryview]) -> dict[str, str | bool]:
    """Return the settings that change ids, from tokenizer_config.json and special_tokens_map.json.

    What is absent or null is unstated, and not in the result.
    """
    settings: dict[str, str | bool] = {}
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        if file not in contents:
            continue
        config = parse_object(contents[file], file, bytes_max=TOKENIZER_BYTES_MAX)
        settings.update({flag: config[flag] for flag in FLAG_SETTINGS if isinstance(config.get(flag), bool)})
        for name in TOKEN_SETTINGS:
            text = token_text(config.get(name))
            if text is not None:
                settings[name] = text
    return settings


def token_text(value: object) -> str | None:
    """Return the text of a special token, written as a string or as an object with ``content``."""
    if isinstance(value, dict):
        value = cast(dict[str, object], value).get("content")
    return value if isinstance(value, str) else None


def template_digest(contents: Mapping[str, bytes | memoryview]) -> Digest | None:
    """Return the digest of the default chat template; None where there is none.

    chat_template.jinja goes before tokenizer_config.json, as in transformers. Line ends and one final line end do
    not count: Jinja reads them alike.

    Raises:
        VersionRefusedError: ``json_invalid``.
    """
    text = _template_text(contents)
    if text is None:
        return None
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return digest_of(lines.removesuffix("\n"))


def _template_text(contents: Mapping[str, bytes | memoryview]) -> str | None:
    if "chat_template.jinja" in contents:
        try:
            return str(memoryview(contents["chat_template.jinja"]), "utf-8")
        except UnicodeDecodeError as error:
            raise _invalid("chat_template.jinja", "it is not UTF-8") from error
    template = _settings_file(contents).get("chat_template")
    if isinstance(template, list):
        named = {_object(item).get("name"): _object(item).get("template") for item in cast(list[object], template)}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _canonical(value: object) -> object:
    """Return a component without null entries, offsets, and defaults that older files leave out."""
    if isinstance(value, list):
        return [_canonical(item) for item in cast(list[object], value)]
    if not isinstance(value, dict):
        return value
    entries = cast(dict[str, object], value)
    kept = {key: _canonical(item) for key, item in entries.items() if item is not None and key != "trim_offsets"}
    if kept.get("type") == "ByteLevel":
        kept.setdefault("use_regex", True)
    return kept


def _are_ids(values: Any) -> bool:
    return all(type(value) is int and 0 <= value < 1 << 31 for value in values)


def _object(value: object) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []


def _invalid(file: str, why: str) -> VersionRefusedError:
    message = f"{file} can't be compared: {shown(why)}. Leave it out or save it again."
    return refusal(Refusal.JSON_INVALID, message, file)
