"""Where the processes of an installation reach each other; filled by `cli.config`."""

from dataclasses import dataclass

#: Setting → (least, greatest).
BOUNDS: dict[str, tuple[float, float]] = {"metrics_port": (0, 65_535)}


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """A process of its own: `hotset control`, `gateway` or `worker`. `hotset serve` needs none of this."""

    #: This process among those of its role: 1 to 63 of a-z, 0-9 and '-'; empty is the role's own word.
    name: str = ""
    #: Where control takes the others in: unix:/PATH or tls://HOST:PORT; empty is a socket in the state folder.
    control: str = ""
    #: Where a worker takes gateways in, likewise.
    listen: str = ""
    #: The base that a worker serves; empty is the only one there is.
    base: str = ""
    #: The pool that a worker asks to be in; what an operator assigns counts more.
    pool: str = ""
    #: PEM files of this process's certificate, its key, and the authority that signs those of this installation.
    certificate: str = ""
    #: See `certificate`.
    key: str = ""
    #: See `certificate`.
    authority: str = ""
    #: Address of a gateway's or worker's own metrics page.
    metrics_host: str = "127.0.0.1"
    #: Its port; 0 lets the system choose one, null has no page.
    metrics_port: int | None = None
