"""What a client is told when its request ends with an error: an answer before the first byte, an event after it."""

import logging

from hotset.core.errors import HotsetError
from hotset.gateway.accounting import Account
from hotset.gateway.outlet import Outlet
from hotset.gateway.plane import Plane
from hotset.gateway.problems import answer_of, event_of, problem_of
from hotset.gateway.rate_headers import rate_headers
from hotset.telemetry.logs import of_request

_log = logging.getLogger(__name__)


async def tell(error: Exception, plane: Plane, account: Account, outlet: Outlet) -> None:
    """Send the client its error, in whichever form the answer so far leaves open.

    Args:
        error: What ended the request; one outside the error tree is told as a fault of the server.
        plane: Its clock says what is left of the client's rates.
        account: The request's.
        outlet: Where the answer goes.

    Raises:
        ClientGoneError: the connection is closed.
    """
    problem = problem_of(error, account.request_id)
    if problem.status >= 500 and isinstance(error, HotsetError):
        _log.warning("%s: %s", error.code, error.message, extra=of_request(account.request_id))
    if outlet.has_begun:
        await outlet.write(event_of(problem), more=False)
    else:
        status, headers, body = answer_of(error, problem, account.budget)
        headers += rate_headers(account.meter, plane.clock.monotonic_s())
        await outlet.answer(status, headers, body)
