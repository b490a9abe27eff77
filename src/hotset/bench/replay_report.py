"""The figures of the replay bench: from what each policy hit to the sections of its report."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hotset.bench.replay_policies import BELADY, LRU
from hotset.bench.report import Column, Report, Row, Section
from hotset.bench.rounds import Outcomes, over_rounds
from hotset.bench.stats import Spread

#: A gap of fewer hits than this is too small to say which share of it a policy closes.
_GAP_HITS_MIN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One policy on one workload."""

    num_requests: int
    num_hits: int
    #: Median and 99th percentile of a decision's time, and of all of one request's together, microseconds.
    decision_p50_us: float
    decision_p99_us: float
    request_p99_us: float

    @property
    def num_loads(self) -> int:
        """Requests whose adapter had to be loaded."""
        return self.num_requests - self.num_hits

    @property
    def hit_share(self) -> float:
        """Share of the requests whose adapter was resident at arrival."""
        return self.num_hits / self.num_requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What kind of workload it is."""

    num_requests: int
    num_adapters: int
    #: From the first arrival to the last, seconds.
    duration_s: float
    #: Share of the requests that the most popular adapters get, by how many those are.
    top_shares: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a run was over, each in order."""

    workloads: tuple[str, ...]
    slot_counts: tuple[int, ...]
    #: 0 first.
    sights_s: tuple[float, ...]
    #: LRU and Belady among them.
    policies: tuple[str, ...]


def load_name(workload: str, num_slots: int, sight_s: float = 0.0) -> str:
    """Return the name of a workload at a number of slots, with so much of the queue in sight."""
    return f"{workload} in {num_slots} slots" + (f", {sight_s:g} s of queue in sight" if sight_s else "")


def gap_closed(policy: Replayed, lru: Replayed, belady: Replayed) -> float | None:
    """Return which share of the hits that Belady has over LRU a policy has; None where there is hardly a gap.

    Below 0 the policy is worse than LRU.
    """
    gap = belady.num_hits - lru.num_hits
    return (policy.num_hits - lru.num_hits) / gap if gap >= _GAP_HITS_MIN else None


def build_report(
    setting: dict[str, str], shape: Shape, described: Outcomes[Described], outcomes: Outcomes[Replayed]
) -> Report:
    """Return the report of a run.

    Args:
        setting: The settings, as words.
        shape: What it was over.
        described: Each round's workload, as side "".
        outcomes: Each policy by round and `load_name`.
    """
    tables = [
        _policy_section(load_name(workload, num_slots, sight_s), load_name(workload, num_slots), shape, outcomes)
        for workload in shape.workloads
        for num_slots in shape.slot_counts
        for sight_s in shape.sights_s
    ]
    notes = [
        "a policy serves each request from a slot: a miss is a load, and with every slot taken an eviction",
        "gap closed: of the hits that belady has over lru without sight",
        "top-k knows the whole trace's popularity, belady the future; the others know the past, and what is in sight",
        "hotset: of tenants that borrow who holds more gives way; hotset-one-account: the same with one tenant for all",
    ]
    if "arena-27" in shape.workloads:
        notes.append("a drawn workload's figures are medians over the rounds; arena-27 is one fixed trace")
    return Report(
        bench="replay",
        setting=setting,
        sections=(_workload_section(shape.workloads, described), *tables),
        notes=tuple(notes),
    )


def _workload_section(workloads: tuple[str, ...], described: Outcomes[Described]) -> Section:
    columns = (
        Column(key="num_requests", heading="requests", unit=""),
        Column(key="rate", heading="rate", unit="requests/s", digits=2),
        Column(key="num_adapters", heading="adapters", unit="asked for"),
        Column(key="top_1", heading="top adapter", unit="% of requests", digits=1),
        Column(key="top_8", heading="top 8", unit="% of requests", digits=1),
        Column(key="top_16", heading="top 16", unit="% of requests", digits=1),
    )

    def spread_of(workload: str, figure: Callable[[Described], float]) -> Spread | None:
        return over_rounds({number: figure(one) for number, one in described.rounds("", workload).items()})

    rows = [
        Row(
            side=workload,
            figures={
                "num_requests": spread_of(workload, lambda one: one.num_requests),
                "rate": spread_of(workload, lambda one: one.num_requests / one.duration_s if one.duration_s else 0.0),
                "num_adapters": spread_of(workload, lambda one: one.num_adapters),
                "top_1": spread_of(workload, lambda one: 100 * one.top_shares[1]),
                "top_8": spread_of(workload, lambda one: 100 * one.top_shares[8]),
                "top_16": spread_of(workload, lambda one: 100 * one.top_shares[16]),
            },
        )
        for workload in workloads
    ]
    return Section(title="Workloads", columns=columns, rows=tuple(rows))


def _policy_section(load: str, unsighted: str, shape: Shape, outcomes: Outcomes[Replayed]) -> Section:
    columns = (
        Column(key="hit_percent", heading="hits", unit="% of requests", digits=2),
        Column(key="gap_closed_percent", heading="gap closed", unit="% of LRU to Belady", digits=1),
        Column(key="num_loads", heading="loads", unit=""),
        Column(key="decision_p50_us", heading="decision p50", unit="µs", digits=2),
        Column(key="decision_p99_us", heading="decision p99", unit="µs", digits=2),
        Column(key="request_p99_us", heading="request p99", unit="µs", digits=2),
    )
    lru, belady = outcomes.rounds(LRU, unsighted), outcomes.rounds(BELADY, unsighted)

    def figures(policy: str) -> dict[str, Spread | None]:
        rounds = outcomes.rounds(policy, load)
        closed = {number: gap_closed(one, lru[number], belady[number]) for number, one in rounds.items()}

        def spread_of(figure: Callable[[Replayed], float]) -> Spread | None:
            return over_rounds({number: figure(one) for number, one in rounds.items()})

        return {
            "hit_percent": spread_of(lambda one: 100 * one.hit_share),
            "gap_closed_percent": over_rounds(
                {number: 100 * share for number, share in closed.items() if share is not None}
            ),
            "num_loads": spread_of(lambda one: one.num_loads),
            "decision_p50_us": spread_of(lambda one: one.decision_p50_us),
            "decision_p99_us": spread_of(lambda one: one.decision_p99_us),
            "request_p99_us": spread_of(lambda one: one.request_p99_us),
        }

    rows = tuple(Row(side=policy, figures=figures(policy)) for policy in shape.policies)
    return Section(title=load[0].upper() + load[1:], columns=columns, rows=rows)
