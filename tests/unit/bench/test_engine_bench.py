from pathlib import Path

import msgspec
import pytest

from hotset.bench.engine import Settings, build_report, load_name
from hotset.bench.engine_batch import KINDS, Batch, BatchTime, SideAdapter, SideSetup, make_batch
from hotset.bench.engine_sides import HOTSET, PEFT, VLLM
from hotset.bench.engine_vllm import start_command
from hotset.bench.peers import VLLM_CPU, Installed
from hotset.bench.report import Section
from hotset.bench.rounds import Block, Outcomes, interleave

NAMES = tuple(f"a{number}" for number in range(16))


def batch(kind: str, size: int, seed: int = 1) -> Batch:
    return make_batch(kind, size, NAMES, vocab_size=1000, prompt_tokens=5, new_tokens=7, seed=seed)  # type: ignore[arg-type]


def test_rows_ask_the_base_one_adapter_or_each_another() -> None:
    assert batch("base", 8).adapters == (None,) * 8
    assert batch("one", 8).adapters == ("a0",) * 8
    assert len(set(batch("distinct", 16).adapters)) == 16


def test_every_side_of_a_round_gets_the_same_prompts_and_each_round_others() -> None:
    assert batch("one", 8) == batch("one", 8)
    assert batch("one", 8).prompts == batch("base", 8).prompts
    assert batch("base", 8, seed=2).prompts != batch("base", 8).prompts
    assert {len(prompt) for prompt in batch("base", 8).prompts} == {5}


def test_a_batch_needs_an_adapter_a_row() -> None:
    with pytest.raises(AssertionError):
        make_batch("distinct", 8, ("a",), vocab_size=1000, prompt_tokens=1, new_tokens=1, seed=0)


def test_messages_of_a_side_round_trip() -> None:
    sent = batch("one", 2)
    assert msgspec.json.decode(msgspec.json.encode(sent), type=Batch) == sent


def test_vllm_serves_every_adapter_from_the_start_at_the_lowest_rank_that_fits() -> None:
    setup = SideSetup(
        base_folder="/b",
        adapters=(SideAdapter("x", "/x"), SideAdapter("y", "/y")),
        rank_max=16,
        num_sequences_max=8,
        num_threads=2,
    )
    command = start_command(Installed(VLLM_CPU, Path("/p")), setup, 99)
    assert command[-3:] == ("--lora-modules", "x=/x", "y=/y")
    for name, value in (("--max-loras", "2"), ("--max-lora-rank", "16"), ("--max-num-seqs", "8")):
        assert command[command.index(name) + 1] == value
    assert "OMP_NUM_THREADS=2" in command


def pairs_of(settings: Settings, ratio: float) -> Outcomes[BatchTime]:
    pairs = Outcomes[BatchTime]()
    for number in range(settings.pairs):
        for size in settings.batch_sizes:
            # The machine is slower in every second pair, and both batches of a pair meet it alike.
            seconds = 1.0 if number % 2 else 2.0
            for kind, tokens in (("base", 1000), ("distinct", round(1000 * ratio))):
                block = Block(number, f"{kind}_b{size}", HOTSET)
                pairs.add(block, BatchTime(seconds=seconds, num_tokens=tokens))
    return pairs


SPEED = {HOTSET: 200.0, PEFT: 50.0, VLLM: 100.0}


def outcomes_of(settings: Settings, sides: list[str]) -> Outcomes[BatchTime]:
    outcomes = Outcomes[BatchTime]()
    loads = [load_name(kind, size) for size in settings.batch_sizes for kind in KINDS]
    for block in interleave(sides, loads, settings.rounds):
        slow = 0.8 if block.load.startswith("distinct") else 1.0
        outcomes.add(block, BatchTime(seconds=1 / SPEED[block.side], num_tokens=1 if slow == 1.0 else 0.8))  # type: ignore[arg-type]
    return outcomes


def figure(section: Section, side: str, key: str) -> float:
    row = next(row for row in section.rows if row.side == side)
    taken = row.figures[key]
    assert taken is not None
    return taken.median


def test_the_report_holds_rates_and_ratios_of_every_side() -> None:
    settings = Settings(base_folder=Path("/bases/tiny"), rounds=2)
    outcomes = outcomes_of(settings, [HOTSET, PEFT, VLLM])
    pairs = pairs_of(settings, ratio=0.75)
    report = build_report(settings, dict.fromkeys((HOTSET, PEFT, VLLM), "1.0"), {}, outcomes, pairs)
    rates, ratios = report.sections
    assert figure(rates, PEFT, "base_b8") == pytest.approx(50.0)
    assert figure(rates, HOTSET, "distinct_b16") == pytest.approx(160.0)
    assert figure(ratios, "hotset distinct / hotset base, in pairs", "b8") == pytest.approx(0.75)
    assert figure(ratios, f"hotset / {PEFT}, distinct", "b16") == pytest.approx(4.0)
    assert figure(ratios, f"hotset / {VLLM}, one", "b8") == pytest.approx(2.0)


def test_a_peer_that_is_not_there_is_shown_with_the_reason() -> None:
    settings = Settings(base_folder=Path("/bases/tiny"), rounds=1)
    outcomes, pairs = outcomes_of(settings, [HOTSET]), pairs_of(settings, ratio=0.75)
    report = build_report(settings, {HOTSET: "1.0"}, {VLLM: "not installed: do"}, outcomes, pairs)
    assert "not installed: do" in report.to_text()
    assert all(VLLM not in row.side for row in report.sections[1].rows)
