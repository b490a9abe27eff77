"""The figures of the gateway bench: from the blocks' outcomes to the sections of its report."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hotset.bench.gateway_sides import DIRECT, HOTSET
from hotset.bench.load_job import Outcome
from hotset.bench.procfs import CpuTime
from hotset.bench.report import Column, Report, Row, Section
from hotset.bench.rounds import Outcomes, over_rounds, ratio_over_rounds
from hotset.bench.stats import Spread, percentile


@dataclass(frozen=True, slots=True)
class Measured:
    """One block: what the client saw, and the processor time the side took for it."""

    outcome: Outcome
    cpu: CpuTime


_MS, _US = 1e3, 1e6
Figure = Callable[[Measured], float | None]


def _latency(percent: float) -> Figure:
    def figure(measured: Measured) -> float | None:
        samples = measured.outcome.latencies
        return percentile(samples, percent) * _MS if samples else None

    return figure


def _on_time_per_second(measured: Measured) -> float | None:
    return measured.outcome.num_on_time / measured.outcome.seconds


def _per_second(measured: Measured) -> float | None:
    return measured.outcome.per_second


def _cpu_each(measured: Measured) -> float | None:
    """Microseconds of the side's own processor time an answer; for Hotset, less its engine process."""
    answered = measured.outcome.num_answered
    return measured.cpu.own_s * _US / answered if answered and measured.cpu.total_s else None


def _cpu_tree_each(measured: Measured) -> float | None:
    answered = measured.outcome.num_answered
    return measured.cpu.total_s * _US / answered if answered and measured.cpu.total_s else None


def _cpu_below_each(measured: Measured) -> float | None:
    answered = measured.outcome.num_answered
    return measured.cpu.below_s * _US / answered if answered and measured.cpu.total_s else None


@dataclass(frozen=True, slots=True)
class _Sheet:
    """Reads figures of all sides out of the outcomes."""

    sides: tuple[str, ...]
    absent: Mapping[str, str]
    outcomes: Outcomes[Measured]

    def values(self, side: str, load: str, figure: Figure) -> dict[int, float]:
        """One value a round, where the round has one."""
        taken = {number: figure(measured) for number, measured in self.outcomes.rounds(side, load).items()}
        return {number: value for number, value in taken.items() if value is not None}

    def spread(self, side: str, load: str, figure: Figure) -> Spread | None:
        return over_rounds(self.values(side, load, figure))

    def added(self, side: str, load: str, figure: Figure) -> Spread | None:
        """The side's figure less direct's, round by round."""
        via, direct = self.values(side, load, figure), self.values(DIRECT, load, figure)
        return over_rounds({number: via[number] - direct[number] for number in via if number in direct})

    def own_cpu(self, side: str) -> Figure:
        """Hotset's engine process is counted apart; a peer's children are all its own."""
        return _cpu_each if side == HOTSET else _cpu_tree_each

    def rows(self, figures: Callable[[str], dict[str, Spread | None]], *, with_direct: bool = True) -> tuple[Row, ...]:
        measured = [side for side in self.sides if with_direct or side != DIRECT]
        rows = [Row(side=side, figures=figures(side)) for side in measured]
        return (*rows, *(Row(side=side, figures={}, note=why) for side, why in self.absent.items()))


def build_report(
    sides: tuple[str, ...],
    absent: Mapping[str, str],
    outcomes: Outcomes[Measured],
    setting: dict[str, str],
    *,
    appendix: str = "",
) -> Report:
    """Return the report of a run.

    Args:
        sides: The sides measured, in order; `DIRECT` and `HOTSET` among them.
        absent: Peers that were not measured, and why.
        outcomes: Every block's outcome.
        setting: The settings, as words.
        appendix: Printed last.
    """
    sheet = _Sheet(sides, absent, outcomes)
    sections = [_latency_section(sheet), _throughput_section(sheet), _cpu_section(sheet)]
    if len(sides) > 2:
        sections.append(_ratio_section(sheet))
    return Report(
        bench="gateway",
        setting=setting,
        sections=tuple(sections),
        notes=_notes(sheet),
        appendix=appendix,
    )


def _latency_section(sheet: _Sheet) -> Section:
    columns = (
        Column(key="on_time_per_s", heading="answered meanwhile", unit="requests/s"),
        Column(key="p50_ms", heading="p50", unit="ms", digits=3),
        Column(key="p99_ms", heading="p99", unit="ms", digits=3),
        Column(key="added_p50_ms", heading="added p50", unit="ms", digits=3),
        Column(key="added_p99_ms", heading="added p99", unit="ms", digits=3),
    )

    def figures(side: str) -> dict[str, Spread | None]:
        via = {f"p{p}_ms": sheet.spread(side, "open", _latency(p)) for p in (50, 99)}
        via["on_time_per_s"] = sheet.spread(side, "open", _on_time_per_second)
        if side == DIRECT:
            return via
        return {**via, **{f"added_p{p}_ms": sheet.added(side, "open", _latency(p)) for p in (50, 99)}}

    return Section(
        title="Latency at a fixed rate, from the moment a request was due",
        columns=columns,
        rows=sheet.rows(figures),
    )


