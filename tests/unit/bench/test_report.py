import msgspec

from hotset.bench.report import Column, Report, Row, Section
from hotset.bench.stats import spread

REPORT = Report(
    bench="gateway",
    setting={"rounds": "2"},
    sections=(
        Section(
            title="Rates",
            columns=(Column(key="rate", heading="rate", unit="requests/s", digits=1),),
            rows=(
                Row(side="hotset", figures={"rate": spread([1234.5, 1300.0, 1200.0])}),
                Row(side="once", figures={"rate": spread([7.0])}),
                Row(side="peer 1.2", figures={}, note="not installed: do this"),
            ),
        ),
    ),
    notes=("read ratios first",),
    appendix="the end",
)


def test_the_table_shows_median_and_spread_and_every_side() -> None:
    text = REPORT.to_text()
    for shown in ("Rates", "requests/s", "1,234.5", "1,200.0 … 1,300.0", "read ratios first", "the end"):
        assert shown in text
    assert "not installed: do this" in text


def test_a_missing_figure_is_a_dash_and_a_single_round_has_no_spread() -> None:
    lines = REPORT.to_text().splitlines()
    assert "—" in next(line for line in lines if "peer 1.2" in line)
    row = next(number for number, line in enumerate(lines) if "once" in line)
    assert "7.0" in lines[row]
    assert "…" not in lines[row + 1]


def test_json_holds_every_figure_of_the_table() -> None:
    again = msgspec.json.decode(REPORT.to_json(), type=Report)
    assert again == REPORT
