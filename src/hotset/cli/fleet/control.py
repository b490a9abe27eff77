"""`hotset control`: the operator plane, and the door where gateways and workers come for snapshots."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass

from starlette.applications import Starlette

from hotset.cli.fleet.place import Place, place_of
from hotset.cli.listening import address_of, admin_server, bind_tcp, bind_unix
from hotset.cli.running import Addresses, in_background, serving, stop_on_signals
from hotset.cli.serve import ADDRESS_FILE
from hotset.cli.settings import Settings
from hotset.cli.wiring import make_control
from hotset.control.actors import LOCAL_ADMIN
from hotset.control.api import build_admin_app
from hotset.control.blob_grants import BlobGrants
from hotset.control.declaring import Declared, declare
from hotset.control.fleet_numbers import fleet_numbers
from hotset.control.holder_door import HolderDoor
from hotset.control.holders import Holders
from hotset.control.witnesses import FleetWitness
from hotset.core.clock import Clock
from hotset.telemetry.metrics import Metrics
from hotset.telemetry.request_log import find_in


@dataclass(frozen=True)
class ControlStarted:
    """What control has to say once it listens."""

    admin_url: str
    #: Where gateways and workers register.
    door: str
    settings: Settings
    #: The first admin token, the one time there is one.
    first_token: str | None


@dataclass(frozen=True)
class ControlTold:
    """Whom control tells how it is getting on."""

    started: Callable[[ControlStarted], None]
    declared: Callable[[Declared], None]


class ControlServer:
    """Everything that runs while control serves."""

    def __init__(self, settings: Settings, place: Place, clock: Clock) -> None:
        self._settings = settings
        self._place = place
        self.metrics = Metrics(clock)
        self.control = make_control(settings, place.folder, clock)
        self.holders = Holders(
            self.control.fleet,
            self.control.commits,
            self.control.usage,
            clock,
            on_conflict=self.metrics.identity_conflict,
        )
        self.control.witness = FleetWitness(self.holders, lambda request: find_in(place.folder.logs, request))
        self.metrics.measures.fleet = lambda: fleet_numbers(self.control, clock)
        self.door = HolderDoor(self.holders, place.me, BlobGrants(self.control.blobs, clock))

    async def run(self, told: ControlTold, stop: asyncio.Event) -> None:
        """Serve until told to stop.

        Raises:
            ConfigError: an address can't be listened on, or the state folder is damaged.
        """
        control, place, where = self.control, self._place, self._settings.server
        opened = await control.open()
        control.add_holders(self.holders)
        admin = bind_tcp(where.admin_host, where.admin_port, "server.admin_port")
        local = bind_unix(place.folder.admin_socket)
        servers = [
            (admin_server(self._admin_app(is_local=False)), admin),
            (admin_server(self._admin_app(is_local=True)), local),
        ]
        addresses = Addresses("", address_of(admin), os.getpid())
        door = await self.door.open(place.listen, place.tls, "fleet.control")
        work = (control.fleet.run(), control.usage.keep(), control.suspects.run(), self._declare(told))
        tasks = [asyncio.create_task(each) for each in work]
        async with serving(servers), in_background(*tasks):
            with addresses.written(place.folder.run / ADDRESS_FILE):
                told.started(ControlStarted(addresses.admin_url, str(door), self._settings, opened.first_token))
                await stop.wait()
                await control.usage.write()
        place.folder.admin_socket.unlink(missing_ok=True)

    async def close(self) -> None:
        """End the door and control; holders go on without it."""
        await self.door.close()
        await self.control.close()

    async def _declare(self, told: ControlTold) -> None:
        told.declared(await declare(self.control, LOCAL_ADMIN, self._settings.desired))

    def _admin_app(self, *, is_local: bool) -> Starlette:
        return build_admin_app(self.control, lambda: self.metrics.text().decode(), is_local=is_local)


async def run_control(settings: Settings, clock: Clock, told: ControlTold) -> None:
    """Run control until SIGTERM or SIGINT; a second signal ends the process at once.

    Raises:
        StateLockedError: another process holds the state folder.
        ConfigError: an address can't be listened on, or a setting or key file is not valid.
    """
    place = place_of(settings, "control")
    with place.folder.locked():
        place.folder.initialise()
        server = ControlServer(settings, place, clock)
        try:
            await server.run(told, stop_on_signals())
        finally:
            await server.close()
