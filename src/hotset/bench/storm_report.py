"""What `hotset bench storm` prints: who was admitted, refused, served in budget; what was loaded; the warm tenants."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hotset.bench.asking import Answer
from hotset.bench.report import Column, Report, Row, Section
from hotset.bench.rounds import Outcomes, over_rounds, ratio_over_rounds
from hotset.bench.stats import median, percentile, upper_bound
from hotset.bench.workers import LoadSeen
from hotset.core.errors import FirstTokenBudgetExceededError
from hotset.core.ids import EngineName

CONTROL, STORM, MISSES = "control", "storm", "misses"
_TARGETS = (
    "targets: 99 % of the admitted and 90 % of those who came back served in budget, refusals within 10 ms, "
    "median error of the time to come back at most 25 %, one fetch and one load an adapter"
)


@dataclass(frozen=True, slots=True)
class Visit:
    """One client of a cold adapter."""

    first: Answer
    #: Where the first was refused, the second, asked when it was told to.
    again: Answer | None = None
    #: For how long the version was in its slot when it came back; None where it was in none.
    hot_for_s: float | None = None


@dataclass(frozen=True, slots=True)
class StormTaken:
    """What one block's clients saw."""

    #: Of the warm tenants.
    warm_first_token_s: tuple[float, ...]
    visits: tuple[Visit, ...]
    loads: tuple[LoadSeen, ...]
    budget_ms: int
    #: Of the warm tenants, too.
    num_warm_refused: int = 0

    @property
    def warm_p95_s(self) -> float:
        """The warm tenants' 95th percentile; of none, an hour."""
        return percentile(self.warm_first_token_s, 95) if self.warm_first_token_s else 3600.0

    def admitted(self) -> list[Visit]:
        """Return those that were let in at once."""
        return [visit for visit in self.visits if not visit.first.is_refused]

    def returned(self) -> list[Visit]:
        """Return those that were refused and came back."""
        return [visit for visit in self.visits if visit.again is not None]

    def num_answered(self) -> int:
        """Return how many got an answer, at first or when they came back."""
        return sum(not (visit.again or visit.first).code for visit in self.visits)

    def is_in_budget(self, answer: Answer) -> bool:
        """Whether a first token came in the budget."""
        return answer.first_token_s is not None and answer.first_token_s * 1000 <= self.budget_ms

    def errors(self) -> list[float]:
        """Return by how much the time to come back was off the time it took, as a part of that time.

        A version that was in its slot already was ready when it got there; one that was not, as late after the
        client's return as its first token came later than a warm one. One whose budget ran out took at least that
        long, too; of one that failed for another reason nothing is known.
        """
        usual_s = median(self.warm_first_token_s) if self.warm_first_token_s else 0.0
        errors: list[float] = []
        for visit in self.returned():
            assert visit.again is not None
            assert visit.first.retry_after_ms is not None
            told_s = visit.first.retry_after_ms / 1000
            if visit.hot_for_s is not None:
                took_s = max(0.001, told_s - visit.hot_for_s)
            elif visit.again.first_token_s is not None:
                took_s = told_s + max(0.0, visit.again.first_token_s - usual_s)
            elif visit.again.retry_after_ms is not None:
                took_s = told_s + visit.again.retry_after_ms / 1000
            elif visit.again.code == FirstTokenBudgetExceededError.code:
                took_s = told_s + self.budget_ms / 1000
            else:
                continue
            errors.append(abs(told_s - took_s) / took_s)
        return errors

    def words(self) -> str:
        """Return the block in a line."""
        told = f"warm first token p95 {1000 * self.warm_p95_s:.0f} ms"
        if not self.visits:
            return told
        return f"{told}, {len(self.admitted())} of {len(self.visits)} admitted, {self.num_answered()} answered"


def build_report(setting: dict[str, str], outcomes: Outcomes[StormTaken], *, sees_loads: bool = True) -> Report:
    """Return the report of a run.

    Args:
        setting: The machine and the settings, as words.
        outcomes: Every block's outcome.
        sees_loads: Whether it was seen what the blocks made workers load.
    """
    storms, misses = outcomes.rounds(STORM, ""), outcomes.rounds(MISSES, "")
    sections = (_storm_section(storms), _misses_section(misses, sees_loads=sees_loads), _warm_section(outcomes))
    notes = (*((_TARGETS,) if sees_loads else ()), *_codes(storms), *_warm_refused(outcomes), _bound(outcomes))
    return Report(bench="storm", setting=setting, sections=sections, notes=notes)


