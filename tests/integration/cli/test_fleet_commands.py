"""`hotset pool`, `worker`, `freeze`: what they say to people and to programs, and how they refuse."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from hotset.core.ids import Digest, WorkerId
from hotset.storage.database import Database
from tests.support.bases import make_tiny_base
from tests.support.fleets import facts_of

Hotset = Callable[..., Any]


def prepared(root: Path, command: Hotset) -> Digest:
    """Register a base and two tenants; return the base's digest."""
    make_tiny_base(root / "base")
    base = command("base", "add", root / "base", "--name", "tiny", "--json")[1]
    for tenant in ("acme", "bolt"):
        command("tenant", "add", tenant)
    return Digest(base["digest"])


def registered(root: Path, base: Digest, *names: str) -> None:
    """Have workers be there, as if they had registered."""
    database = Database(root / "home" / "hotset.db")
    with database.write() as catalogue:
        for name in names:
            facts = msgspec.structs.replace(facts_of(name), base=base)
            catalogue.workers.register(facts, catalogue.advance_fence(), 1.0)
    database.close()


def test_pools_are_added_filled_listed_and_removed(tmp_path: Path, hotset: Callable[[Path], Hotset]) -> None:
    command = hotset(tmp_path / "home")
    assert "no base yet" in command("pool", "list")[1]
    base = prepared(tmp_path, command)
    registered(tmp_path, base, "gpu-1")
    text = command("pool", "add", "own", "--base", "tiny", "--dedicated", "--release-schedule", "mon 09:00-16:00")[1]
    assert text == "Added dedicated pool own of tiny.\n"
    status, text, err = command("pool", "assign", "own", "--tenant", "acme")
    assert (status, text) == (0, "acme is in pool own.\n")
    assert "nothing serves acme until one is assigned" in err.replace("\n", " ")
    assert command("pool", "assign", "own", "--worker", "gpu-1", "--json")[1][0]["workers"] == ["gpu-1"]
    assert command("pool", "assign", "own", "--tenant", "acme")[2] == ""
    status, found, _ = command("pool", "list", "--json")
    assert [(row["pool"], row["tenants"]) for row in found] == [("default", None), ("own", ["acme"])]
    text = command("pool", "list")[1]
    for part in ("all others", "own", "dedicated", "mon 09:00-16:00", "acme", "gpu-1"):
        assert part in text
    assert command("pool", "set", "own", "--no-release-schedule", "--json")[1]["release_schedule"] is None
    status, _, err = command("pool", "remove", "own", "--yes")
    assert (status, err.startswith("conflict: ")) == (1, True)
    command("pool", "assign", "default", "--tenant", "acme", "--base", "tiny")
    command("pool", "assign", "default", "--worker", "gpu-1")
    assert command("pool", "remove", "own", "--yes")[1] == "There is no pool own any more.\n"


def test_what_is_wrongly_asked_of_pools_is_told(tmp_path: Path, hotset: Callable[[Path], Hotset]) -> None:
    command = hotset(tmp_path / "home")
    for arguments in (
        ("pool", "assign", "own"),
        ("pool", "assign", "own", "--tenant", "acme", "--worker", "gpu-1"),
        ("pool", "set", "own"),
        ("pool", "set", "own", "--release-schedule", "mon 09:00-16:00", "--no-release-schedule"),
        ("pool", "remove", "own"),
    ):
        status, _, err = command(*arguments)
        assert (status, err.startswith("invalid_request: ")) == (2, True), arguments


def test_workers_are_listed_cordoned_drained_and_taken_back(tmp_path: Path, hotset: Callable[[Path], Hotset]) -> None:
    command = hotset(tmp_path / "home")
    base = prepared(tmp_path, command)
    assert command("worker", "list")[1].startswith("No worker has registered: hotset worker runs one, and it does once")
    registered(tmp_path, base, "gpu-1", "gpu-2")
    assert "gets no more requests" in command("worker", "cordon", "gpu-1")[1]
    status, text, _ = command("worker", "drain", "gpu-2", "--wait", 0.1)
    assert (status, "is not known, as it is not heard" in text) == (1, True)  # nobody heard that it is idle
    assert "unreached" in command("worker", "drain", "gpu-2", "--wait", 0.1, "--json")[1]
    found = command("worker", "list", "--json")[1]
    assert [(row["worker"], row["state"]) for row in found] == [("gpu-1", "cordoned"), ("gpu-2", "draining")]
    text = command("worker", "list")[1]
    for part in ("gpu-1", "cordoned", "draining", "default", "tiny"):
        assert part in text
    assert command("worker", "uncordon", "gpu-1")[1] == "Worker gpu-1 serves.\n"
    status, _, err = command("worker", "cordon", "gpu-9")
    assert (status, err.startswith("not_found: ")) == (1, True)
    status, _, err = command("worker", "remove", "gpu-1", "--yes")
    assert (status, err.startswith("conflict: ")) == (1, True)
    database = Database(tmp_path / "home" / "hotset.db")
    with database.write() as catalogue:
        catalogue.workers.mark_lost(WorkerId("gpu-1"), is_lost=True)
    database.close()
    assert " lost " in command("worker", "list")[1]
    assert command("worker", "remove", "gpu-1", "--yes")[1] == "Worker gpu-1 is forgotten.\n"


def test_where_a_request_would_go_is_shown(tmp_path: Path, hotset: Callable[[Path], Hotset]) -> None:
    command = hotset(tmp_path / "home")
    prepared(tmp_path, command)
    command("grant", "add", "acme", "--base", "tiny", "--alias", "plain")
    text = command("worker", "pick", "acme", "plain")[1]
    assert text == "plain of acme (pool default) would be refused, as nobody serves it now; at home: nowhere.\n"
    status, _, err = command("worker", "pick", "bolt", "plain")
    assert (status, err.startswith("model_not_found: ")) == (1, True)


def test_a_freeze_holds_until_it_is_ended(tmp_path: Path, hotset: Callable[[Path], Hotset]) -> None:
    command = hotset(tmp_path / "home")
    assert command("freeze")[1].startswith("Frozen: ")
    assert command("freeze", "--json")[1] == {"is_frozen": True, "unreached": []}
    assert command("unfreeze", "--json")[1] == {"is_frozen": False, "unreached": []}
    assert "--after 1." in command("audit", "list", "--limit", 1)[1]
    entries = command("audit", "list", "--json")[1]
    assert [row["action"] for row in entries if row["subject"] == "fleet"] == ["freeze", "unfreeze"]
