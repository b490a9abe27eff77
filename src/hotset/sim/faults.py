"""What goes wrong in a run, as a plan: drawn before it begins, so that it can be cut down to what matters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong."""

    kind: str
    #: The node that it happens to; several with commas between.
    subject: str
    at_s: float
    #: How long, in seconds; 0 for what is over at once.
    lasts_s: float = 0.0
    #: How bad, in a unit of the kind's own.
    size: float = 0.0

    def __str__(self) -> str:
        return f"{self.at_s:.2f} s: {self.kind} of {self.subject} for {self.lasts_s:.2f} s ({self.size:.3g})"


Plan = tuple[Fault, ...]


def cut_down(plan: Sequence[Fault], still_fails: Callable[[Plan], bool], *, tries_max: int) -> Plan:
    """Return a part of a plan that fails alike, with as little as `tries_max` runs find.

    Halves go first, then quarters, and so on to single faults (Zeller's delta debugging).

    Args:
        plan: One that fails.
        still_fails: Runs a part of it.
        tries_max: Runs at most.
    """
    kept, size = tuple(plan), max(1, len(plan) // 2)
    while kept and tries_max > 0:
        for start in range(0, len(kept), size):
            part = kept[:start] + kept[start + size :]
            tries_max -= 1
            if still_fails(part):
                kept = part
                break
            if tries_max <= 0:
                break
        else:
            if size == 1:
                break
            size = max(1, size // 2)
    return kept
