"""Kills a process that publishes, proves, approves and promotes at a chosen point, and checks what a restart finds.

A point is one call into the operating system or SQLite: open, write, fsync, link, rename, unlink, execute, commit and
the like, in any thread, counted from the moment the state folder is opened. The child kills itself with SIGKILL just
before the chosen call, so the same point is the same moment in every run (as far as its threads allow).
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from hotset.core.ids import AdapterId, TenantId
from hotset.registry.approval import check_approval
from tests.support.installation import Installation, installation

CALLS = frozenset(
    ("open", "write", "fsync", "replace", "rename", "link", "unlink", "mkdir", "rmdir", "chmod", "execute", "commit")
)
OWNER = TenantId("acme")
SUPPORT = AdapterId(OWNER, "support")
_REPOSITORY = Path(__file__).parents[2]


def prepare(root: Path) -> None:
    """Make an installation that serves version 1 of an adapter, and the folder of a version to come."""

    async def story() -> None:
        async with installation(root) as inst:
            await inst.add_base()
            await inst.ok("POST", "/tenants", {"tenant": OWNER})
            await inst.serve(str(SUPPORT), inst.adapter("first", seed=1))
            inst.adapter("second", seed=2)

    asyncio.run(story())


def count_points(prepared: Path, scratch: Path) -> dict[str, int]:
    """Run the child to its end; return the point at which each step began, ``done`` the last."""
    steps = [line.split() for line in _run_child(prepared, scratch, 0)]
    return {step: int(count) for step, count in steps}


def kill_at(prepared: Path, scratch: Path, point: int) -> str:
    """Copy a prepared installation to `scratch`, run the child on it, kill it at `point`; return its last step."""
    return _run_child(prepared, scratch, point)[-1].split()[0]


def _run_child(prepared: Path, scratch: Path, point: int) -> list[str]:
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(prepared / "state", scratch / "state")
    shutil.copytree(prepared / "adapters", scratch / "adapters")
    command = [sys.executable, "-m", "tests.support.kill_points", str(scratch), str(point)]
    child = subprocess.run(command, cwd=_REPOSITORY, stdout=subprocess.PIPE, check=False, timeout=120)
    steps = child.stdout.decode().splitlines()
    assert child.returncode == (-signal.SIGKILL if point else 0), (child.returncode, point, steps)
    return steps


def check(scratch: Path) -> str:
    """Restart on what the kill left; return the state in which version 2 was found, or ``absent``.

    Asserts that nothing is half there, nothing approved is lost, and that doing the work again succeeds.
    """
    found: list[str] = []

    async def story() -> None:
        async with installation(scratch) as inst:
            await _check_whole(inst)
            found.append(await _state_of_second(inst))
            await _finish(inst)
            await _check_whole(inst)

    asyncio.run(story())
    return found[0]


async def _check_whole(inst: Installation) -> None:
    store = await inst.ok("POST", "/store/verify", {})
    assert (store["damaged"], store["missing"]) == ([], []), store
    adapter = await inst.ok("GET", f"/adapters/{SUPPORT}")
    names = {entry["digest"] for version in adapter["versions"] for entry in version["files"]}
    assert set(inst.control.blobs.digests()) == names, "blobs are exactly those that versions name"
    for version in adapter["versions"]:
        assert version["history"][-1]["state"] == version["state"], version
        assert len(version["files"]) == 2, version
        is_approved = version["state"] in ("approved", "active", "standby")
        assert is_approved == (version["approval"] is not None), version
        assert (version["proofs"] != []) == (is_approved or version["state"] == "proved"), version
    assert adapter["versions"][0]["state"] in ("active", "standby"), "an approved version was lost"
    assert sum(version["state"] == "active" for version in adapter["versions"]) == 1, adapter
    for record in inst.holder.newest.versions.values():
        check_approval(record, inst.folder.reviewer_keys())
        for entry in record.manifest.files:
            inst.control.blobs.verify(entry.digest)
    assert (await inst.ok("GET", "/audit/verify"))["is_intact"]


async def _state_of_second(inst: Installation) -> str:
    versions = (await inst.ok("GET", f"/adapters/{SUPPORT}"))["versions"]
    assert len(versions) <= 2, "a version was published twice"
    return versions[1]["state"] if len(versions) == 2 else "absent"


async def _finish(inst: Installation) -> None:
    """Do the whole work again, as a person would who saw their command break off."""
    version = await inst.push(str(SUPPORT), inst.root / "adapters" / "second")
    assert version["ref"] == f"{SUPPORT}@2"
    for state, verb in (("verified", "prove"), ("proved", "approve"), ("approved", "promote")):
        if version["state"] == state:
            version = await inst.step(version["ref"], verb)
    assert version["state"] == "active"


class _Killer:
    """Counts calls in every thread and ends the process before the chosen one."""

    def __init__(self, point: int) -> None:
        self.count = 0
        self._point = point

    def start(self) -> None:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def stop(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _profile(self, _frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and getattr(function, "__name__", "") in CALLS:
            self.count += 1
            if self.count == self._point:
                os.kill(os.getpid(), signal.SIGKILL)


async def _work(root: Path, killer: _Killer) -> None:
    def say(step: str) -> None:
        os.write(1, f"{step} {killer.count}\n".encode())

    killer.start()
    say("open")
    async with installation(root) as inst:
        say("push")
        version = await inst.push(str(SUPPORT), root / "adapters" / "second")
        for verb in ("prove", "approve", "promote"):
            say(verb)
            await inst.step(version["ref"], verb)
        say("close")
    killer.stop()
    say("done")


if __name__ == "__main__":
    asyncio.run(_work(Path(sys.argv[1]), _Killer(int(sys.argv[2]))))
