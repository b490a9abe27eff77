from pathlib import Path

import pytest

from hotset.cli.demo.cast import BASE_NAME, CAST, TENANTS
from hotset.cli.demo.run import last_words
from hotset.cli.demo.setup import set_up
from tests.unit.cli.fake_admin import FakeAdmin

BASE, ADAPTERS = Path("/base"), Path("/adapters")


class SeenSteps:
    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int]] = []
        self.lines: list[str] = []

    def progress(self, title: str, done: int, total: int) -> None:
        self.seen.append((title, done, total))

    def done(self, text: str) -> None:
        self.lines.append(text)


def test_a_first_start_serves_every_adapter_and_gives_each_tenant_a_key() -> None:
    admin = FakeAdmin()

    tokens = set_up(admin, BASE, ADAPTERS, SeenSteps())

    assert [admin.versions[role.adapter]["state"] for role in CAST] == ["active"] * len(CAST)
    assert admin.bases[0]["name"] == BASE_NAME
    assert tuple(tokens) == TENANTS
    assert len(set(tokens.values())) == len(TENANTS)


def test_a_second_start_changes_nothing_but_the_keys() -> None:
    admin = FakeAdmin()
    first = set_up(admin, BASE, ADAPTERS, SeenSteps())
    admin.changes.clear()

    second = set_up(admin, BASE, ADAPTERS, SeenSteps())

    assert all(change.startswith("/keys") for change in admin.changes)
    assert not set(first.values()) & set(second.values())
    assert sum(key["revoked_at_s"] is None for key in admin.keys) == len(TENANTS)


def test_a_key_that_is_not_the_demos_is_left_alone() -> None:
    admin = FakeAdmin()
    admin.post("/keys", {"tenant": "acme", "label": "mine"})

    set_up(admin, BASE, ADAPTERS, SeenSteps())
    set_up(admin, BASE, ADAPTERS, SeenSteps())

    assert admin.keys[0]["revoked_at_s"] is None


@pytest.mark.parametrize("verb", ["prove", "approve", "promote", "/grants", "/keys"])
def test_a_start_that_broke_off_is_taken_up_where_it_ended(verb: str) -> None:
    admin = FakeAdmin(stop_before=verb)
    with pytest.raises(InterruptedError):
        set_up(admin, BASE, ADAPTERS, SeenSteps())
    admin.stop_before = None

    set_up(admin, BASE, ADAPTERS, SeenSteps())

    assert [admin.versions[role.adapter]["state"] for role in CAST] == ["active"] * len(CAST)
    steps = [change for change in admin.changes if " " in change]
    assert len(steps) == len(set(steps)) == 4 * len(CAST)


def test_long_steps_show_how_far_they_are() -> None:
    steps = SeenSteps()

    set_up(FakeAdmin(), BASE, ADAPTERS, steps)

    assert (f"base {BASE_NAME}, hash", 1, 2) in steps.seen
    assert ("acme/support: prove, start engine", 1, 2) in steps.seen
    assert sum(line.startswith("adapter") for line in steps.lines) == len(CAST)


def test_who_asked_for_the_story_alone_is_told_that_nothing_serves_any_more() -> None:
    assert last_words(Path("/state"), once=False) == "Serving; Ctrl-C ends it. State is in /state"
    told = last_words(Path("/state"), once=True)
    assert "without --once it serves on" in told
    assert told.endswith("/state")
