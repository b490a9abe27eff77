"""Acceptance: the embedded engine's greedy tokens equal transformers + PEFT, in float32.

For each adapter and 20 prompts: alone, in batches of 16 with the other adapters and the base, after unload
and reload, and after 200 random load, unload, start and abort steps. A divergence counts as equal only where
the reference's two best logits lie within 1e-4; such cases are counted and printed.

    python -m tests.acceptance.peft_equality --base DIR [--adapters DIR] [--json]

Exit status 0: all equal. Takes about 8 minutes on 2 idle cores, most of it the reference.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from hotset.core.ids import BaseName
from hotset.core.messages import AdapterLoad
from hotset.engines.embedded.engine import EmbeddedEngine
from hotset.engines.embedded.settings import EmbeddedSettings
from hotset.storage.base_files import read_base_folder
from tests.acceptance.churn import Churn
from tests.acceptance.engine_runs import Answer, Question, Runner, prepare_load
from tests.acceptance.greedy import ReferenceAnswer, compare
from tests.acceptance.reference import Reference

EXAMPLES = Path(__file__).parents[2] / "examples"
DECLARED_BASE = "HuggingFaceTB/SmolLM2-135M-Instruct"
PHASES = ("alone", "batch of 16", "reloaded", "during churn", "after churn")
BASE = "(base)"


@dataclass
class Cell:
    """Results of one adapter in one phase."""

    num_equal: int = 0
    num_total: int = 0
    notes: list[str] = field(default_factory=list)
    num_ties: int = 0


class Equality:
    """Holds the reference answers and counts, for each adapter and phase, how many answers equal them."""

    def __init__(self, reference: dict[tuple[str | None, int], ReferenceAnswer]) -> None:
        self.reference = reference
        self.cells: dict[tuple[str, str], Cell] = {}

    def judge(self, phase: str, answers: list[Answer]) -> None:
        """Compare answers with the reference and count them under `phase`."""
        for answer in answers:
            adapter = answer.question.adapter or BASE
            cell = self.cells.setdefault((adapter, phase), Cell())
            expected = self.reference[(answer.question.adapter, answer.question.prompt)]
            verdict = compare(expected, tuple(answer.tokens))
            is_equal = verdict.is_equal and answer.failure is None
            cell.num_total += 1
            cell.num_equal += is_equal
            cell.num_ties += verdict.is_tie
            if verdict.is_tie or not is_equal:
                kind = "tie" if is_equal else "DIFFERENT"
                where = f"prompt {answer.question.prompt}, token {verdict.position}, lead {verdict.lead:.2e}"
                cell.notes.append(f"{kind}: {where}{', ' + answer.failure if answer.failure else ''}")

    def is_all_equal(self) -> bool:
        """Whether every answer of every phase was equal, and there was at least one in each phase."""
        phases = {phase for _, phase in self.cells}
        return phases == set(PHASES) and all(cell.num_equal == cell.num_total for cell in self.cells.values())


def compute_reference(
    reference: Reference,
    adapters: dict[str, Path],
    prompts: list[str],
    num_tokens: int,
    say: Callable[[str], None],
) -> dict[tuple[str | None, int], ReferenceAnswer]:
    """Return the reference answer of every adapter, and of the base (None), to every prompt."""
    answers: dict[tuple[str | None, int], ReferenceAnswer] = {}
    for adapter, folder in [(None, None), *adapters.items()]:
        model = reference.open(folder)
        for number, prompt in enumerate(prompts):
            answers[(adapter, number)] = reference.answer(model, prompt, num_tokens)
        say(f"reference: {adapter or BASE} answered {len(prompts)} prompts")
        del model
    return answers


def run_phases(
    runner: Runner,
    equality: Equality,
    loads: dict[str, list[AdapterLoad]],
    args: argparse.Namespace,
    say: Callable[[str], None],
) -> dict[str, int]:
    """Run all phases on one engine; return what the churn did."""
    names = {adapter: pair[0].engine_name for adapter, pair in loads.items()}
    numbers = range(len(runner.prompts))
    mixed = [Question(adapter, number) for number in numbers for adapter in [*loads, None]]
    engine = runner.engine
    blocks_before = engine.inventory().kv_blocks_used
    for pair in loads.values():
        runner.load(pair[0])
    equality.judge("alone", runner.run_batches(mixed, names, 1))
    say("alone: done")
    equality.judge("batch of 16", runner.run_batches(mixed, names, 16))
    say("batch of 16: done")
    for adapter in loads:
        engine.unload(names[adapter])
    for adapter in reversed(loads):  # another order, so that each version meets another one's old slot
        runner.load(loads[adapter][0])
    equality.judge("reloaded", runner.run_batches(mixed, names, 16))
    say("reloaded: done")
    versions = [(adapter, load) for adapter, pair in loads.items() for load in pair]
    churn = Churn(runner, versions, random.Random(args.seed))
    equality.judge("during churn", churn.run(args.churn_steps))
    say(f"churn: {churn.counts}")
    for name in engine.inventory().loaded:
        engine.unload(name)
    for pair in loads.values():
        runner.load(pair[0])
    equality.judge("after churn", runner.run_batches(mixed, names, 16))
    inventory = engine.inventory()
    if inventory.running or inventory.kv_blocks_used != blocks_before:
        raise AssertionError(f"the engine kept {inventory.running} and {inventory.kv_blocks_used} KV blocks")
    return churn.counts


def show_table(equality: Equality, adapters: list[str]) -> None:
    """Print how many answers were equal, and every tie and difference."""
    table = Table(title="Greedy tokens equal to transformers + PEFT (float32)")
    table.add_column("adapter")
    for phase in PHASES:
        table.add_column(phase, justify="right")
    for adapter in [*adapters, BASE]:
        cells = [equality.cells.get((adapter, phase), Cell()) for phase in PHASES]
        table.add_row(adapter, *(_cell_text(cell) for cell in cells))
    console = Console()
    console.print(table)
    for (adapter, phase), cell in equality.cells.items():
        for note in cell.notes:
            console.print(f"{adapter}, {phase}: {note}")
    ties = sum(cell.num_ties for cell in equality.cells.values())
    console.print(f"Ties within 1e-4 counted as equal: {ties}. All equal: {equality.is_all_equal()}.")


def _cell_text(cell: Cell) -> str:
    ties = f" ({cell.num_ties} ties)" if cell.num_ties else ""
    return f"{cell.num_equal}/{cell.num_total}{ties}"


def report_json(equality: Equality, counts: dict[str, int], seconds: float) -> str:
    """Return everything as one JSON document."""
    cells = [
        {
            "adapter": adapter,
            "phase": phase,
            "equal": cell.num_equal,
            "total": cell.num_total,
            "ties": cell.num_ties,
            "notes": cell.notes,
        }
        for (adapter, phase), cell in equality.cells.items()
    ]
    return json.dumps(
        {"all_equal": equality.is_all_equal(), "cells": cells, "churn": counts, "seconds": seconds}, indent=2
    )


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--adapters", type=Path, default=EXAMPLES / "adapters")
    parser.add_argument("--prompts", type=int, default=20, help="how many of examples/prompts.txt")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--churn-steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> int:
    """Run the check; return the exit status."""
    args = parse_args()
    torch.set_num_threads(args.threads)
    began = time.monotonic()

    def say(text: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - began:6.1f} s] {text}\n")

    prompts = (EXAMPLES / "prompts.txt").read_text(encoding="utf-8").splitlines()[: args.prompts]
    adapters = {folder.name: folder for folder in sorted(args.adapters.iterdir()) if folder.is_dir()}
    base = read_base_folder(args.base, BaseName("smollm2"), (DECLARED_BASE,))
    loads = {adapter: [prepare_load(folder, base, salt) for salt in "ab"] for adapter, folder in adapters.items()}
    say(f"{len(adapters)} adapters verified")
    reference = Reference(args.base)
    equality = Equality(compute_reference(reference, adapters, prompts, args.tokens, say))
    settings = EmbeddedSettings(
        base_folder=str(args.base), base=base, dtype="float32", num_slots=len(adapters) + 1, num_sequences_max=16
    )
    end_token = reference.tokenizer.eos_token.encode()
    runner = Runner(EmbeddedEngine(settings), prompts, args.tokens, end_token)
    say("the engine is up")
    counts = run_phases(runner, equality, loads, args, say)
    if args.json:
        sys.stdout.write(report_json(equality, counts, time.monotonic() - began) + "\n")
    else:
        show_table(equality, list(adapters))
    return 0 if equality.is_all_equal() else 1


if __name__ == "__main__":
    sys.exit(main())
