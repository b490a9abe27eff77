"""What an adapter folder holds, as bytes: the input of `verify`.

`storage.folder.open_artifact` makes one from a folder. Which file names count is decided here; nothing here
opens one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
SHARD_INDEX_FILE = "adapter_model.safetensors.index.json"
PICKLED_WEIGHTS_FILE = "adapter_model.bin"

#: Files that say how text becomes ids; compared with the base's and stored with the version.
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "added_tokens.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
)

_SHARD = re.compile(r"adapter_model-[0-9]{5}-of-[0-9]{5}\.safetensors", re.ASCII)
_COUNTED = frozenset((CONFIG_FILE, WEIGHTS_FILE, SHARD_INDEX_FILE, *TOKENIZER_FILES))


@dataclass(frozen=True, slots=True)
class Artifact:
    """The bytes of the files that count, by name, and the names of those that are never opened."""

    files: Mapping[str, memoryview]
    ignored: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, files: Mapping[str, bytes], ignored: tuple[str, ...] = ()) -> "Artifact":
        """Return an artifact over bytes in memory."""
        return cls({name: memoryview(content) for name, content in files.items()}, ignored)


def counts(name: str) -> bool:
    """Return whether a file of this name is part of a version; every other file is never opened."""
    return name in _COUNTED or is_shard(name)


def is_shard(name: str) -> bool:
    """Return whether a file of this name is one shard of an adapter's weights."""
    return _SHARD.fullmatch(name) is not None
