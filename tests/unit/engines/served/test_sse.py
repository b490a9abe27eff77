"""Server-sent events taken apart, however their bytes are cut."""

import pytest

from hotset.core.errors import EngineFailedError
from hotset.engines.served.sse import EVENT_BYTES_MAX, SseSplitter

STREAM = b': hello\r\n\r\ndata: {"a": 1}\r\n\r\ndata:{"b": 2}\n\nevent: x\ndata: [DONE]\n\n'


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(STREAM)])
def test_events_are_the_same_however_they_are_cut(size: int) -> None:
    splitter = SseSplitter()
    found = [line for at in range(0, len(STREAM), size) for line in splitter.feed(STREAM[at : at + size])]
    assert found == [b'{"a": 1}', b'{"b": 2}', b"[DONE]"]


def test_an_event_without_an_end_is_not_kept_for_ever() -> None:
    splitter = SseSplitter()
    splitter.feed(b"data: " + b"x" * (EVENT_BYTES_MAX - 6))
    with pytest.raises(EngineFailedError):
        splitter.feed(b"x")
