"""What `hotset bench rotation` prints: the victims' first tokens and everybody's tokens a second, block by block."""

from collections.abc import Mapping, Sequence

from hotset.bench.crowd import BlockTaken
from hotset.bench.report import Column, Report, Row, Section
from hotset.bench.rounds import Outcomes, over_rounds, ratio_over_rounds
from hotset.bench.stats import percentile, upper_bound

#: Of each kind of block, its rounds.
_Taken = Mapping[str, Mapping[int, BlockTaken]]


def build_report(
    setting: dict[str, str], kinds: Sequence[str], outcomes: Outcomes[BlockTaken], *, bench: str = "rotation"
) -> Report:
    """Return the report of a run.

    Args:
        setting: The machine and the settings, as words.
        kinds: The kinds of block: the control, the rotation, and, where there is one, the rotation under plain LRU.
        outcomes: Every block's outcome.
        bench: The command.
    """
    control, rotation, *lru = kinds
    taken = {kind: outcomes.rounds(kind, "") for kind in kinds}
    p95, p99 = _percentile_s(taken, 95), _percentile_s(taken, 99)
    rates = {kind: {n: each.tokens_per_s for n, each in rounds.items()} for kind, rounds in taken.items()}
    pairs = [(rotation, control), *((each, control) for each in lru), *((rotation, each) for each in lru)]
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
            for over, under in pairs
        ),
    )
    notes = (
        _note("p95", p95[rotation], p95[control]),
        _note("p99", p99[rotation], p99[control]),
        *victims_refused(taken),
    )
    return Report(bench=bench, setting=setting, sections=(_blocks_section(taken), ratios), notes=notes)


def victims_refused(taken: _Taken) -> tuple[str, ...]:
    """Say of each kind of block how many of the victims' requests were refused or failed; nothing where none was."""
    counts = {kind: sum(each.num_victims_refused for each in rounds.values()) for kind, rounds in taken.items()}
    return tuple(
        f"{kind}: {count} of the victims' requests were refused or failed; the first tokens are of the others"
        for kind, count in counts.items()
        if count
    )


def _blocks_section(taken: _Taken) -> Section:
    columns = (
        Column(key="p50", heading="victims' first token p50", unit="ms"),
        Column(key="p95", heading="victims' first token p95", unit="ms"),
        Column(key="p99", heading="victims' first token p99", unit="ms"),
        Column(key="tokens", heading="all tenants", unit="tokens/s"),
        Column(key="refused", heading="refused", unit="requests"),
    )
    rows: list[Row] = []
    for kind, rounds in taken.items():
        answered = {n: each for n, each in rounds.items() if each.first_token_s}
        figures = {
            "p50": over_rounds({n: 1000 * percentile(each.first_token_s, 50) for n, each in answered.items()}),
            "p95": over_rounds({n: 1000 * _first_token_s(each, 95) for n, each in rounds.items()}),
            "p99": over_rounds({n: 1000 * _first_token_s(each, 99) for n, each in rounds.items()}),
            "tokens": over_rounds({n: each.tokens_per_s for n, each in rounds.items()}),
            "refused": over_rounds({n: float(each.num_refused) for n, each in rounds.items()}),
        }
        rows.append(Row(side=kind, figures=figures))
    return Section(title="Blocks", columns=columns, rows=tuple(rows))


def _percentile_s(taken: _Taken, percent: float) -> dict[str, dict[int, float]]:
    return {kind: {n: _first_token_s(each, percent) for n, each in rounds.items()} for kind, rounds in taken.items()}


def _first_token_s(block: BlockTaken, percent: float) -> float:
    """Return a percentile of the victims' first tokens; of none, the whole block."""
    return percentile(block.first_token_s, percent) if block.first_token_s else block.seconds


def _note(name: str, rotation: dict[int, float], control: dict[int, float]) -> str:
    shared = sorted(rotation.keys() & control.keys())
    if len(shared) < 2:
        return f"one round gives no bound of the {name} ratio"
    bound = upper_bound([rotation[number] / control[number] for number in shared])
    return f"upper 95% bound of the victims' {name} ratio to the control: {bound:.2f}"
