"""Keeps a link open: connects, waits for its end, and tries again after a pause that grows while it is in vain."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from hotset.links.address import Address, TlsFiles, connect
from hotset.links.link import Link

_log = logging.getLogger(__name__)
_PAUSE_MIN_S = 0.05
_PAUSE_MAX_S = 2.0
_CONNECT_TIMEOUT_S = 10.0


async def keep_linked(
    address: Address, tls: TlsFiles | None, make: Callable[[], Link[Any]], was_welcome: Callable[[], bool]
) -> None:
    """Keep a link to an address open until cancelled.

    Args:
        address: Where the other end listens.
        tls: Who we are, where the address speaks TLS.
        make: Makes our end of each link, anew for each.
        was_welcome: Whether the link that just ended was of use; then the next try comes soon.

    Raises:
        ConfigError: there are no certificates for TLS.
    """
    pause_s = _PAUSE_MIN_S
    last_reason = ""
    while True:
        link = make()
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                await connect(address, tls, lambda link=link: link)
            reason = await link.wait_ended()
            pause_s = _PAUSE_MIN_S if was_welcome() else min(2 * pause_s, _PAUSE_MAX_S)
        except OSError as error:  # TimeoutError and TLS's own errors are among them
            reason = str(error) or type(error).__name__
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)
        finally:
            link.close("it is no longer wanted")
        if reason != last_reason:
            _log.warning("not linked to %s, trying again: %s", address, reason)
            last_reason = reason
        await asyncio.sleep(pause_s)
