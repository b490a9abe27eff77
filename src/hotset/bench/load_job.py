"""What a load generator is told to do and what it saw; `load` is the process between the two."""

import msgspec


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of request, and the text that answers it."""

    headers: dict[str, str]
    body: str
    expects: str
    #: Pieces in which a stream must bring the text.
    num_pieces: int


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One block of load."""

    host: str
    port: int
    path: str
    #: Connection i asks i, i + connections, …, in turn.
    asks: tuple[Ask, ...]
    stream: bool
    connections: int
    duration_s: float
    #: Answers due or sent in this time are not counted.
    warmup_s: float = 0.3
    #: Requests a second; None is a closed loop.
    rate: float | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a block of load saw."""

    #: Seconds each counted answer took, to its last byte; from when it was due in an open loop.
    latencies: list[float]
    #: Seconds over which the counted answers were asked for.
    seconds: float
    #: Counted answers that came before that time was over; fewer than asked where a server falls behind.
    num_on_time: int
    #: Answers in all, warm-up included: what the server's processor time is divided by.
    num_answered: int
    #: Pieces of each answer.
    num_pieces: int
    #: Answers that were not whole or not 200, by what was wrong.
    faults: dict[str, int]

    @property
    def per_second(self) -> float:
        """Counted answers a second."""
        return len(self.latencies) / self.seconds
