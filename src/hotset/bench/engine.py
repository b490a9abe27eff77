"""`hotset bench engine`: tokens a second of the embedded engine beside PEFT's mixed batch and vLLM's CPU build.

One interleaved run over the same base, the same adapter folders, the same prompts and lengths, all in
bfloat16 with the same number of threads: batches of the bare base, of one adapter, and of all rows with
another adapter each.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from hotset.bench.children import Nursery
from hotset.bench.engine_batch import KINDS, BatchTime, Kind, SideAdapter, SideSetup, make_batch
from hotset.bench.engine_sides import HOTSET, PEFT, VLLM, EngineSide, only, start_all
from hotset.bench.gateway_sides import PeerSettings
from hotset.bench.procfs import machine_words
from hotset.bench.random_adapters import RANK_MAX, write_mix
from hotset.bench.report import Column, Report, Row, Section
from hotset.bench.rounds import Block, Outcomes, interleave, over_rounds, ratio_over_rounds
from hotset.bench.stats import Spread
from hotset.core.base import BaseVersion
from hotset.core.clock import SystemClock
from hotset.core.ids import BaseName
from hotset.storage.base_files import read_base_folder

_WARM_TOKENS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to run and for how long."""

    #: Folder of the base model.
    base_folder: Path
    #: Adapters to use first, each a folder in here; more are made until there is one a row.
    adapters_folder: Path | None = None
    batch_sizes: tuple[int, ...] = (8, 16)
    rounds: int = 3
    #: Batches of the bare base and of all distinct adapters, measured one right after the other, a batch size.
    pairs: int = 8
    prompt_tokens: int = 32
    #: Tokens generated a row, past any end of text.
    new_tokens: int = 48
    num_threads: int = 2
    #: Measure beside the peers; without them, only Hotset runs.
    with_peers: bool = True
    install_peers: bool = False
    peers_dir: Path = Path(".peers")
    requirements_dir: Path = Path("requirements")


def load_name(kind: Kind, size: int) -> str:
    """Return the name of the load of one batch size and kind, which is its column's key too."""
    return f"{kind}_b{size}"


def run(settings: Settings, say: Callable[[str], None] = lambda _: None) -> Report:
    """Run the whole comparison.

    Args:
        settings: What to run.
        say: Takes one line of progress at a time.

    Raises:
        EngineUnavailableError: Hotset's own engine, or a side under way, failed.
        VersionRefusedError: the base or an adapter of the folder is not one that is served.
    """
    clock, machine = SystemClock(), machine_words()
    base = read_base_folder(settings.base_folder, BaseName("bench"), ())
    with tempfile.TemporaryDirectory(prefix="hotset-bench-") as folder, Nursery(Path(folder), clock) as nursery:
        adapters = _adapters(settings, base, Path(folder) / "adapters", say)
        setup = SideSetup(
            base_folder=str(settings.base_folder.resolve()),
            adapters=adapters,
            rank_max=RANK_MAX,
            num_sequences_max=max(settings.batch_sizes),
            num_threads=settings.num_threads,
        )
        peers = PeerSettings(settings.peers_dir.absolute(), settings.requirements_dir, settings.install_peers)
        sides, absent = start_all(nursery, setup, peers if settings.with_peers else None, clock, say)
        measuring = _Measuring(settings, sides, tuple(a.name for a in adapters), base.shape.vocab_size, say)
        measuring.warm_up()
        outcomes, pairs = measuring.rounds(), measuring.pairs()
    versions = {side.name: side.version for side in sides}
    return build_report(settings, versions, absent, outcomes, pairs, machine=machine)


def _adapters(settings: Settings, base: BaseVersion, made: Path, say: Callable[[str], None]) -> tuple[SideAdapter, ...]:
    """Return one adapter a row of the largest batch: those of the folder first, then made ones."""
    count, found = max(settings.batch_sizes), list[SideAdapter]()
    for path in sorted(settings.adapters_folder.iterdir()) if settings.adapters_folder else ():
        if not (path / "adapter_config.json").exists():
            continue
        if (rank := highest_rank(path)) > RANK_MAX:
            say(f"leaving {path.name} out: rank {rank}; every side is started for ranks up to {RANK_MAX}")
        else:
            found.append(SideAdapter(path.name, str(path.resolve())))
    written = write_mix(made, base.shape, settings.base_folder.name, max(0, count - len(found)))
    return (*found[:count], *(SideAdapter(adapter.name, str(adapter.folder)) for adapter in written))


def highest_rank(folder: Path) -> int:
    """Return the highest rank that an adapter's configuration gives."""
    config = msgspec.json.decode((folder / "adapter_config.json").read_bytes(), type=_Ranks)
    return max(config.r, *config.rank_pattern.values(), 0)


