"""The tenant plane's settings: every limit has a default, a least and a greatest value."""

from dataclasses import dataclass, fields

from hotset.core.errors import ConfigError
from hotset.core.terms import BUDGET_MS_MAX

_MIB = 1 << 20

#: Setting → (least, greatest). Each field of `GatewaySettings` is here.
BOUNDS: dict[str, tuple[float, float]] = {
    "body_bytes_max": (1024, 64 * _MIB),
    "body_bytes_in_flight_max": (_MIB, 16384 * _MIB),
    "body_timeout_s": (0.1, 600.0),
    "head_bytes_max": (1024, 256 * 1024),
    "head_timeout_s": (0.1, 600.0),
    "connections_max": (1, 1_000_000),
    "request_timeout_s": (1.0, 3600.0),
    "in_flight_max": (1, 65_536),
    "in_flight_per_tenant_max": (1, 65_536),
    "n_max": (1, 16),
    "prompts_max": (1, 256),
    "choices_max": (1, 256),
    "messages_max": (1, 65_536),
    "keepalive_after_s": (0.1, 600.0),
    "keepalive_every_s": (0.1, 600.0),
    "idle_connection_s": (1.0, 3600.0),
    "listen_after_s": (0.0, 0.5),
    "last_event_timeout_s": (0.05, 30.0),
    "retry_after_ms": (1, 3_600_000),
    "first_token_budget_ms": (0, BUDGET_MS_MAX),
    "snapshot_age_max_s": (1.0, 604_800.0),
}


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Limits and times of the tenant plane.

    Raises:
        ConfigError: a value lies outside its bounds.
    """

    #: Largest request body.
    body_bytes_max: int = 8 * _MIB
    #: Bytes of unfinished bodies that all connections together may have sent.
    body_bytes_in_flight_max: int = 512 * _MIB
    #: From the request's head to the end of its body.
    body_timeout_s: float = 30.0
    #: Request line and headers together.
    head_bytes_max: int = 32 * 1024
    #: From a new connection to the end of its first request's head.
    head_timeout_s: float = 30.0
    #: Connections open at once.
    connections_max: int = 16_384
    #: From the whole body to the last byte of the answer.
    request_timeout_s: float = 600.0
    #: Requests in flight over all tenants.
    in_flight_max: int = 4096
    #: Requests in flight of one tenant.
    in_flight_per_tenant_max: int = 2048
    #: Samples of one prompt.
    n_max: int = 16
    #: Prompts of one completion request.
    prompts_max: int = 16
    #: Prompts times samples.
    choices_max: int = 64
    #: Messages of one chat request.
    messages_max: int = 4096
    #: Silence on an accepted stream after which headers and comments are sent.
    keepalive_after_s: float = 5.0
    #: Between two such comments.
    keepalive_every_s: float = 5.0
    #: An idle connection between two requests.
    idle_connection_s: float = 75.0
    #: A request that is younger has nobody listening for its client's departure yet.
    listen_after_s: float = 0.05
    #: For handing the last event of a cut stream to a client that reads slowly.
    last_event_timeout_s: float = 1.0
    #: What a request refused for too many in flight is told.
    retry_after_ms: int = 1000
    #: First-token budget of a request that names none, from its whole body to the first token; 0 sets none.
    first_token_budget_ms: int = 0
    #: For how long a gateway in a process of its own serves the keys it knows while control is away.
    snapshot_age_max_s: float = 900.0

    def __post_init__(self) -> None:
        for field in fields(self):
            least, greatest = BOUNDS[field.name]
            value = getattr(self, field.name)
            if not least <= value <= greatest:
                raise ConfigError(
                    f"gateway.{field.name} is {value}; expected {least} to {greatest}.",
                    param=f"gateway.{field.name}",
                )
