"""Text comes out in whole characters, whatever the tokens cut."""

import random

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models

from hotset.core.errors import ConfigError
from hotset.engines.embedded.detokeniser import TextStream, TokenTable
from tests.support.bases import tiny_tokenizer

_TEXT = "Grüße, 世界! 👩‍👩‍👧 the hen\n"


def sentencepiece_tokenizer() -> Tokenizer:
    pieces = [f"<0x{byte:02X}>" for byte in range(256)] + ["▁hello", "▁", "é", "▁wörld"]
    tokenizer = Tokenizer(models.BPE({piece: index for index, piece in enumerate(pieces)}, [], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_tokens([AddedToken("<tool>", special=False, normalized=False)])
    return tokenizer


def test_every_prefix_is_whole_characters() -> None:
    tokenizer = tiny_tokenizer()
    stream = TextStream(TokenTable(tokenizer))
    pieces = [stream.push(token) for token in tokenizer.encode(_TEXT).ids]
    assert "".join(pieces) == _TEXT
    assert "�" not in "".join(pieces)
    assert "" in pieces, "some tokens end inside a character"


@pytest.mark.parametrize("seed", range(20))
def test_random_ids_decode_as_the_tokenizer_does(seed: int) -> None:
    tokenizer = tiny_tokenizer()
    ids = [random.Random(seed).randrange(266) for _ in range(200)]
    table = TokenTable(tokenizer)
    stream = TextStream(table)
    text = "".join(stream.push(token) for token in ids)
    expected = b"".join(table.shown(token) for token in ids).decode(errors="replace")
    assert expected.startswith(text)
    assert expected[len(text) :] in ("", "�"), "only an unfinished character is missing at the end"
    assert text == tokenizer.decode(ids, skip_special_tokens=True)[: len(text)]


def test_special_tokens_are_silent_but_have_content() -> None:
    table = TokenTable(tiny_tokenizer())
    assert table.shown(264) == b""
    assert table.content(264) == b"<|im_end|>"
    assert table.longest == len("<|endoftext|>")


def test_ids_the_tokenizer_does_not_know_are_empty() -> None:
    table = TokenTable(tiny_tokenizer())
    assert table.content(300) == b""
    assert table.shown(300) == b""


def test_sentencepiece_pieces_and_byte_fallback() -> None:
    tokenizer = sentencepiece_tokenizer()
    table = TokenTable(tokenizer)
    stream = TextStream(table)
    ids = [256, 0xC3, 0xA9, 258, 259, 260]
    assert [stream.push(token) for token in ids] == [" hello", "", "é", "é", " wörld", "<tool>"]
    assert tokenizer.decode(ids) == "helloéé wörld<tool>", "which differs only by the stripped first space"


def test_bytes_that_cannot_become_a_character_are_marked() -> None:
    stream = TextStream(TokenTable(sentencepiece_tokenizer()))
    assert stream.push(0xFF) == "�"
    assert stream.push(0xC3) == ""
    assert stream.push(ord("a")) == "�a"


def test_other_decoders_are_refused() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.decoder = decoders.WordPiece()
    with pytest.raises(ConfigError, match="WordPiece"):
        TokenTable(tokenizer)