class _Ranks(msgspec.Struct):
    r: int
    rank_pattern: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class _Measuring:
    settings: Settings
    sides: list[EngineSide]
    adapters: tuple[str, ...]
    vocab_size: int
    say: Callable[[str], None]

    def warm_up(self) -> None:
        """Ask every side once under every load."""
        for side in self.sides:
            self.say(f"warming {side.name} up")
            for load in _loads(self.settings.batch_sizes):
                self._ask(side, load, seed=0, new_tokens=_WARM_TOKENS)

    def rounds(self) -> Outcomes[BatchTime]:
        """Ask every side under every load, in turn."""
        by_name, outcomes = {side.name: side for side in self.sides}, Outcomes[BatchTime]()
        for block in interleave(list(by_name), list(_loads(self.settings.batch_sizes)), self.settings.rounds):
            self._measure(by_name[block.side], block, outcomes)
        return outcomes

    def pairs(self) -> Outcomes[BatchTime]:
        """Ask Hotset's engine for the bare base and for all distinct adapters, each pair within seconds.

        The machine's speed changes within a round of all sides by more than what an adapter costs, so that cost is
        measured between neighbours. Every second pair is asked in the other order.
        """
        own, outcomes = next(side for side in self.sides if side.name == HOTSET), Outcomes[BatchTime]()
        for number in range(self.settings.pairs):
            kinds: tuple[Kind, ...] = ("base", "distinct") if number % 2 == 0 else ("distinct", "base")
            for size in self.settings.batch_sizes:
                for kind in kinds:
                    self._measure(own, Block(number, load_name(kind, size), HOTSET), outcomes)
        return outcomes

    def _measure(self, side: EngineSide, block: Block, outcomes: Outcomes[BatchTime]) -> None:
        taken = self._ask(side, block.load, seed=1 + block.round, new_tokens=self.settings.new_tokens)
        outcomes.add(block, taken)
        self.say(f"round {block.round + 1} {block.load} {block.side}: {taken.tokens_per_s:,.0f} tokens/s")

    def _ask(self, side: EngineSide, load: str, *, seed: int, new_tokens: int) -> BatchTime:
        kind, size = _loads(self.settings.batch_sizes)[load]
        batch = make_batch(
            kind,
            size,
            self.adapters,
            vocab_size=self.vocab_size,
            prompt_tokens=self.settings.prompt_tokens,
            new_tokens=new_tokens,
            seed=seed,
        )
        with only(side, self.sides):
            return side.answer(batch)


def _loads(sizes: tuple[int, ...]) -> dict[str, tuple[Kind, int]]:
    return {load_name(kind, size): (kind, size) for size in sizes for kind in KINDS}


def build_report(
    settings: Settings,
    versions: dict[str, str],
    absent: dict[str, str],
    outcomes: Outcomes[BatchTime],
    pairs: Outcomes[BatchTime],
    *,
    machine: str = "",
) -> Report:
    """Return the report of a run.

    Args:
        settings: What was run.
        versions: The sides measured, in order, with their versions.
        absent: The sides that were not, and why.
        outcomes: Every block's outcome.
        pairs: Hotset's neighbouring blocks of the bare base and of distinct adapters.
        machine: Where, as words.
    """

    def rates(side: str, load: str, within: Outcomes[BatchTime] = outcomes) -> dict[int, float]:
        return {number: taken.tokens_per_s for number, taken in within.rounds(side, load).items()}

    setting = {
        "machine": machine,
        "base": f"{settings.base_folder.name}, bfloat16, {settings.num_threads} threads a side",
        "batches": f"{settings.prompt_tokens} prompt tokens, {settings.new_tokens} generated a row, prefill included",
        "rounds": f"{settings.rounds}, sides interleaved, the sides not asked stopped",
        "pairs": f"{settings.pairs} of Hotset's base and distinct batches, neighbours in time",
        **versions,
    }
    loads = _loads(settings.batch_sizes)
    columns = tuple(
        Column(key=key, heading=f"{kind}, batch {size}", unit="tokens/s") for key, (kind, size) in loads.items()
    )
    rows = [Row(side=side, figures={key: over_rounds(rates(side, key)) for key in loads}) for side in versions]
    rows += [Row(side=side, figures={}, note=why) for side, why in absent.items()]
    notes = (
        "distinct: every row another adapter, ranks 4 to 16 and targets mixed; one: all rows the first adapter",
        "vLLM's stock CPU build gives base rows in a mixed batch another adapter's answer; no batch here mixes them",
    )
    sections = (
        Section(title="Generated tokens a second", columns=columns, rows=tuple(rows)),
        _ratio_section(settings, versions, rates, lambda load: rates(HOTSET, load, pairs)),
    )
    return Report(bench="engine", setting=setting, sections=sections, notes=notes)


def _ratio_section(
    settings: Settings,
    versions: dict[str, str],
    rates: Callable[[str, str], dict[int, float]],
    paired: Callable[[str], dict[int, float]],
) -> Section:
    """Return Hotset's distinct batches over its base batches, pair by pair, and over each peer's, round by round."""
    sizes = settings.batch_sizes

    def against(peer: str, kind: Kind) -> dict[str, Spread | None]:
        pairs = {size: load_name(kind, size) for size in sizes}
        return {f"b{size}": ratio_over_rounds(rates(HOTSET, load), rates(peer, load)) for size, load in pairs.items()}

    own = {
        f"b{size}": ratio_over_rounds(paired(load_name("distinct", size)), paired(load_name("base", size)))
        for size in sizes
    }
    rows = [Row(side="hotset distinct / hotset base, in pairs", figures=own)]
    for peer in (PEFT, VLLM):
        if peer in versions:
            rows += [Row(side=f"hotset / {peer}, {kind}", figures=against(peer, kind)) for kind in reversed(KINDS)]
    columns = tuple(Column(key=f"b{size}", heading=f"batch {size}", unit="ratio", digits=2) for size in sizes)
    return Section(title="Ratios, within each pair or round", columns=columns, rows=tuple(rows))
