"""Breaks six rules on purpose, one at a time, in a copy of the source, and shows which tests notice.

``python -m tests.acceptance.mutations``: each mutation changes one decision, then runs the tests named for it against
the changed copy. They must pass on the unchanged copy and fail on the changed one. Exit status 0 where all six do.
"""

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Mutation:
    """One rule, broken in one place."""

    rule: str
    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


MUTATIONS = (
    Mutation(
        "I1",
        "every row of a mixed batch takes the last row's adapter",
        "src/hotset/engines/embedded/batch.py",
        "blocks.append(Block(chunk.sequence.engine_name, row, chunk.num_tokens))",
        "blocks.append(Block(chunks[-1].sequence.engine_name or chunk.sequence.engine_name, row, chunk.num_tokens))",
        ("tests/contract/test_engine_contract.py::test_each_version_answers_as_itself_alone_and_together",),
    ),
    Mutation(
        "I2",
        "a name that is not the tenant's own is looked up among everybody's",
        "src/hotset/routing/resolve.py",
        "entry = snapshot.aliases.get((key.tenant, alias)) if len(model) <= _MODEL_CHARS_MAX else None",
        "entry = next((e for (_, a), e in snapshot.aliases.items() if a == alias), None)",
        ("tests/unit/routing", "tests/integration/test_hostile_tenant.py"),
    ),
    Mutation(
        "I3",
        "a closing slot is unloaded while requests run in it",
        "src/hotset/residency/steps.py",
        "if slot.state is SlotState.CLOSING and slot.num_running == 0:",
        "if slot.state is SlotState.CLOSING:",
        ("tests/unit/residency", "tests/property/test_residency_machine.py", "tests/integration/test_agent.py"),
    ),
    Mutation(
        "I5",
        "a slot inside another tenant's reserve may be taken for one's own",
        "src/hotset/residency/room.py",
        "return [slot for slot in slots if borrowed.get(slot.account, 0) > least]",
        "return [slot for slot in slots if slot.account in borrowed]",
        ("tests/unit/residency", "tests/property/test_residency_machine.py"),
    ),
    Mutation(
        "I6",
        "bytes leave the trusted store without being compared with their digest",
        "src/hotset/storage/blobs.py",
        "found, size = _copy(blob, part, None)\n            if found != digest:",
        "found, size = _copy(blob, part, None)\n            if False:",
        ("tests/integration/test_agent.py", "tests/integration/storage"),
    ),
    Mutation(
        "I7",
        "the database lets a published version be changed",
        "src/hotset/storage/migrations/versions/0001_first_schema.py",
        'op.execute(_refuse("UPDATE", table))',
        "pass",
        ("tests/integration/storage/test_database.py",),
    ),
)


def copy_tree(root: Path) -> None:
    """Copy what a change is tried on to an empty folder."""
    for name in ("src", "tests", "pyproject.toml", "README.md", "LICENSE"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, root / name)


def replace_once(target: Path, old: str, new: str) -> None:
    """Change the one place of a file that reads like this."""
    text = target.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{target.name} changed; name the place anew: {old}"
    target.write_text(text.replace(old, new), encoding="utf-8")


def run_tests(root: Path, tests: tuple[str, ...]) -> tuple[int, list[str]]:
    """Run tests against a copy; return pytest's exit status and the names of those that failed."""
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:randomly", "-p", "no:cacheprovider", *tests],
        cwd=root,
        env={"PYTHONPATH": str(root / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    failed = [line.split(" ")[1] for line in finished.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return finished.returncode, failed


def try_mutation(mutation: Mutation) -> bool:
    """Break one rule in a fresh copy and say whether its tests noticed."""
    with tempfile.TemporaryDirectory(prefix="hotset-mutation-") as folder:
        root = Path(folder)
        copy_tree(root)
        replace_once(root / mutation.file, mutation.old, mutation.new)
        status, failed = run_tests(root, mutation.tests)
    caught = status == 1 and bool(failed)
    print(f"{mutation.rule}  {'caught' if caught else 'MISSED'}  {mutation.what}")
    for name in failed:
        print(f"      by {name}")
    return caught


def main() -> int:
    """Try every mutation; return the exit status."""
    caught = [try_mutation(mutation) for mutation in MUTATIONS]
    return 0 if all(caught) else 1


if __name__ == "__main__":
    sys.exit(main())
