"""Whatever a model says, the stream parses back into it, at every cut and by every kind of line reader."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from openai._streaming import SSEDecoder

from hotset.core.messages import Delta
from hotset.gateway.endpoints import CHAT, COMPLETION
from hotset.gateway.sse import DONE, Chunks

LINE_ENDS = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e", "\r\n", "\n\n", "\r"]
OTHERS = ["data: [DONE]", "\n\ndata: x\n\n", ": x", "😀", "é", '"', "\\", "\x00", "\x7f"]
AWKWARD = st.sampled_from(LINE_ENDS + OTHERS)
PLAIN = st.text(st.characters(codec="utf-8"), max_size=20)
TEXTS = st.lists(st.one_of(AWKWARD, PLAIN, st.lists(AWKWARD).map("".join)), min_size=1, max_size=8)


def streamed(texts: list[str], *, is_chat: bool) -> bytes:
    chunks = Chunks(
        CHAT if is_chat else COMPLETION, answer_id="x", created=1, model="m", num_choices=1, include_usage=True
    )
    stream = chunks.opening()
    for text in texts:
        chunks.add(Delta("r", 0, text, 1))
        stream += chunks.take()
    return stream + chunks.usage(1, len(texts)) + DONE


def said(event: str, *, is_chat: bool) -> str:
    choices = json.loads(event)["choices"]
    if not choices:
        return ""
    return choices[0]["delta"].get("content", "") if is_chat else choices[0]["text"]


@given(texts=TEXTS, is_chat=st.booleans(), step=st.integers(1, 40))
@settings(max_examples=150, deadline=None)
def test_the_official_decoder_reads_what_was_said(texts: list[str], step: int, *, is_chat: bool) -> None:
    stream = streamed(texts, is_chat=is_chat)
    pieces = (stream[start : start + step] for start in range(0, len(stream), step))
    events = [event.data for event in SSEDecoder().iter_bytes(pieces)]
    assert events.pop() == "[DONE]"
    assert "".join(said(event, is_chat=is_chat) for event in events) == "".join(texts)


@given(texts=TEXTS, is_chat=st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_reader_that_splits_at_every_unicode_line_end_reads_it_too(texts: list[str], *, is_chat: bool) -> None:
    lines = [line for line in streamed(texts, is_chat=is_chat).decode().splitlines() if line]
    assert all(line.startswith("data: ") for line in lines)
    assert lines.pop() == "data: [DONE]"
    assert "".join(said(line[6:], is_chat=is_chat) for line in lines) == "".join(texts)
