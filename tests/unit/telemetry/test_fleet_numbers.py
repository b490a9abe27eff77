"""A fleet's numbers at a scrape: there where control is, with bounded labels, and absent elsewhere."""

from hotset.telemetry.fleet_numbers import FleetNumbers
from hotset.telemetry.metrics import Metrics
from tests.support.fake_clock import FakeClock


def test_a_fleet_s_numbers_are_shown_as_they_are_at_the_scrape() -> None:
    metrics = Metrics(FakeClock())
    assert "hotset_workers" not in metrics.text().decode()
    metrics.measures.fleet = lambda: FleetNumbers(
        workers={"serving": 2, "lost": 1},
        num_lost=3,
        moves={"new": 4},
        num_homeless=5,
        num_gaps=6,
        gap_seconds=7.5,
        epoch=8,
        lags_s={"worker": 0.5},
        quarantines={"watchdog": 9},
    )
    lines = metrics.text().decode().splitlines()
    for line in (
        'hotset_workers{state="serving"} 2.0',
        'hotset_workers{state="lost"} 1.0',
        "hotset_workers_lost_total 3.0",
        'hotset_home_moves_total{cause="new"} 4.0',
        "hotset_versions_without_home 5.0",
        "hotset_home_gaps_total 6.0",
        "hotset_home_gap_seconds_total 7.5",
        "hotset_snapshot_epoch 8.0",
        'hotset_snapshot_lag_seconds{role="worker"} 0.5',
        'hotset_quarantines_total{by="watchdog"} 9.0',
    ):
        assert line in lines
