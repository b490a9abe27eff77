"""What the admin API answers to whoever is on call: explanations, usage, and what goes on now."""

from pydantic import ConfigDict

from hotset.control.answers import Answer


class UnreachedAnswer(Answer):
    """A gateway or worker that could not be asked: what it knows is missing, or as old as is said."""

    role: str
    name: str
    reason: str


class WaitsAnswer(Answer):
    """Where a request's time went, stage by stage, in seconds; null where it did not come so far."""

    #: To the first token, as the worker expected when the request began to wait.
    expected_s: float | None = None
    queue_s: float | None
    load_s: float | None
    #: From dispatch to the first token, and from there to the end.
    prompt_s: float | None
    answer_s: float | None
    total_s: float | None


class EvictionAnswer(Answer):
    """Why a version was not in a slot: its last eviction before the request."""

    at_s: float
    cause: str
    #: For whom and for which version; null where it went for nobody.
    by: str | None
    made_room_for: str | None


class LoadAnswer(Answer):
    """The load that a request waited for."""

    at_s: float
    tier: str
    seconds: float


class AtWorkerAnswer(Answer):
    """What became of the request at one worker that it was sent to."""

    worker: str | None
    lane: str
    #: Until it was dispatched or refused; null while it waits.
    waited_s: float | None
    #: Of the error that the worker refused it with; empty where it did not.
    code: str


class RequestAnswer(Answer):
    """What its gateway's log says of one request, and what workers remember of it; never a word of its prompt."""

    model_config = ConfigDict(frozen=True, extra="allow")

    #: ``alias -> owner/name@N on BASE``.
    route: str
    #: Null where one process is all, and where no gateway that could be asked knows it.
    gateway: str | None
    #: Who accepted it, or refused it last; null where one process is all, and where it came to none.
    worker: str | None
    waits: WaitsAnswer
    #: The worker's engine now; null where none serves.
    engine: str | None
    at_workers: list[AtWorkerAnswer]
    evicted: EvictionAnswer | None
    loaded: LoadAnswer | None
    #: Who might know more.
    unreached: list[UnreachedAnswer]


class UsageRowAnswer(Answer):
    """What one tenant used of one adapter; ``-`` stands for bare bases and requests without a known model."""

    tenant: str
    adapter: str
    requests: int
    refused: int
    prompt_tokens: int
    completion_tokens: int
    loads: int
    load_seconds: float
    slot_seconds: float


class UsageAnswer(Answer):
    """Usage by tenant and adapter over whole hours."""

    since_s: float
    until_s: float
    rows: list[UsageRowAnswer]
    #: Whose last uses are not in it yet.
    unreached: list[UnreachedAnswer]


class TopSlotAnswer(Answer):
    """One slot."""

    state: str
    version: str | None
    account: str | None
    num_running: int
    num_waiting: int


class TopWorkerAnswer(Answer):
    """One worker."""

    #: Null where one process is all.
    worker: str | None
    base: str
    engine: str | None
    num_running: int
    num_waiting: int
    num_places: int
    slots: list[TopSlotAnswer]


class TopLaneAnswer(Answer):
    """The requests of one lane that wait."""

    lane: str
    num_waiting: int
    oldest_s: float


class TopTenantAnswer(Answer):
    """One tenant's last minute."""

    tenant: str
    first_token_p50_s: float
    first_token_p95_s: float


class TopGatewayAnswer(Answer):
    """One gateway's part in what all do together."""

    gateway: str
    in_flight: int
    #: In the last minute: requests, refusals.
    per_minute: dict[str, int]


class TopAnswer(Answer):
    """What goes on now."""

    at_s: float
    in_flight: int
    #: In the last minute: requests, refusals, loads, evictions.
    per_minute: dict[str, int]
    batch_efficiency: float | None
    worst_tenant: str | None
    #: None where one process is all.
    gateways: list[TopGatewayAnswer]
    workers: list[TopWorkerAnswer]
    queue: list[TopLaneAnswer]
    #: The slowest first.
    tenants: list[TopTenantAnswer]
    #: Whose part is missing, or old.
    unreached: list[UnreachedAnswer]
