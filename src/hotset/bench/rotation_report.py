"""What `hotset bench rotation` prints: the victims' first tokens and everybody's tokens a second, block by block."""

from collections.abc import Sequence

from hotset.bench.crowd import BlockTaken
from hotset.bench.report import Column, Report, Row, Section
from hotset.bench.rounds import Outcomes, over_rounds, ratio_over_rounds
from hotset.bench.stats import percentile, upper_bound


def build_report(setting: dict[str, str], kinds: Sequence[str], outcomes: Outcomes[BlockTaken]) -> Report:
    """Return the report of a run.

    Args:
        setting: The machine and the settings, as words.
        kinds: The kinds of block: the control, the rotation, and the rotation under plain LRU.
        outcomes: Every block's outcome.
    """
    control, rotation, lru = kinds
    taken = {kind: outcomes.rounds(kind, "") for kind in kinds}
    p95 = {kind: {n: each.first_token_p95_s for n, each in rounds.items()} for kind, rounds in taken.items()}
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
            Column(key="tokens", heading="all tenants", unit="tokens/s"),
            Column(key="refused", heading="refused", unit="requests"),
        ),
        rows=rows,
    )
    ratios = Section(
        title="Ratios, round by round",
        columns=(
            Column(key="p95", heading="victims' first token p95", unit="ratio", digits=2),
            Column(key="tokens", heading="tokens a second", unit="ratio", digits=2),
        ),
        rows=tuple(
            Row(
                side=f"{over} / {under}",
                figures={
                    "p95": ratio_over_rounds(p95[over], p95[under]),
                    "tokens": ratio_over_rounds(rates[over], rates[under]),
                },
            )
            for over, under in ((rotation, control), (lru, control), (rotation, lru))
        ),
    )
    return Report(bench="rotation", setting=setting, sections=(blocks, ratios), notes=_notes(p95, control, rotation))


def _notes(p95: dict[str, dict[int, float]], control: str, rotation: str) -> tuple[str, ...]:
    shared = sorted(p95[rotation].keys() & p95[control].keys())
    if len(shared) < 2:
        return ("one round gives no bound",)
    bound = upper_bound([p95[rotation][number] / p95[control][number] for number in shared])
    return (f"upper 95% bound of the victims' p95 ratio to the control: {bound:.2f}",)
