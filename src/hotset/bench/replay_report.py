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
    #: Median and 99th percentile of a decision's time, microseconds.
    p50_us: float
    p99_us: float

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


def load_name(workload: str, num_slots: int) -> str:
    """Return the name of a workload at a number of slots."""
    return f"{workload} in {num_slots} slots"


def gap_closed(policy: Replayed, lru: Replayed, belady: Replayed) -> float | None:
    """Return which share of the hits that Belady has over LRU a policy has; None where there is hardly a gap.

    Below 0 the policy is worse than LRU.
    """
    gap = belady.num_hits - lru.num_hits
    return (policy.num_hits - lru.num_hits) / gap if gap >= _GAP_HITS_MIN else None


def build_report(
    setting: dict[str, str],
    workloads: tuple[str, ...],
    slot_counts: tuple[int, ...],
    policies: tuple[str, ...],
    described: Outcomes[Described],
    outcomes: Outcomes[Replayed],
) -> Report:
    """Return the report of a run.

    Args:
        setting: The settings, as words.
        workloads: Their names, in order.
        slot_counts: Slots, in order.
        policies: Their names, in order; LRU and Belady among them.
        described: Each round's workload, as side "".
        outcomes: Each policy by round and `load_name`.
    """
    tables = [
        _policy_section(load_name(workload, num_slots), policies, outcomes)
        for workload in workloads
        for num_slots in slot_counts
    ]
    notes = (
        "a policy serves each request from a slot: a miss is a load, and with every slot taken an eviction",
        "top-k knows the whole trace's popularity, belady the future; the others know the past alone",
        "a drawn workload's figures are medians over the rounds; arena-27 is one fixed trace, the same in each",
    )
    return Report(
        bench="replay",
        setting=setting,
        sections=(_workload_section(workloads, described), *tables),
        notes=notes if "arena-27" in workloads else notes[:2],
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


def _policy_section(load: str, policies: tuple[str, ...], outcomes: Outcomes[Replayed]) -> Section:
    columns = (
        Column(key="hit_percent", heading="hits", unit="% of requests", digits=2),
        Column(key="gap_closed_percent", heading="gap closed", unit="% of LRU to Belady", digits=1),
        Column(key="num_loads", heading="loads", unit=""),
        Column(key="decision_p50_us", heading="decision p50", unit="µs", digits=2),
        Column(key="decision_p99_us", heading="decision p99", unit="µs", digits=2),
    )
    lru, belady = outcomes.rounds(LRU, load), outcomes.rounds(BELADY, load)

    def figures(policy: str) -> dict[str, Spread | None]:
        rounds = outcomes.rounds(policy, load)
        closed = {number: gap_closed(one, lru[number], belady[number]) for number, one in rounds.items()}
        return {
            "hit_percent": over_rounds({number: 100 * one.hit_share for number, one in rounds.items()}),
            "gap_closed_percent": over_rounds(
                {number: 100 * share for number, share in closed.items() if share is not None}
            ),
            "num_loads": over_rounds({number: one.num_loads for number, one in rounds.items()}),
            "decision_p50_us": over_rounds({number: one.p50_us for number, one in rounds.items()}),
            "decision_p99_us": over_rounds({number: one.p99_us for number, one in rounds.items()}),
        }

    rows = tuple(Row(side=policy, figures=figures(policy)) for policy in policies)
    return Section(title=load[0].upper() + load[1:], columns=columns, rows=rows)
