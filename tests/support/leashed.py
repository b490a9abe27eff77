"""Runs a command that ends with whoever started it, be that killed. On Linux; elsewhere it is just run.

`leashed(command)` is the command to start in its place. It keeps its process id.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

#: Source: prctl(2), PR_SET_PDEATHSIG. It outlives an exec, and speaks of the thread that started the process.
_SET_DEATH_SIGNAL = 1


def leashed(command: Sequence[str]) -> list[str]:
    """Return the command that runs `command` on a leash of this process."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def main() -> None:
    """Become the command."""
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != int(parent):  # it died before the leash was on
            sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
