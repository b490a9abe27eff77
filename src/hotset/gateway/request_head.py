"""The few headers that Hotset reads. All others of a client are not even looked at, so none can cross."""

import msgspec

from hotset.core.errors import InvalidRequestError, UnauthenticatedError

_JSON = b"application/json"
#: Headers that may come once, and where they are kept.
_SINGLE = {b"hotset-first-token-budget-ms": "first_token_budget", b"idempotency-key": "idempotency_key"}


class RequestHead(msgspec.Struct):
    """What the headers say that matters here."""

    #: Empty where there is none.
    authorization: bytes = b""
    content_type: bytes = b""
    content_encoding: bytes = b""
    #: None where the body is chunked or absent.
    content_length: int | None = None
    #: None where there is none; empty where there are several, of which none counts.
    first_token_budget: bytes | None = None
    #: Every ``Prefer`` header, in order.
    prefer: list[bytes] = msgspec.field(default_factory=list[bytes])
    #: None where there is none; empty where there are several, of which none counts.
    idempotency_key: bytes | None = None


def read_head(headers: list[tuple[bytes, bytes]]) -> RequestHead:
    """Read an ASGI header list (names in lower case).

    Raises:
        UnauthenticatedError: two ``Authorization`` headers; neither is the one that counts.
        InvalidRequestError: a ``Content-Length`` that is no number.
    """
    head = RequestHead()
    for name, value in headers:
        if name == b"authorization":
            if head.authorization:
                raise UnauthenticatedError
            head.authorization = value
        elif name == b"content-type":
            head.content_type = value
        elif name == b"content-length":
            if not value.isdigit() or len(value) > 15:
                raise InvalidRequestError("The Content-Length header is not a number.")
            head.content_length = int(value)
        elif name == b"content-encoding":
            head.content_encoding = value
        elif name == b"prefer":
            head.prefer.append(value)
        elif name in _SINGLE:
            setattr(head, _SINGLE[name], value if getattr(head, _SINGLE[name]) is None else b"")
    return head


def check_is_json(head: RequestHead) -> None:
    """Refuse a body that does not say it is plain JSON.

    Raises:
        InvalidRequestError: another media type, or a coding such as gzip.
    """
    media_type = head.content_type
    if media_type != _JSON and media_type.split(b";", 1)[0].strip().lower() != _JSON:
        raise InvalidRequestError("Send the body as 'Content-Type: application/json'.", param="content-type")
    if head.content_encoding.lower() not in (b"", b"identity"):
        raise InvalidRequestError("Send the body without a content coding.", param="content-encoding")
