"""Plants bugs in the production policies, one at a time, in a copy of the source, and lets the simulator look for them.

``python -m tests.acceptance.planted_bugs``: for each bug, fleets are simulated from seed 0 on until a rule breaks. The
unchanged source must be clean on as many seeds. Exit status 0 where every bug is found; each with its seed and rule.
"""

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.mutations import copy_tree, replace_once

_SEEDS_MAX = 60
_TIMEOUT_S = 400
_SIMULATE = ("-m", "hotset.cli", "bench", "simulate", "--seeds", str(_SEEDS_MAX), "--stop")
_BROKEN = re.compile(r"^seed (\d+): broken: (\S+)$", re.MULTILINE)
_EVENT = re.compile(r"^  at event (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Bug:
    """One mistake in one place, and the rules that it may break first."""

    rules: tuple[str, ...]
    what: str
    file: str
    old: str
    new: str


BUGS = (
    Bug(
        ("I1", "I6"),
        "two versions of one adapter have the same engine name",
        "src/hotset/core/ids.py",
        'identity = "\\x00".join((route.base, str(route.adapter), str(route.number), route.digest))',
        'identity = "\\x00".join((route.base, str(route.adapter)))',
    ),
    Bug(
        ("I2",),
        "a name that is not the tenant's own is looked up among everybody's",
        "src/hotset/routing/resolve.py",
        "entry = snapshot.aliases.get((key.tenant, alias)) if len(model) <= _MODEL_CHARS_MAX else None",
        "entry = next((e for (_, a), e in snapshot.aliases.items() if a == alias), None)",
    ),
    Bug(
        ("I4",),
        "a reclaimed slot goes before what was loaded into it has served anybody",
        "src/hotset/dispatch/clearing.py",
        "queued = queued[1:]",
        "pass",
    ),
    Bug(
        ("I5",),
        "a slot inside another tenant's reserve may be taken by one that borrows",
        "src/hotset/residency/room.py",
        "room = [*own, *_lent(idle, borrowed, own_borrowed if own_borrowed > 1 else 0)] or busy",
        "room = [*own, *idle] or busy",
    ),
    Bug(
        ("I6",),
        "an approval counts whoever signed it",
        "src/hotset/registry/approval.py",
        "public_key.verify(bytes.fromhex(approval.signature), statement(record))",
        "bytes.fromhex(approval.signature)",
    ),
    Bug(
        ("I8", "invariant"),
        "those that wait for a place when an engine dies are not told",
        "src/hotset/dispatch/dispatcher.py",
        "effects += self._refuse_queued(frozenset(), EngineUnavailableError.code, now_s)",
        "pass",
    ),
    Bug(
        ("I11",),
        "a request that waits goes on though its key was revoked",
        "src/hotset/routing/resolve.py",
        "        return UnauthenticatedError()",
        "        return None",
    ),
    Bug(
        ("I12",),
        "files of versions in slots are deleted when the local store is full",
        "src/hotset/residency/steps.py",
        "return {slot.name for slot in state.slots} | {slot.successor for slot in state.slots} | state.doubtful",
        "return set()",
    ),
    Bug(
        ("I8",),
        "what becomes of a job counts whoever says it, its fence or an old one",
        "src/hotset/admission/job_life.py",
        "return life.state is JobState.RUNNING and life.fence == fence",
        "return life.state is JobState.RUNNING",
    ),
    Bug(
        ("I8",),
        "a job is claimed though the lease of its holder runs",
        "src/hotset/admission/job_life.py",
        "return life.state is JobState.RUNNING and (life.lease_until_s or 0.0) <= now_s",
        "return life.state is JobState.RUNNING",
    ),
    Bug(
        ("fence",),
        "a second agent becomes a worker though the first lives",
        "src/hotset/routing/identity.py",
        "return Ruling.REFUSED if is_alive else Ruling.NEXT",
        "return Ruling.NEXT",
    ),
    Bug(
        ("pool",),
        "the worker of a dedicated pool serves whoever comes",
        "src/hotset/routing/standing.py",
        "is_ours = self.pool is None or snapshot.pool_of(tenant, self.base) == self.pool",
        "is_ours = True",
    ),
    Bug(
        ("drain",),
        "a worker that drains takes what still comes",
        "src/hotset/routing/standing.py",
        "return is_ours and self.takes_new",
        "return is_ours",
    ),
)


def simulate(root: Path) -> str:
    """Run the simulator of a copy until a rule breaks; return what it printed."""
    finished = subprocess.run(
        [sys.executable, *_SIMULATE],
        cwd=root,
        env={"PYTHONPATH": str(root / "src"), "PATH": "/usr/bin:/bin", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    return finished.stdout + finished.stderr


def is_found(bug: Bug) -> bool:
    """Plant a bug in a fresh copy and say whether the simulator found it."""
    with tempfile.TemporaryDirectory(prefix="hotset-bug-") as folder:
        root = Path(folder)
        copy_tree(root)
        replace_once(root / bug.file, bug.old, bug.new)
        printed = simulate(root)
    broken, event = _BROKEN.search(printed), _EVENT.search(printed)
    if broken is None or event is None:
        print(f"{bug.rules[0]:4} MISSED  {bug.what}\n{printed[-2000:]}")
        return False
    seed, rule = broken.groups()
    is_right = rule in bug.rules
    print(f"{rule:4} {'found' if is_right else 'OTHER'}  {bug.what}: seed {seed}, event {event[1]}", flush=True)
    return is_right


def main() -> int:
    """Try every bug; return the exit status."""
    found = [is_found(bug) for bug in BUGS]
    return 0 if all(found) else 1


if __name__ == "__main__":
    sys.exit(main())
