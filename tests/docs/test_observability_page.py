"""The page on watching a fleet says of every metric what it is good for, and names no metric that there is not."""

import re
from pathlib import Path

from hotset.telemetry.names import METRICS

PAGE = (Path(__file__).parents[2] / "docs" / "observability.md").read_text()


def test_every_metric_is_on_the_page_and_the_page_has_no_other() -> None:
    known = {metric.name + ("_total" if metric.kind == "counter" else "") for metric in METRICS}
    assert set(re.findall(r"`(hotset_[a-z_]+)`", PAGE)) == known
