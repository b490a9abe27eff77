"""Control's fleet in numbers, for a scrape."""

from collections import Counter

from hotset.control.control import Control
from hotset.core.clock import Clock
from hotset.telemetry.fleet_numbers import FleetNumbers


def fleet_numbers(control: Control, clock: Clock) -> FleetNumbers:
    """Return the fleet as it is; on the event loop's thread."""
    counts, now_s = control.fleet.counts, clock.monotonic_s()
    lags_s = dict[str, float]()
    for holders in control.holders:
        for role, lag_s in holders.lags_s().items():
            lags_s[role] = max(lags_s.get(role, 0.0), lag_s)
    return FleetNumbers(
        workers=_workers(control),
        num_lost=counts.num_lost,
        moves=dict(counts.moves),
        num_homeless=counts.num_homeless,
        num_gaps=counts.num_gaps,
        gap_seconds=counts.gap_seconds(now_s),
        epoch=control.commits.snapshot.epoch,
        lags_s=lags_s,
        quarantines=dict(control.withholding.num_quarantines),
    )


def _workers(control: Control) -> Counter[str]:
    """Count workers by what is first true of each: lost, not ready, or what an operator says."""
    states = ("serving", "cordoned", "draining", "not_ready", "lost")
    found: Counter[str] = Counter(dict.fromkeys(states, 0))
    heard, entries = control.fleet.heard, control.commits.snapshot.workers
    for worker, entry in entries.items():
        last = heard.get(worker)
        is_ready = last is None or last.heartbeat.is_ready
        found[entry.state if is_ready else "not_ready"] += 1
    found["lost"] = len(control.fleet.lost)
    return found
