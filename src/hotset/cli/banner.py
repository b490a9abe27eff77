"""What a server prints for the person who started it."""

import sys

from hotset import __version__
from hotset.cli.fleet.control import ControlStarted
from hotset.cli.fleet.place import Place
from hotset.cli.serve import Started
from hotset.cli.settings import is_loopback
from hotset.cli.wording import worded
from hotset.control.declaring import Declared


def tell_started(started: Started) -> None:
    """Print where the server listens and what kind of installation it is."""
    settings, addresses = started.settings, started.addresses
    lines = [
        f"Hotset {__version__}",
        f"  tenants    {addresses.tenant_url}/v1",
        f"  operators  {addresses.admin_url}/admin/v1, and local `hotset` commands",
        f"  state      {settings.home}",
    ]
    if settings.server.is_one_person:
        lines.append(
            "  one-person install: who publishes a version may approve it (server.one_person: false ends that)"
        )
    if not is_loopback(settings.server.admin_host):
        lines.append("  the operator plane is reachable from other machines and speaks plain HTTP: put TLS before it")
    lines.append("  engines are starting; requests are answered with 503 until the line that says ready")
    if started.first_token is not None:
        lines.append(f"  first admin token, shown this once: {started.first_token}")
    _print(*lines)


def tell_declared(declared: Declared) -> None:
    """Print what the file led to, and what it could not."""
    _print(*(f"  {change}" for change in declared.changed))
    _print(*(f"  FAILED {subject}: {worded(error)}" for subject, error in declared.failed))
    if declared.failed:
        _print(f"  {len(declared.failed)} of what the file declares could not be done; the rest is served")


def tell_control_started(started: ControlStarted) -> None:
    """Print where control listens."""
    _print(
        f"Hotset {__version__} control",
        f"  operators  {started.admin_url}/admin/v1, and local `hotset` commands",
        f"  fleet      {started.door}",
        f"  state      {started.settings.home}",
    )
    if started.first_token is not None:
        _print(f"  first admin token, shown this once: {started.first_token}")


def tell_gateway_started(place: Place, tenant_url: str, metrics_url: str) -> None:
    """Print where a gateway listens."""
    _print(f"Hotset {__version__} gateway {place.me.name}", f"  tenants    {tenant_url}/v1")
    _tell_place(place, metrics_url)


def tell_worker_started(place: Place, metrics_url: str) -> None:
    """Print where a worker listens."""
    _print(f"Hotset {__version__} worker {place.me.name}", f"  gateways   {place.listen}")
    _tell_place(place, metrics_url)


def _tell_place(place: Place, metrics_url: str) -> None:
    _print(f"  control    {place.control}", f"  state      {place.own.path}")
    if metrics_url:
        _print(f"  metrics    {metrics_url}/metrics")


def tell_ready(bases: list[str]) -> None:
    """Print that engines serve, once they do."""
    _print(f"Ready: {', '.join(bases)}" if bases else "Ready; no base is registered yet (hotset base add)")


def tell_gateway_ready() -> None:
    """Print that a gateway takes requests, once it reaches a worker whose engine serves."""
    _print("Ready")


def tell_draining(num_in_flight: int) -> None:
    """Print that the server is ending."""
    _print(f"Ending; {num_in_flight} requests may finish. A second signal ends at once.")


def _print(*lines: str) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()
