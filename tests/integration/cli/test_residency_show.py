"""`hotset residency show` beside a running server, and without one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.server import RunningServer, running_server

Hotset = Callable[..., Any]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Give a server of two slots and three tenants, of which the first is owed one slot."""
    root = tmp_path_factory.mktemp("live")
    with running_server(root, adapters=3, kind="instant", engine={"num_slots": 2}) as server:
        server.admin.post("/tenants/tenant-0/quota", {"reserve_slots": 1})
        yield server


def ask(server: RunningServer, tenant: str) -> None:
    headers = {"Authorization": f"Bearer {server.tenants[tenant].token}"}
    body = {"model": "adapter", "prompt": "hello", "max_tokens": 2}
    answer = httpx.post(f"{server.url}/v1/completions", json=body, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text


def shown(command: Hotset, *options: object) -> dict[str, Any]:
    status, answer, _ = command("residency", "show", *options, "--json")
    assert (status, answer["unreached"]) == (0, [])
    (worker,) = answer["workers"]
    return worker


def metrics(server: RunningServer) -> str:
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(server.home / "run" / "admin.sock")), timeout=60) as client:
        return client.get("http://hotset/metrics").text


def test_without_a_server_it_says_that_one_is_needed(tmp_path: Path, hotset: Callable[[Path], Hotset]) -> None:
    command = hotset(tmp_path / "home")
    command("base", "list")
    for options in ((), ("--json",)):
        status, out, err = command("residency", "show", *options)
        assert (status, out, err.count("\n")) == (1, "", 1)
        assert err.startswith("engine_unavailable: No engine runs")
        assert "hotset serve" in err


def test_slots_tenants_and_what_goes_next_as_requests_come(
    live: RunningServer, hotset: Callable[[Path], Hotset]
) -> None:
    command = hotset(live.home)
    worker = shown(command)
    assert [slot["state"] for slot in worker["slots"]] == ["empty", "empty"]
    assert [share["tenant"] for share in worker["tenants"]] == ["tenant-0"]
    text = command("residency", "show")[1]
    assert "tiny on instant" in text
    assert "0 of 2 slots taken." in text
    assert "Next: a tenant without slots would get slot 0; no version has to go for it." in text

    ask(live, "tenant-0")
    ask(live, "tenant-1")
    worker = shown(command, "--base", "tiny")
    assert [(slot["state"], slot["version"], slot["account"]) for slot in worker["slots"]] == [
        ("hot", "tenant-0/adapter@1", "tenant-0"),
        ("hot", "tenant-1/adapter@1", "tenant-1"),
    ]
    ranks = [slot["rank"] for slot in worker["slots"]]
    assert sorted(ranks) == [4, 8]
    text = command("residency", "show")[1]
    alone = worker["slots"][ranks.index(8)]["version"]
    assert f"{alone} alone needs rank 8; the others need 4 at most." in text
    assert "A step computes each version at the rank of its slot." in text
    assert "Each slot is as large as rank" not in text  # this engine says nothing of it
    assert all(0 <= slot["hot_for_s"] < 60 and slot["load_s"] > 0 and slot["worth"] for slot in worker["slots"])
    assert [slot["num_running"] + slot["num_waiting"] for slot in worker["slots"]] == [0, 0]
    assert worker["next"] == {"slot": 1, "leaves": "tenant-1/adapter@1"}

    ask(live, "tenant-2")
    worker = shown(command)
    assert [slot["version"] for slot in worker["slots"]] == ["tenant-0/adapter@1", "tenant-2/adapter@1"]
    assert {
        share["tenant"]: (share["reserve"], share["limit"], share["held"], share["caused"], share["suffered"])
        for share in worker["tenants"]
    } == {
        "tenant-0": (1, 1, 1, {}, {}),
        "tenant-1": (0, 1, 0, {}, {"borrow": 1}),
        "tenant-2": (0, 1, 1, {"borrow": 1}, {}),
    }
    assert worker["warm"]["num_versions"] == 3
    assert sum(each["bytes"] for each in worker["warm"]["largest"]) == worker["warm"]["bytes"] > 0

    status, text, _ = command("residency", "show")
    assert status == 0
    for part in (
        "2 of 2 slots taken.",
        "borrow 1",
        "Next: a tenant without slots would get slot 1; tenant-2/adapter@1 would go.",
        "Local store: ",
        "versions: 3",
        "needed in",
    ):
        assert part in text, text
    warm = [line for line in metrics(live).splitlines() if line.startswith('hotset_adapter_resident_bytes{rank="')]
    assert sum(float(line.split()[1]) for line in warm if 'tier="warm"' in line) == worker["warm"]["bytes"]
    assert {line.partition('rank="')[2].partition('"')[0] for line in warm} == {"8", "16"}


def test_a_reserve_that_does_not_fit_is_said_aloud(live: RunningServer, hotset: Callable[[Path], Hotset]) -> None:
    live.admin.post("/tenants/tenant-1/quota", {"reserve_slots": 3})
    try:
        worker = shown(hotset(live.home))
        text = hotset(live.home)("residency", "show")[1]
    finally:
        live.admin.call("POST", "/tenants/tenant-1/quota", body={"reserve_slots": None})
    assert worker["reserves_cut"] == [{"tenant": "tenant-1", "reserve_slots": 3, "given": 1}]
    assert "Reserve of tenant-1 cut to 1 of 3" in text


def test_a_base_that_is_not_there_is_an_error(live: RunningServer, hotset: Callable[[Path], Hotset]) -> None:
    for name, code, expected in (("nowhere", "not_found: ", 1), ("..", "invalid_request: ", 2)):
        status, out, err = hotset(live.home)("residency", "show", "--base", name)
        assert (status, out, err.startswith(code)) == (expected, "", True), err
