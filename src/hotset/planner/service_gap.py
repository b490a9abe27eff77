"""How differently two tenants are served while both want more, beside what the fair queue promises.

A tenant's service is its prompts' tokens, counted when they go to the engine, and its generated tokens, weighted as the
queue weighs them. Over any span in which two tenants both have requests in the queue, VTC serves them alike but for a
bound (arXiv 2401.00588, theorem 4.4). A tenant that has nothing there while its adapters come into their slots falls
behind by no more than the worker does in that time, and takes that back afterwards, as it is not lifted for it: so the
gap of two tenants who both wait grows by what the worker does in the time that their loads took.
"""

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hotset.core.ids import TenantId
from hotset.planner.one_worker import Served

#: As in `admission.fair_queue`.
INPUT_WEIGHT, OUTPUT_WEIGHT = 1.0, 2.0

#: From when to when, seconds.
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Course:
    """What one tenant's requests came to."""

    #: When any of its requests waited, for a slot or for a place.
    waits: Sequence[Span]
    #: When any waited for a place alone, with its version in its slot; a part of `waits`.
    queues: Sequence[Span]
    #: When it was served how much, in order of time.
    services: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, order=True)
class Gap:
    """Of two tenants over a span in which both wait, in weighted tokens."""

    #: The widest difference of their service over any part of it.
    width: float
    #: What it may be: the fair queue's bound, and what the worker does while their loads are under way.
    allowed: float

    @property
    def share(self) -> float:
        """The one over the other; at most 1 where the bound holds."""
        return self.width / self.allowed


def bound(sequences_max: int, longest_input: int, longest_output: int) -> float:
    """Return how far apart the service of two tenants who both queue may ever be, in weighted tokens.

    Args:
        sequences_max: In the engine at a time.
        longest_input: Tokens of the longest prompt.
        longest_output: Tokens of the longest answer.

    Source: arXiv 2401.00588, theorem 4.4.
    """
    return 2 * max(INPUT_WEIGHT * longest_input, OUTPUT_WEIGHT * sequences_max * longest_output)


def courses(served: Sequence[Served], end_s: float) -> list[Course]:
    """Return each tenant's course up to a moment; what has no place by then waits until then."""
    by_tenant: dict[TenantId, list[Served]] = {}
    for each in served:
        by_tenant.setdefault(each.tenant, []).append(each)
    return [_course(by_tenant[tenant], end_s) for tenant in sorted(by_tenant)]


def gaps(courses: Sequence[Course], queue_bound: float, tokens_per_s: float) -> Iterator[Gap]:
    """Yield the gap of every two tenants over every span in which both wait.

    Args:
        courses: Of all tenants.
        queue_bound: Of the fair queue.
        tokens_per_s: Weighted tokens that the worker does for all tenants.
    """
    for one, other in itertools.combinations(courses, 2):
        for ours, theirs in _both(one.waits, other.waits):
            from_s, until_s = max(ours[0], theirs[0]), min(ours[1], theirs[1])
            # What one missed before both waited it may still take back.
            away_s = _away_s(one, ours[0], until_s) + _away_s(other, theirs[0], until_s)
            yield Gap(_gap(one, other, from_s, until_s), queue_bound + tokens_per_s * away_s)


def _course(served: Sequence[Served], end_s: float) -> Course:
    waits, queues = list[Span](), list[Span]()
    # One that stays without a place was overtaken, in its tenant's own order, by all that later got one: it was not in
    # the queue before the last of them. From then on nobody knows, and it counts.
    last_s = max((each.dispatched_at_s for each in served if each.dispatched_at_s is not None), default=-math.inf)
    for each in served:
        left_s = next(moment for moment in (each.dispatched_at_s, each.ended_at_s, end_s) if moment is not None)
        waits.append((each.asked_at_s, left_s))
        queues.append((max(each.asked_at_s, last_s) if each.hot_at_s is None else each.hot_at_s, left_s))
    prompts = ((each.dispatched_at_s, INPUT_WEIGHT * each.input_tokens) for each in served)
    tokens = ((at_s, OUTPUT_WEIGHT) for each in served for at_s in each.token_at_s)
    services = sorted([*((at_s, amount) for at_s, amount in prompts if at_s is not None), *tokens])
    return Course(_joined(waits), _joined(queues), services)


def _joined(spans: Sequence[Span]) -> list[Span]:
    """Return the same time in spans apart from each other, in order."""
    joined: list[Span] = []
    for from_s, until_s in sorted(spans):
        if joined and from_s <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], until_s)
        elif until_s > from_s:
            joined.append((from_s, until_s))
    return joined


def _gap(one: Course, other: Course, from_s: float, until_s: float) -> float:
    """Return the widest difference of two tenants' service over any part of a span."""
    changes = [*_between(one.services, from_s, until_s)]
    changes += [(at_s, -amount) for at_s, amount in _between(other.services, from_s, until_s)]
    level = lowest = highest = 0.0
    for _, together in itertools.groupby(sorted(changes), key=lambda change: change[0]):
        level += sum(amount for _, amount in together)
        lowest, highest = min(lowest, level), max(highest, level)
    return highest - lowest


def _between(services: Sequence[tuple[float, float]], from_s: float, until_s: float) -> Sequence[tuple[float, float]]:
    """Return what came after one moment and up to another."""
    begin = bisect_right(services, from_s, key=lambda service: service[0])
    return services[begin : bisect_right(services, until_s, key=lambda service: service[0])]


def _both(one: Sequence[Span], other: Sequence[Span]) -> Iterator[tuple[Span, Span]]:
    """Yield the spans of one and of the other that overlap."""
    for span in one:
        first = bisect_right(other, span[0], key=lambda each: each[1])
        last = bisect_left(other, span[1], key=lambda each: each[0])
        for overlapping in other[first:last]:
            yield span, overlapping


def _away_s(course: Course, from_s: float, until_s: float) -> float:
    """Return for how long a tenant that waits all the time has nothing in the queue."""
    queued = (min(stop_s, until_s) - max(start_s, from_s) for start_s, stop_s in course.queues)
    return until_s - from_s - sum(seconds for seconds in queued if seconds > 0)
