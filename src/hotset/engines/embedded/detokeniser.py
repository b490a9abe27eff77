"""From token ids to text, without ever showing half a character.

A token's bytes are worked out once from the tokenizer's own vocabulary and decoder (byte-level BPE, or sentencepiece
pieces with byte fallback); a stream then only joins bytes and decodes what is complete. Special tokens are silent.
Bytes that can never become a character are shown as U+FFFD; the unfinished tail at the end is dropped.
"""

import codecs
import json
import re
from typing import Any

from tokenizers import Tokenizer

from hotset.core.errors import ConfigError

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class TokenTable:
    """The bytes of every token id."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        description = json.loads(tokenizer.to_str())
        is_byte_level = _is_byte_level(description.get("decoder"))
        added = {entry["id"]: entry for entry in description.get("added_tokens", [])}
        size = tokenizer.get_vocab_size(with_added_tokens=True)
        highest = max([size - 1, *added])
        self._bytes: list[bytes] = []
        self._silent = frozenset(id_ for id_, entry in added.items() if entry["special"])
        byte_of = _byte_of_symbol()
        for token_id in range(highest + 1):
            piece = tokenizer.id_to_token(token_id)
            if piece is None:
                self._bytes.append(b"")
            elif token_id in added:
                self._bytes.append(piece.encode())
            elif is_byte_level:
                self._bytes.append(_byte_level(piece, byte_of))
            else:
                self._bytes.append(_sentencepiece(piece))

    @property
    def longest(self) -> int:
        """Bytes of the longest token."""
        return max(len(content) for content in self._bytes)

    def content(self, token_id: int) -> bytes:
        """Return a token's bytes, a special one's too; empty for an id that the tokenizer does not know."""
        return self._bytes[token_id] if token_id < len(self._bytes) else b""

    def shown(self, token_id: int) -> bytes:
        """Return what a token adds to the text: nothing for a special one."""
        return b"" if token_id in self._silent else self.content(token_id)


class TextStream:
    """The growing text of one choice."""

    def __init__(self, table: TokenTable) -> None:
        self._table = table
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: int) -> str:
        """Return the characters that this token completed."""
        return self._decoder.decode(self._table.shown(token_id))


def _is_byte_level(decoder: dict[str, Any] | None) -> bool:
    kinds = _decoder_kinds(decoder)
    if "ByteLevel" in kinds:
        return True
    if "ByteFallback" in kinds or "Metaspace" in kinds:
        return False
    raise ConfigError(f"the tokenizer's decoder {sorted(kinds)} is not served; byte-level and sentencepiece are.")


def _decoder_kinds(decoder: dict[str, Any] | None) -> set[str]:
    if decoder is None:
        return set()
    kinds = {str(decoder["type"])}
    for part in decoder.get("decoders", []):
        kinds |= _decoder_kinds(part)
    return kinds


def _byte_of_symbol() -> dict[str, int]:
    """Return the byte behind each printable symbol of byte-level BPE (GPT-2): printable Latin-1 stands for itself."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    symbols = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in printable]
    return symbols | {chr(256 + position): byte for position, byte in enumerate(others)}


def _byte_level(piece: str, byte_of: dict[str, int]) -> bytes:
    if any(symbol not in byte_of for symbol in piece):
        return piece.encode()
    return bytes(byte_of[symbol] for symbol in piece)


def _sentencepiece(piece: str) -> bytes:
    match = _BYTE_PIECE.fullmatch(piece)
    return bytes([int(match[1], 16)]) if match else piece.replace("▁", " ").encode()