def _storm_section(storms: Mapping[int, StormTaken]) -> Section:
    columns = (
        Column(key="admitted", heading="admitted", unit="clients"),
        Column(key="in_budget", heading="of these in budget", unit="%", digits=1),
        Column(key="refused", heading="refused", unit="clients"),
        Column(key="refusal", heading="refusal, slowest", unit="ms", digits=2),
        Column(key="returned", heading="came back and were in budget", unit="%", digits=1),
        Column(key="error", heading="time to come back, median error", unit="%", digits=1),
    )
    figures = {
        "admitted": {n: float(len(taken.admitted())) for n, taken in storms.items()},
        "in_budget": _shares(storms, lambda taken: [visit.first for visit in taken.admitted()]),
        "refused": {n: float(len(taken.visits) - len(taken.admitted())) for n, taken in storms.items()},
        "refusal": {n: _slowest_refusal_ms(taken) for n, taken in storms.items()},
        "returned": _shares(storms, lambda taken: [visit.again for visit in taken.returned() if visit.again]),
        "error": {n: 100 * median(errors) for n, taken in storms.items() if (errors := taken.errors())},
    }
    row = Row(side=STORM, figures={key: over_rounds(values) for key, values in figures.items()})
    return Section(title="With a budget", columns=columns, rows=(row,))


def _misses_section(misses: Mapping[int, StormTaken], *, sees_loads: bool) -> Section:
    columns = (
        Column(key="clients", heading="clients at once", unit="clients"),
        Column(key="answered", heading="answered", unit="clients"),
    )
    of_loads = (
        Column(key="fetches", heading="fetches of one adapter, most", unit="fetches"),
        Column(key="loads", heading="loads of one adapter, most", unit="loads"),
    )
    figures: dict[str, dict[int, float]] = {
        "clients": {n: float(len(taken.visits)) for n, taken in misses.items()},
        "answered": {n: float(taken.num_answered()) for n, taken in misses.items()},
    }
    if sees_loads:
        columns += of_loads
        figures["fetches"] = {n: _most([each.name for each in t.loads if each.is_fetch]) for n, t in misses.items()}
        figures["loads"] = {n: _most([each.name for each in t.loads]) for n, t in misses.items()}
    row = Row(side=MISSES, figures={key: over_rounds(values) for key, values in figures.items()})
    return Section(title="Without a budget", columns=columns, rows=(row,))


def _warm_section(outcomes: Outcomes[StormTaken]) -> Section:
    columns = (
        Column(key="p95", heading="warm tenants' first token p95", unit="ms"),
        Column(key="ratio", heading=f"to {CONTROL}", unit="ratio", digits=2),
    )
    p95 = {kind: _warm_p95_ms(outcomes, kind) for kind in (CONTROL, STORM, MISSES)}
    rows = tuple(
        Row(side=kind, figures={"p95": over_rounds(each), "ratio": ratio_over_rounds(each, p95[CONTROL])})
        for kind, each in p95.items()
    )
    return Section(title="Warm tenants beside it", columns=columns, rows=rows)


def _warm_p95_ms(outcomes: Outcomes[StormTaken], kind: str) -> dict[int, float]:
    return {number: 1000 * taken.warm_p95_s for number, taken in outcomes.rounds(kind, "").items()}


def _shares(storms: Mapping[int, StormTaken], answers_of: Callable[[StormTaken], list[Answer]]) -> dict[int, float]:
    """Return how many of some answers in a hundred were in budget, round by round, where there were any."""
    found = {number: answers_of(taken) for number, taken in storms.items()}
    return {n: 100 * sum(map(storms[n].is_in_budget, some)) / len(some) for n, some in found.items() if some}


def _slowest_refusal_ms(taken: StormTaken) -> float:
    return max((1000 * visit.first.decided_s for visit in taken.visits if visit.first.is_refused), default=0.0)


def _most(names: Sequence[EngineName]) -> float:
    return float(max(Counter(names).values(), default=0))


def _codes(storms: Mapping[int, StormTaken]) -> tuple[str, ...]:
    """Say what the clients that came back were told where it was not an answer."""
    codes = Counter(v.again.code for taken in storms.values() for v in taken.returned() if v.again and v.again.code)
    return tuple(f"came back and was refused again: {code} {count}" for code, count in codes.most_common())


def _warm_refused(outcomes: Outcomes[StormTaken]) -> tuple[str, ...]:
    """Say in which kinds of block warm tenants' requests were refused or failed."""
    counts = {
        kind: sum(taken.num_warm_refused for taken in outcomes.rounds(kind, "").values())
        for kind in (CONTROL, STORM, MISSES)
    }
    return tuple(
        f"{kind}: {count} requests of the warm tenants were refused or failed"
        for kind, count in counts.items()
        if count
    )


def _bound(outcomes: Outcomes[StormTaken]) -> str:
    storm, control = _warm_p95_ms(outcomes, STORM), _warm_p95_ms(outcomes, CONTROL)
    if len(storm) < 2:
        return "one round gives no bound"
    bound = upper_bound([storm[number] / control[number] for number in sorted(storm)])
    return f"upper 95% bound of the warm tenants' p95 ratio of {STORM} to {CONTROL}: {bound:.2f}"