def _throughput_section(sheet: _Sheet) -> Section:
    columns = (
        Column(key="requests_per_s_c8", heading="c=8", unit="requests/s"),
        Column(key="p99_ms_c8", heading="c=8 p99", unit="ms", digits=2),
        Column(key="requests_per_s_c32", heading="c=32", unit="requests/s"),
        Column(key="p99_ms_c32", heading="c=32 p99", unit="ms", digits=2),
        Column(key="streams_per_s_c8", heading="SSE c=8", unit="streams/s"),
        Column(key="stream_p99_ms_c8", heading="SSE c=8 p99", unit="ms", digits=2),
        Column(key="stepwise_streams_per_s_c8", heading="stepwise SSE c=8", unit="streams/s"),
        Column(key="stepwise_p99_ms_c8", heading="stepwise SSE c=8 p99", unit="ms", digits=2),
    )

    def figures(side: str) -> dict[str, Spread | None]:
        return {
            "requests_per_s_c8": sheet.spread(side, "c8", _per_second),
            "p99_ms_c8": sheet.spread(side, "c8", _latency(99)),
            "requests_per_s_c32": sheet.spread(side, "c32", _per_second),
            "p99_ms_c32": sheet.spread(side, "c32", _latency(99)),
            "streams_per_s_c8": sheet.spread(side, "sse8", _per_second),
            "stream_p99_ms_c8": sheet.spread(side, "sse8", _latency(99)),
            "stepwise_streams_per_s_c8": sheet.spread(side, "steps8", _per_second),
            "stepwise_p99_ms_c8": sheet.spread(side, "steps8", _latency(99)),
        }

    return Section(title="Highest rate, closed loops", columns=columns, rows=sheet.rows(figures))


def _cpu_section(sheet: _Sheet) -> Section:
    columns = (
        Column(key="cpu_us_per_request", heading="a request", unit="µs"),
        Column(key="cpu_us_per_chunk", heading="a chunk", unit="µs", digits=1),
        Column(key="cpu_us_per_stepwise_chunk", heading="a stepwise chunk", unit="µs", digits=1),
        Column(key="engine_cpu_us_per_request", heading="engine process, a request", unit="µs"),
        Column(key="engine_cpu_us_per_chunk", heading="engine process, a chunk", unit="µs", digits=1),
    )

    def figures(side: str) -> dict[str, Spread | None]:
        own = sheet.own_cpu(side)
        taken = {
            "cpu_us_per_request": sheet.spread(side, "c8", own),
            "cpu_us_per_chunk": sheet.spread(side, "sse8", _each_chunk(own)),
            "cpu_us_per_stepwise_chunk": sheet.spread(side, "steps8", _each_chunk(own)),
        }
        if side == HOTSET:
            taken["engine_cpu_us_per_request"] = sheet.spread(side, "c8", _cpu_below_each)
            taken["engine_cpu_us_per_chunk"] = sheet.spread(side, "sse8", _each_chunk(_cpu_below_each))
        return taken

    title = "Processor time of the gateway's own processes, closed loop c=8"
    return Section(title=title, columns=columns, rows=sheet.rows(figures, with_direct=False))


def _each_chunk(figure: Figure) -> Figure:
    def each(measured: Measured) -> float | None:
        value = figure(measured)
        return None if value is None else value / measured.outcome.num_pieces

    return each


def _ratio_section(sheet: _Sheet) -> Section:
    columns = (
        Column(key="requests_c8", heading="requests/s c=8", unit="ratio", digits=2),
        Column(key="requests_c32", heading="requests/s c=32", unit="ratio", digits=2),
        Column(key="streams_c8", heading="streams/s c=8", unit="ratio", digits=2),
        Column(key="stepwise_streams_c8", heading="stepwise streams/s c=8", unit="ratio", digits=2),
        Column(key="cpu_per_request", heading="CPU a request", unit="ratio", digits=3),
        Column(key="cpu_per_chunk", heading="CPU a chunk", unit="ratio", digits=3),
    )

    def against(peer: str, load: str, ours: Figure, theirs: Figure) -> Spread | None:
        return ratio_over_rounds(sheet.values(HOTSET, load, ours), sheet.values(peer, load, theirs))

    def figures(peer: str) -> dict[str, Spread | None]:
        return {
            "requests_c8": against(peer, "c8", _per_second, _per_second),
            "requests_c32": against(peer, "c32", _per_second, _per_second),
            "streams_c8": against(peer, "sse8", _per_second, _per_second),
            "stepwise_streams_c8": against(peer, "steps8", _per_second, _per_second),
            "cpu_per_request": against(peer, "c8", _cpu_each, _cpu_tree_each),
            "cpu_per_chunk": against(peer, "sse8", _cpu_each, _cpu_tree_each),
        }

    peers = [side for side in sheet.sides if side not in (DIRECT, HOTSET)]
    rows = [Row(side=f"hotset / {peer}", figures=figures(peer)) for peer in peers]
    return Section(title="Ratios, round by round", columns=columns, rows=tuple(rows))


def _notes(sheet: _Sheet) -> tuple[str, ...]:
    """Say what readers must know, and every fault that the client saw."""
    notes = [
        "SSE: a whole stream's chunks are ready at once, each its own event; stepwise: each chunk is handed over alone",
        "load generator, upstream, engine and gateway share this machine's processors; read ratios first",
        "vllm-router checks no key, tenant or model name; LiteLLM checks one key and one model name",
    ]
    for block, measured in sheet.outcomes.by_block.items():
        for fault, count in measured.outcome.faults.items():
            notes.append(f"round {block.round + 1} {block.load} {block.side}: {count} times {fault}")
    return tuple(notes)
