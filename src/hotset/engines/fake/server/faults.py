"""Faults on demand, for tests of whoever depends on an engine: `POST /fault` with a kind and, for some, an adapter."""

import os
import signal
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hotset.engines.fake.server.refusal import Refusal, json_answer, read_body
from hotset.engines.fake.server.serving import Serving


class Fault(msgspec.Struct, frozen=True):
    """What is to go wrong."""

    #: ``crash``: the process is killed in the middle of the next step. ``hang``: no step and no load ends any more,
    #: though the engine says that it is well. ``nan``: the adapter's weights hold NaN from now on. ``pin``: nothing
    #: takes the adapter's slot.
    kind: Literal["crash", "hang", "nan", "pin"]
    adapter: str = ""


class FaultRoutes:
    """The route of one engine that takes faults."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [Route("/fault", self._take, methods=["POST"])]

    async def _take(self, request: Request) -> Response:
        fault = await read_body(request, Fault)
        if isinstance(fault, Refusal):
            return fault.answer()
        match fault.kind:
            case "crash":
                self._serving.stepper.in_step = _kill_this_process
            case "hang":
                self._serving.stepper.goes_on.clear()
            case "nan" | "pin":
                return self._strike(fault)
        return json_answer({})

    def _strike(self, fault: Fault) -> Response:
        """Make one adapter go wrong."""
        key = self._serving.registered.get(fault.adapter)
        if key is None:
            return Refusal(404, "NotFoundError", f"The lora adapter '{fault.adapter}' cannot be found.").answer()
        if fault.kind == "nan":
            self._serving.loop.flaws.nan_adapters.add(key)
        else:
            self._serving.tiers.pin(key)
        return json_answer({})


def _kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
