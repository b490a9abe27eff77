"""What commands take for an answer of the operator plane, and what for another server's."""

import httpx
import pytest

from hotset.cli.client import AdminClient
from hotset.core.errors import ServerUnreachableError


@pytest.mark.parametrize("body", [b"<html>welcome</html>", b"[]", b'"yes"', b"\xff"])
def test_a_server_that_says_yes_to_everything_is_not_the_operator_plane(body: bytes) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body))
    with httpx.Client(transport=transport, base_url="http://elsewhere") as http:
        client = AdminClient(http, is_local=False)
        with pytest.raises(ServerUnreachableError, match="check HOTSET_URL"):
            client.get("/tenants")
