"""What a check started does not outlive it, however the check ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.support.leashed import leashed

ROOT = Path(__file__).parents[2]
SLEEP = "import time; time.sleep(300)"
#: A check that starts a sleeper, tells its process id, and waits.
LEASHED_CHECK = f"""
import subprocess, sys, time
from tests.support.leashed import leashed
print(subprocess.Popen(leashed([sys.executable, "-c", {SLEEP!r}]), start_new_session=True).pid, flush=True)
time.sleep(300)
"""
ORDERLY_CHECK = f"""
import subprocess, sys, time
from hotset.cli.ending import ending_in_order
sleeper = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], start_new_session=True)
with ending_in_order():
    try:
        print(sleeper.pid, flush=True)
        time.sleep(300)
    finally:
        sleeper.kill()
        sleeper.wait()
"""
#: A command that needs a server for a while, such as `hotset try`.
COMMAND_WITH_SERVER = """
import sys, time
from pathlib import Path
from hotset.cli.server_process import server_process
from hotset.core.clock import SystemClock
with server_process(Path(sys.argv[1]), SystemClock(), flags=("--port", "0", "--admin-port", "0")) as server:
    print(server.pid, flush=True)
    time.sleep(300)
"""


def end_check(check: str, number: signal.Signals, *arguments: str) -> tuple[int, int]:
    """Run a check until it told what it started, end it, and return that and its exit status."""
    command = [sys.executable, "-c", check, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        sleeper = int(running.stdout.readline())
        running.send_signal(number)
        return sleeper, running.wait(60)


def wait_gone(pid: int) -> bool:
    """Whether a process ends within a bound; one that nobody reaped yet has ended."""

    def is_gone() -> bool:
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    return within(is_gone, 60.0)


def within(is_so: Callable[[], bool], seconds: float) -> bool:
    deadline_s = time.monotonic() + seconds
    while time.monotonic() < deadline_s:
        if is_so():
            return True
        time.sleep(0.02)
    return is_so()


@pytest.mark.skipif(sys.platform != "linux", reason="a leash needs Linux")
def test_what_a_killed_check_started_ends_with_it() -> None:
    sleeper, status = end_check(LEASHED_CHECK, signal.SIGKILL)
    assert (status, wait_gone(sleeper)) == (-signal.SIGKILL, True)


def test_a_check_that_is_told_to_end_leaves_its_contexts() -> None:
    sleeper, status = end_check(ORDERLY_CHECK, signal.SIGTERM)
    assert (status, wait_gone(sleeper)) == (128 + signal.SIGTERM, True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_that_a_command_started_ends_with_it(number: signal.Signals, tmp_path: Path) -> None:
    server, status = end_check(COMMAND_WITH_SERVER, number, str(tmp_path / "home"))
    assert status in (128 + number, -number)
    assert wait_gone(server)


def test_a_leashed_command_keeps_its_process_id_its_words_and_its_status() -> None:
    command = leashed([sys.executable, "-c", "import os, sys; print(os.getpid(), sys.argv[1:]); sys.exit(3)", "a b"])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        said, _ = running.communicate(timeout=60)
    assert (said.strip(), running.returncode) == (f"{running.pid} ['a b']", 3)
    assert os.getpid() != running.pid
