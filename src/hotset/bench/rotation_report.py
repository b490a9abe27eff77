"""What `hotset bench rotation` prints: the victims' first tokens and everybody's tokens a second, block by block."""

from collections.abc import Sequence

from hotset.bench.crowd import BlockTaken
from hotset.bench.report import Column, Report, Row, Section
from hotset.bench.rounds import Outcomes, over_rounds, ratio_over_rounds
from hotset.bench.stats import percentile, upper_bound


def build_report(
    setting: dict[str, str], kinds: Sequence[str], outcomes: Outcomes[BlockTaken], *, bench: str = "rotation"
) -> Report:
    """Return the report of a run.

    Args:
        setting: The machine and the settings, as words.
        kinds: The kinds of block: the control, the rotation, and the rotation under plain LRU.
        outcomes: Every block's outcome.
        bench: The command.
    """
    control, rotation, lru = kinds
    taken = {kind: outcomes.rounds(kind, "") for kind in kinds}
    p95, p99 = (
        {kind: {n: _first_token_s(each, percent) for n, each in rounds.items()} for kind, rounds in taken.items()}
        for percent in (95, 99)
    )
    p50 = {
        kind: {n: percentile(each.first_token_s, 50) for n, each in rounds.items() if each.first_token_s}
        for kind, rounds in taken.items()
    }
    rates = {kind: {n: each.tokens_per_s for n, each in rounds.items()} for kind, rounds in taken.items()}
    rows = tuple(
        Row(
            side=kind,
            figures={
                "p50": over_rounds({n: 1000 * value for n, value in p50[kind].items()}),
                "p95": over_rounds({n: 1000 * value for n, value in p95[kind].items()}),
                "p99": over_rounds({n: 1000 * value for n, value in p99[kind].items()}),
                "tokens": over_rounds(rates[kind]),
                "refused": over_rounds({n: float(each.num_refused) for n, each in taken[kind].items()}),
            },
        )
        for kind in kinds
    )
    blocks = Section(
        title="Blocks",
        columns=(
            Column(key="p50", heading="victims' first token p50", unit="ms"),
            Column(key="p95", heading="victims' first token p95", unit="ms"),
            Column(key="p99", heading="victims' first token p99", unit="ms"),
            Column(key="tokens", heading="all tenants", unit="tokens/s"),
            Column(key="refused", heading="refused", unit="requests"),
        ),
        rows=rows,
    )
    ratios = Section(
        title="Ratios, round by round",
        columns=(
            Column(key="p95", heading="victims' first token p95", unit="ratio", digits=2),
            Column(key="p99", heading="victims' first token p99", unit="ratio", digits=2),
            Column(key="tokens", heading="tokens a second", unit="ratio", digits=2),
        ),
        rows=tuple(
            Row(
                side=f"{over} / {under}",
                figures={
                    "p95": ratio_over_rounds(p95[over], p95[under]),
                    "p99": ratio_over_rounds(p99[over], p99[under]),
                    "tokens": ratio_over_rounds(rates[over], rates[under]),
                },
            )
            for over, under in ((rotation, control), (lru, control), (rotation, lru))
        ),
    )
    notes = (_note("p95", p95[rotation], p95[control]), _note("p99", p99[rotation], p99[control]))
    return Report(bench=bench, setting=setting, sections=(blocks, ratios), notes=notes)


def _first_token_s(block: BlockTaken, percent: float) -> float:
    """Return a percentile of the victims' first tokens; of none, the whole block."""
    return percentile(block.first_token_s, percent) if block.first_token_s else block.seconds


def _note(name: str, rotation: dict[int, float], control: dict[int, float]) -> str:
    shared = sorted(rotation.keys() & control.keys())
    if len(shared) < 2:
        return f"one round gives no bound of the {name} ratio"
    bound = upper_bound([rotation[number] / control[number] for number in shared])
    return f"upper 95% bound of the victims' {name} ratio to the control: {bound:.2f}"
