"""The tenant plane's pages name every endpoint, field, metric and log field."""

import re
from pathlib import Path

import msgspec
import pytest

from hotset.gateway.endpoints import ENDPOINTS
from hotset.gateway.fields import ChatBody, CompletionBody
from hotset.telemetry.names import METRICS, MetricName
from hotset.telemetry.request_log import RequestEntry

DOCS = Path(__file__).parents[2] / "docs"
API = (DOCS / "tenant-api.md").read_text()
METRICS_PAGE = (DOCS / "metrics.md").read_text()


def rows(page: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| `")
    ]


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("body", [ChatBody, CompletionBody])
def test_every_field_is_documented_and_no_other(body: type[msgspec.Struct]) -> None:
    place = 1 if body is ChatBody else 2
    documented = {name for row in rows(API) if len(row) == 4 and row[place] and named(row[0]) for name in named(row[0])}
    assert documented == {field.encode_name for field in msgspec.structs.fields(body)}


def test_every_endpoint_is_documented() -> None:
    for path in (*ENDPOINTS, "/v1/models", "/healthz", "/readyz"):
        assert path in API


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_is_documented(metric: MetricName) -> None:
    name = metric.name + ("_total" if metric.kind == "counter" else "")
    (row,) = [row for row in rows(METRICS_PAGE) if named(row[0]) == [name]]
    assert row[1:] == [metric.kind, ", ".join(metric.labels) or "—", metric.help]


def test_every_field_of_the_request_log_is_documented() -> None:
    documented = [name for row in rows(METRICS_PAGE) if len(row) == 2 for name in named(row[0])]
    assert documented == [field.name for field in msgspec.structs.fields(RequestEntry)]
