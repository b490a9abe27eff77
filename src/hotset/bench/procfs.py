"""Processor time of a child and its descendants, and what the processor is, from Linux's ``/proc``."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class CpuTime:
    """Seconds of processor time, user and system together."""

    own_s: float
    #: Of all living descendants.
    below_s: float

    def since(self, earlier: "CpuTime") -> "CpuTime":
        """Return the time spent after `earlier`."""
        return CpuTime(self.own_s - earlier.own_s, self.below_s - earlier.below_s)

    @property
    def total_s(self) -> float:
        """The whole tree's time."""
        return self.own_s + self.below_s


def parse_stat(text: str) -> tuple[int, int, float]:
    """Return (process id, parent's id, seconds of processor time) of one ``/proc/PID/stat`` line."""
    head, _, tail = text.rpartition(")")  # the name in parentheses may hold anything
    fields = tail.split()
    return int(head.split(" ", 1)[0]), int(fields[1]), (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def tree_cpu(root: int, proc: Path = Path("/proc")) -> CpuTime:
    """Return the processor time of process `root` and of its descendants.

    Raises:
        ProcessLookupError: `root` is gone.
    """
    seconds: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            pid, parent, spent = parse_stat((folder / "stat").read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        seconds[pid] = spent
        children.setdefault(parent, []).append(pid)
    if root not in seconds:
        raise ProcessLookupError(root)
    below, waiting = 0.0, list(children.get(root, ()))
    while waiting:
        pid = waiting.pop()
        below += seconds[pid]
        waiting.extend(children.get(pid, ()))
    return CpuTime(seconds[root], below)


def num_cores() -> int:
    """Return how many cores this process may run on."""
    return len(os.sched_getaffinity(0))


def machine_words(proc: Path = Path("/proc")) -> str:
    """Return the processor's name, how many of them there are, and the load over the last minute."""
    lines = (proc / "cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    load = (proc / "loadavg").read_text().split()[0]
    return f"{len(names)} x {names[0] if names else 'unnamed processor'}, load {load} before the run"
