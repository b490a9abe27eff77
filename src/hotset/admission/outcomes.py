"""The words for how a request ended: one of five, for metrics and logs. The error beside it holds the detail.

Refused means that nothing ran; failed means that something did, or that an outage stopped it (I8).
"""

from enum import StrEnum


class Outcome(StrEnum):
    """How one request ended (I8)."""

    #: The whole answer was produced and handed to the client's connection.
    COMPLETED = "completed"
    #: The client went away first.
    CANCELLED = "cancelled"
    #: It was turned away with a reason before anything ran for it.
    REFUSED = "refused"
    #: It was accepted as a job, which has its own end.
    ACCEPTED = "accepted"
    #: It was accepted and ended without a full answer, with a reason.
    FAILED = "failed"
