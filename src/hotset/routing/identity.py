"""Which of several agents that say they are one worker may serve as it: by fences, numbers that control gives out.

A fence is kept in the agent's own folder, so an agent that starts again shows the one it had and is who it was. Any
other gets the identity, under a higher fence, once nobody lives under it; until then it serves nothing.
"""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Claimant:
    """An agent that says it is a worker."""

    #: Of this start of its process.
    instance: str
    #: Under which it serves or served last; 0 where it never did.
    fence: int


class Ruling(StrEnum):
    """What control answers."""

    #: It is who served last: it goes on under its fence.
    KEEPS = "keeps"
    #: It takes over, under the next fence.
    NEXT = "next"
    #: Another one lives under the identity.
    REFUSED = "refused"


def outranks(claimant: Claimant, linked: Claimant | None) -> bool:
    """Whether an agent may take the place of the one that is linked: it is the same one, or served later."""
    return linked is None or claimant.instance == linked.instance or claimant.fence > linked.fence


def rule_on(held_fence: int, known_fence: int | None, *, is_alive: bool) -> Ruling:
    """Return what becomes of an agent that asks to be a worker.

    Args:
        held_fence: Under which it serves or served last; 0 where it never did.
        known_fence: Of whoever served last as this worker; None where nobody ever did.
        is_alive: Whether that one was heard lately, or may live though control had no time to hear it yet.
    """
    if known_fence is None:
        return Ruling.NEXT
    if held_fence == known_fence:
        return Ruling.KEEPS
    return Ruling.REFUSED if is_alive else Ruling.NEXT


def may_serve_alone(*, kept_fence: int, is_rejected: bool, silence_s: float, patience_s: float) -> bool:
    """Whether an agent that control has not answered may serve under the fence that its folder keeps.

    Args:
        kept_fence: 0 where it never served.
        is_rejected: Control's last word was that another one lives.
        silence_s: Since control's last word, or since the agent's start.
        patience_s: How long control is waited for.
    """
    return bool(kept_fence) and not is_rejected and silence_s >= patience_s
