"""Parses the files that make a tokenizer, each once, into plain values; nothing here builds or runs a tokenizer.

Source: tokenizer.json of the tokenizers library; transformers for the files beside it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from hotset.core.errors import VersionRefusedError
from hotset.registry.json_strict import parse_object
from hotset.registry.refusals import Refusal, refusal

TOKENIZER_BYTES_MAX = 32 << 20
#: Settings of tokenizer_config.json that change ids, or the prompt that a template renders.
FLAG_SETTINGS = ("add_bos_token", "add_eos_token", "add_prefix_space")
TOKEN_SETTINGS = ("bos_token", "eos_token")

_TOKENIZER = "tokenizer.json"
_SETTINGS = "tokenizer_config.json"
_SPECIAL = "special_tokens_map.json"
_ADDED = "added_tokens.json"
_TEMPLATE = "chat_template.jinja"

Contents = Mapping[str, bytes | memoryview]


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """What the tokenizer files of one folder say; None or empty where a file is not there."""

    #: tokenizer.json, its model known to have a vocabulary of ids.
    tokenizer: Mapping[str, Any] | None
    #: Token to id of the model alone.
    vocabulary: Mapping[str, int]
    #: The model's merges as pairs, however they are written.
    merges: list[list[str]]
    #: Text to id of added tokens, by the file that names them.
    added: Mapping[str, Mapping[str, int]]
    #: Settings that change ids; what a file does not state is not in it.
    settings: Mapping[str, str | bool]
    #: The default chat template.
    template: str | None

    @property
    def added_tokens(self) -> dict[str, int]:
        """Text to id of all added tokens."""
        return {text: token_id for tokens in self.added.values() for text, token_id in tokens.items()}


def parse_tokenizer_files(contents: Contents) -> TokenizerFiles:
    """Return what the tokenizer files among `contents` say.

    Raises:
        VersionRefusedError: ``json_invalid`` or ``file_too_large``.
    """
    tokenizer = parse_large(contents, _TOKENIZER)
    settings, special = parse_large(contents, _SETTINGS), parse_large(contents, _SPECIAL)
    vocabulary: dict[str, int] = {}
    added: dict[str, dict[str, int]] = {
        _ADDED: id_map(parse_large(contents, _ADDED), _ADDED),
        _SETTINGS: _decoder_entries(settings),
    }
    merges: list[list[str]] = []
    if _TOKENIZER in contents:
        vocabulary = id_map(as_object(as_object(tokenizer.get("model")).get("vocab")), _TOKENIZER)
        added[_TOKENIZER] = _tokenizer_entries(tokenizer)
        merges = _merges(as_list(as_object(tokenizer.get("model")).get("merges")))
        if not vocabulary:
            raise invalid(_TOKENIZER, "its model has no vocabulary")
    return TokenizerFiles(
        tokenizer=tokenizer if _TOKENIZER in contents else None,
        vocabulary=vocabulary,
        merges=merges,
        added=added,
        settings={**_settings(special), **_settings(settings)},
        template=_template(contents, settings),
    )


def parse_large(contents: Contents, name: str) -> dict[str, Any]:
    """Return a file as an object, up to the size of a large tokenizer; empty where it is not there."""
    return parse_object(contents[name], name, bytes_max=TOKENIZER_BYTES_MAX) if name in contents else {}


def id_map(value: Mapping[str, Any], file: str) -> dict[str, int]:
    """Return a map of tokens to ids.

    Raises:
        VersionRefusedError: ``json_invalid``: a value is no id.
    """
    if not _are_ids(value.values()):
        raise invalid(file, "it gives a token something other than an id")
    return dict(value)


def as_object(value: object) -> dict[str, Any]:
    """Return `value` if it is an object, else an empty one."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return `value` if it is a list, else an empty one."""
    return cast(list[Any], value) if isinstance(value, list) else []


def invalid(file: str, why: str) -> VersionRefusedError:
    """Return the refusal of a tokenizer file that can't be read as one."""
    message = f"{file} can't be compared: {why}. Leave it out or save it again."
    return refusal(Refusal.JSON_INVALID, message, file)


def _are_ids(values: Iterable[Any]) -> bool:
    return all(type(value) is int and 0 <= value < 1 << 31 for value in values)


def _tokenizer_entries(tokenizer: Mapping[str, Any]) -> dict[str, int]:
    entries: dict[str, int] = {}
    for token in as_list(tokenizer.get("added_tokens")):
        text, token_id = as_object(token).get("content"), as_object(token).get("id")
        if not isinstance(text, str) or not _are_ids([token_id]):
            raise invalid(_TOKENIZER, "an added token has no content or no id")
        entries[text] = cast(int, token_id)
    return entries


def _decoder_entries(settings: Mapping[str, Any]) -> dict[str, int]:
    entries: dict[str, int] = {}
    for key, token in as_object(settings.get("added_tokens_decoder")).items():
        text = _token_text(token)
        if text is None or not (key.isascii() and key.isdigit() and len(key) < 10):
            raise invalid(_SETTINGS, "added_tokens_decoder has an entry without id or content")
        entries[text] = int(key)
    return entries


def _merges(merges: list[Any]) -> list[list[str]]:
    pairs = [merge.split(" ") if isinstance(merge, str) else as_list(merge) for merge in merges]
    if not all(len(pair) == 2 and all(isinstance(part, str) for part in pair) for pair in pairs):
        raise invalid(_TOKENIZER, "a merge is no pair of tokens")
    return cast(list[list[str]], pairs)


def _settings(config: Mapping[str, Any]) -> dict[str, str | bool]:
    settings: dict[str, str | bool] = {
        flag: config[flag] for flag in FLAG_SETTINGS if isinstance(config.get(flag), bool)
    }
    for name in TOKEN_SETTINGS:
        text = _token_text(config.get(name))
        if text is not None:
            settings[name] = text
    return settings


def _token_text(value: object) -> str | None:
    """Return the text of a special token, written as a string or as an object with ``content``."""
    text = value if isinstance(value, str) else as_object(value).get("content")
    return text if isinstance(text, str) else None


def _template(contents: Contents, settings: Mapping[str, Any]) -> str | None:
    """Return the default template; the file of its own goes before the setting, as in transformers."""
    if _TEMPLATE in contents:
        try:
            return str(memoryview(contents[_TEMPLATE]), "utf-8")
        except UnicodeDecodeError as error:
            raise invalid(_TEMPLATE, "it is not UTF-8") from error
    template: Any = settings.get("chat_template")
    if isinstance(template, str):
        return template
    named = [as_object(item) for item in as_list(template)]
    text = next((item.get("template") for item in named if item.get("name") == "default"), None)
    return text if isinstance(text, str) else None
