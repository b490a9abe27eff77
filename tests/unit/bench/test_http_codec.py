import pytest

from hotset.bench.http_codec import (
    AnswerCheck,
    ProtocolBrokenError,
    ResponseReader,
    decode_chunks,
    encode_request,
    read_events,
    read_json,
)
from hotset.bench.upstream import canned_json, canned_stream, canned_text, request_end

STREAM = b"".join(canned_stream(5))


def body_of(response: bytes) -> bytes:
    answer = ResponseReader().feed(response)
    assert answer is not None
    return answer.body


def test_a_response_with_a_length_is_whole_at_its_last_byte_wherever_it_is_cut() -> None:
    response = canned_json(3)
    for cut in range(1, len(response)):
        reader = ResponseReader()
        assert reader.feed(response[:cut]) is None
        answer = reader.feed(response[cut:])
        assert answer is not None
        assert (answer.status, answer.closes) == (200, False)
        assert read_json(answer.body).text == canned_text(3)


def test_a_chunked_response_is_whole_at_its_last_byte_wherever_it_is_cut() -> None:
    for cut in range(1, len(STREAM)):
        reader = ResponseReader()
        assert reader.feed(STREAM[:cut]) is None, cut
        answer = reader.feed(STREAM[cut:])
        assert answer is not None, cut
        assert read_events(answer.body).num_pieces == 5


def test_a_chunk_that_ends_like_a_stream_does_not_end_it() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    reader = ResponseReader()
    assert reader.feed(head + b"5\r\n0\r\n\r\n") is None
    answer = reader.feed(b"\r\n0\r\n\r\n")
    assert answer is not None
    assert answer.body == b"0\r\n\r\n"


def test_one_reader_reads_one_response_after_another() -> None:
    reader = ResponseReader()
    assert reader.feed(STREAM) is not None
    answer = reader.feed(canned_json(1))
    assert answer is not None
    assert read_json(answer.body).num_pieces == 1


def test_a_closing_server_is_noticed() -> None:
    answer = ResponseReader().feed(b"HTTP/1.1 503 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    assert answer is not None
    assert (answer.status, answer.closes) == (503, True)


@pytest.mark.parametrize(
    "response",
    [
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n0\r\n\r\n",
    ],
)
def test_what_is_no_response_is_refused(response: bytes) -> None:
    with pytest.raises(ProtocolBrokenError):
        ResponseReader().feed(response)


def test_bytes_after_the_last_chunk_are_refused() -> None:
    with pytest.raises(ProtocolBrokenError, match="after the last chunk"):
        decode_chunks(b"0\r\n\r\nmore0\r\n\r\n", 0)


def test_a_stream_without_its_end_is_not_finished() -> None:
    body = body_of(STREAM)
    assert read_events(body).is_finished
    assert not read_events(body.replace(b"data: [DONE]\n\n", b"")).is_finished
    assert not read_events(body.replace(b'"finish_reason":"length"', b'"finish_reason":null')).is_finished


@pytest.mark.parametrize("body", [b"data: {\n\n", b"event: x\n\n", b"data: [DONE]\n\ndata: {}\n\n"])
def test_events_that_are_no_chunks_are_refused(body: bytes) -> None:
    with pytest.raises(ProtocolBrokenError):
        read_events(body)


def test_comments_and_usage_events_hold_no_pieces() -> None:
    body = b': hold\n\ndata: {"choices":[]}\n\n' + body_of(STREAM)
    assert read_events(body).num_pieces == 5


def test_a_json_body_that_is_no_completion_is_refused() -> None:
    with pytest.raises(ProtocolBrokenError):
        read_json(b"<html>")


def test_the_check_tells_each_way_in_which_a_stream_can_be_wrong() -> None:
    body, text = body_of(STREAM), canned_text(5)
    check = AnswerCheck(is_stream=True)
    assert check.fault(body, text, 5) is None
    assert "other text" in (check.fault(body.replace(b"base.3", b"base.4"), text, 5) or "")
    assert check.fault(body, text, 6) == "5 pieces for 6"
    assert check.fault(body.replace(b"data: [DONE]\n\n", b""), text, 5) == "no end"
    assert "outside an event" in (check.fault(b"x", text, 5) or "")


def test_the_check_knows_a_good_answer_again_under_another_id_but_not_with_another_text() -> None:
    body, text = body_of(STREAM), canned_text(5)
    check = AnswerCheck(is_stream=True, kept_max=1)
    assert check.fault(body, text, 5) is None
    assert check.fault(body.replace(b"chatcmpl-canned", b"chatcmpl-2"), text, 5) is None
    assert check.fault(body.replace(b"chatcmpl-canned", b"chatcmpl-2"), "else", 5) is not None
    assert check.fault(body.replace(b"base.0", b"hs.0"), text, 5) is not None


def test_the_check_reads_answers_without_a_stream() -> None:
    check = AnswerCheck(is_stream=False)
    body = body_of(canned_json(4))
    assert check.fault(body, canned_text(4), 4) is None
    assert check.fault(body.replace(b'"length"', b"null"), canned_text(4), 4) == "no end"


def test_a_request_is_written_with_its_length_and_read_back_by_the_upstream() -> None:
    request = encode_request("localhost", "/v1/x", {"Authorization": "Bearer k"}, b'{"a":1}')
    assert request_end(request) == len(request)
    assert all(request_end(request[:cut]) is None for cut in range(len(request)))
    assert request_end(request + b"POST") == len(request)


def test_the_upstream_reads_chunked_and_empty_requests() -> None:
    chunked = b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    assert request_end(chunked) == len(chunked)
    assert request_end(chunked[:-1]) is None
    assert request_end(b"GET / HTTP/1.1\r\n\r\n") == 18
