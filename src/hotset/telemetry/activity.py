"""What goes on in one process right now, in numbers: what `hotset top` shows beside the slots."""

from dataclasses import dataclass, field

#: Of the times that are told.
SHARES = (0.5, 0.95)


@dataclass(frozen=True, slots=True)
class Activity:
    """The last minute of one process."""

    in_flight: int = 0
    #: In the last minute: ``requests``, ``refusals``, ``loads``, ``evictions``.
    per_minute: dict[str, int] = field(default_factory=dict[str, int])
    #: By tenant, the quantiles `SHARES` of the time to the first token, in seconds.
    first_token_s: dict[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    #: By lane: requests that wait, and how long the oldest has, in seconds.
    queue: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])
    #: See `telemetry.batching`; None where it is not known.
    batch_efficiency: float | None = None

    @property
    def worst_tenant(self) -> str | None:
        """The tenant with the longest 95th percentile."""
        return max(self.first_token_s, key=lambda tenant: (self.first_token_s[tenant][1], tenant), default=None)
