"""Reads a request's body: bounded in bytes, in bytes over all requests, and (by the watch) in time.

A body that is too large is read to its end and thrown away up to a few times the limit, because a client that is
still sending would see a broken connection in place of the 413.
"""

from hotset.core.errors import RequestTooLargeError, TooManyRequestsError
from hotset.gateway.request_head import RequestHead
from hotset.gateway.settings import GatewaySettings
from hotset.gateway.watch import ClientGoneError, Receive

_DRAIN_FACTOR = 4


class BodyReader:
    """Reads bodies for one gateway; knows how many bytes of unfinished ones are held."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._bytes_max = settings.body_bytes_max
        self._held_bytes_max = settings.body_bytes_in_flight_max
        self._retry_after_ms = settings.retry_after_ms
        #: Bytes of bodies that have not arrived whole.
        self.num_bytes_held = 0

    async def read(self, head: RequestHead, receive: Receive) -> bytes:
        """Return the whole body.

        Raises:
            RequestTooLargeError: it is, or says it is, larger than a body may be.
            TooManyRequestsError: the unfinished bodies of all requests together are too large.
            ClientGoneError: the client left before the end.
        """
        if (head.content_length or 0) > self._bytes_max * _DRAIN_FACTOR:
            raise self._too_large()
        part, is_last = await _receive_part(receive)
        if is_last and len(part) <= self._bytes_max:
            return part
        parts = [part]
        held = 0
        try:
            held = self._hold(len(part))
            while not is_last:
                part, is_last = await _receive_part(receive)
                parts.append(part)
                held += self._hold(len(part))
                if held > self._bytes_max:
                    await self._drain(held, receive, is_last=is_last)
                    raise self._too_large()
        finally:
            self.num_bytes_held -= held
        if held > self._bytes_max:
            raise self._too_large()
        return b"".join(parts)

    async def _drain(self, size: int, receive: Receive, *, is_last: bool) -> None:
        while not is_last and size <= self._bytes_max * _DRAIN_FACTOR:
            part, is_last = await _receive_part(receive)
            size += len(part)

    def _hold(self, num_bytes: int) -> int:
        if self.num_bytes_held + num_bytes > self._held_bytes_max:
            raise TooManyRequestsError(
                "The server holds too many unfinished request bodies.", retry_after_ms=self._retry_after_ms
            )
        self.num_bytes_held += num_bytes
        return num_bytes

    def _too_large(self) -> RequestTooLargeError:
        return RequestTooLargeError(f"The body may be at most {self._bytes_max} bytes.")


async def _receive_part(receive: Receive) -> tuple[bytes, bool]:
    """The next part of the body, and whether it is the last."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGoneError
    part: bytes = message.get("body", b"")
    return part, not message.get("more_body", False)
