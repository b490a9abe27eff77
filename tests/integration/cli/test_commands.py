"""Commands with no server, with one beside them, and with one elsewhere: the same answers everywhere."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hotset.storage.state_folder import StateFolder
from tests.support.adapters import make_adapter, tiny_base_shape
from tests.support.server import RunningServer, running_server, write_world

Hotset = Callable[..., Any]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("live"), adapters=2, kind="instant") as server:
        yield server


def test_without_a_server_the_state_folder_is_opened_under_its_lock(
    tmp_path: Path, hotset: Callable[[Path], Hotset]
) -> None:
    world, command = write_world(tmp_path, adapters=1), hotset(tmp_path / "home")
    status, _, err = command("base", "list")
    assert (status, "First admin token" in err, "hso_" in err) == (0, True, True)
    status, base, err = command(
        "base", "add", world / "base", "--name", "tiny", "--synonym", "acme/tiny-llama", "--json"
    )
    assert (status, base["name"], "hso_" in err) == (0, "tiny", False)
    command("tenant", "add", "acme")
    status, version, _ = command(
        "adapter", "push", world / "adapter-0", "acme/one", "--base", "tiny", "--promote", "--json"
    )
    assert (status, version["state"]) == (0, "active")
    assert [row["state"] for row in version["history"]] == ["published", "verified", "proved", "approved", "active"]
    status, text, _ = command("adapter", "list")
    assert (status, "acme/one@1" in text) == (0, True)
    status, grants, _ = command("grant", "list", "--json")
    assert [(row["tenant"], row["alias"]) for row in grants] == [("acme", "one")]
    assert command("store", "verify")[0] == 0
    assert command("audit", "verify")[0] == 0
    assert command("doctor")[0] == 0


def test_terms_are_set_part_by_part(tmp_path: Path, hotset: Callable[[Path], Hotset]) -> None:
    command = hotset(tmp_path / "home")
    command("tenant", "add", "acme")
    parts = ("requests_per_minute", "tokens_per_minute", "requests_in_flight_max", "first_token_budget_ms")
    status, issued, _ = command("key", "issue", "acme", "--requests-per-minute", 90, "--json")
    assert (status, tuple(issued["key"]["terms"][part] for part in parts)) == (0, (90.0, None, None, None))
    for options, expected in (
        (("--requests-per-minute", 60, "--requests-in-flight", 4), (60.0, None, 4, None)),
        (("--tokens-per-minute", "1e5", "--requests-per-minute", "none"), (None, 1e5, 4, None)),
        (("--first-token-budget-ms", 0, "--requests-in-flight", "none"), (None, 1e5, None, 0)),
    ):
        for whose in (("tenant", "set", "acme"), ("key", "set", issued["key"]["id"])):
            status, answer, _ = command(*whose, *options, "--json")
            assert status == 0
            found = tuple(answer["terms"][part] for part in parts)
            assert found == expected, (whose, options)
    status, text, _ = command("tenant", "set", "acme", "--tokens-per-minute", 200_000, "--reserve", 1)
    assert status == 0
    assert "reserve 1 and limit half" in text
    assert "no limit of requests a minute, 200,000 tokens a minute" in text
    assert "no first-token budget by default" in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("tenant", "set", "acme", "--requests-per-minute", "many"), "is a number or none"),
        (("tenant", "set", "acme", "--requests-in-flight", "1.5"), "is a whole number or none"),
        (("tenant", "set", "acme", "--tokens-per-minute", "nan"), "tokens_per_minute is from"),
        (("key", "set", "key-1"), "Say what is to change"),
        (("grant", "set", "acme", "a"), "Say what is to change"),
        (("grant", "set", "acme", "a", "--first-token-budget-ms", "600001"), "first_token_budget_ms is from"),
    ],
)
def test_terms_that_are_none_are_refused(
    tmp_path: Path, hotset: Callable[[Path], Hotset], options: tuple[object, ...], words: str
) -> None:
    status, _, err = hotset(tmp_path / "home")(*options)
    assert status == 2
    assert words in err


def test_a_quota_is_set_part_by_part(tmp_path: Path, hotset: Callable[[Path], Hotset]) -> None:
    command = hotset(tmp_path / "home")
    command("tenant", "add", "acme")
    parts = ("reserve_slots", "limit_slots", "loads_per_minute")
    for options, expected in (
        (("--reserve", 2, "--limit", 4), (2, 4, None)),
        (("--loads-per-minute", 7.5), (2, 4, 7.5)),
        (("--no-limit",), (2, None, 7.5)),
        (("--reserve", 0, "--no-loads-per-minute", "--limit", 3), (0, 3, None)),
    ):
        status, answer, _ = command("tenant", "set", "acme", *options, "--json")
        assert (status, tuple(answer[part] for part in parts)) == (0, expected), options
        assert command("tenant", "list", "--json")[1] == [answer]
    status, text, _ = command("tenant", "set", "acme", "--reserve", 1, "--no-limit", "--loads-per-minute", 30)
    assert (status, "reserve 1 and" in text, "limit half of" in text, "minute: 30." in text) == (0, True, True, True)
    assert command("tenant", "list")[1].splitlines()[1].split()[:8] == [
        *("acme", "active", "0", "0", "0"),
        *("1", "half", "30"),
    ]
    command("tenant", "set", "acme", "--limit", 5, "--no-loads-per-minute")
    assert command("tenant", "list")[1].splitlines()[1].split()[5:8] == ["1", "5", "default"]


def test_bytes_of_a_quota_are_written_as_people_write_them(tmp_path: Path, hotset: Callable[[Path], Hotset]) -> None:
    command = hotset(tmp_path / "home")
    command("tenant", "add", "acme")
    for options, expected in (
        (("--reserve-bytes", "512MiB", "--limit-bytes", "1.5GB"), (512 << 20, 1_500_000_000)),
        (("--reserve-bytes", "0"), (0, 1_500_000_000)),
        (("--no-limit-bytes",), (0, None)),
    ):
        status, answer, _ = command("tenant", "set", "acme", *options, "--json")
        assert (status, (answer["reserve_bytes"], answer["limit_bytes"])) == (0, expected), options
    status, text, _ = command("tenant", "set", "acme", "--reserve-bytes", "20 MB")
    assert (status, "reserve 20.0 MB and limit all of its local store" in text) == (0, True)
    assert "20.0 MB" in command("tenant", "list")[1]
    for options in (("--reserve-bytes", "many"), ("--limit-bytes", "1", "--no-limit-bytes"), ("--limit-bytes", "1.5B")):
        assert command("tenant", "set", "acme", *options)[0] == 2, options


def test_a_quota_that_makes_no_sense_is_refused_and_nothing_changes(
    tmp_path: Path, hotset: Callable[[Path], Hotset]
) -> None:
    command = hotset(tmp_path / "home")
    command("tenant", "add", "acme")
    command("tenant", "set", "acme", "--limit", 2)
    before = command("tenant", "list", "--json")[1]
    for options in (
        (),
        ("--reserve", -1),
        ("--limit", 0),
        ("--reserve", 3),
        ("--reserve", 5, "--limit", 4),
        ("--limit", 3, "--no-limit"),
        ("--loads-per-minute", 3, "--no-loads-per-minute"),
        ("--loads-per-minute", "nan"),
        ("--loads-per-minute", 0),
    ):
        status, out, err = command("tenant", "set", "acme", *options)
        assert (status, out, err.startswith("invalid_request: "), err.count("\n")) == (2, "", True, 1), (options, err)
    assert command("tenant", "set", "acme", "--reserve", "two")[0] == 2
    assert command("tenant", "list", "--json")[1] == before


def test_verify_says_the_same_of_a_folder_whether_or_not_the_base_is_registered(
    tmp_path: Path, hotset: Callable[[Path], Hotset]
) -> None:
    world, command = write_world(tmp_path, adapters=1), hotset(tmp_path / "home")
    bad = make_adapter(tmp_path / "bad", tiny_base_shape(), rank=4, config={"r": 5})
    command("base", "add", world / "base", "--name", "tiny", "--synonym", "acme/tiny-llama")
    for folder, expected in ((world / "adapter-0", 0), (bad, 2)):
        one = command("adapter", "verify", folder, "--base", "tiny", "--json")
        other = command("adapter", "verify", folder, "--base", world / "base", "--synonym", "acme/tiny-llama", "--json")
        assert one[0] == other[0] == expected
        assert one[1] == other[1]
    assert one[1]["code"] == "rank_mismatch"
    status, verdict, _ = command("adapter", "verify", world / "adapter-0", "--base", "tiny", "--max-rank", 2, "--json")
    assert (status, verdict["code"]) == (2, "rank_over_limit")
    assert command("adapter", "list", "--json")[1] == []


def test_errors_are_one_line_and_tell_refused_from_failed(tmp_path: Path, hotset: Callable[[Path], Hotset]) -> None:
    command = hotset(tmp_path / "home")
    command("base", "list")
    for arguments, status, code in (
        (("tenant", "add", "Acme"), 2, "invalid_"),
        (("tenant", "suspend", "nobody"), 1, "not_found: "),
        (("tenant", "set", "nobody", "--reserve", 1), 1, "not_found: "),
        (("explain", "nothing"), 1, "not_found: "),
        (("adapter", "show", "acme/x@0"), 2, "invalid_name: "),
        (("key", "issue", "acme", "--expires-in", "soon"), 2, "invalid_request: "),
        (("adapter", "purge", "acme/x@1"), 2, "invalid_request: "),
        (("adapter", "verify", tmp_path / "nowhere", "--base", tmp_path), 2, "invalid_request: "),
    ):
        found, out, err = command(*arguments)
        assert (found, out, err.startswith(code), err.count("\n")) == (status, "", True, 1), (arguments, err)
    assert command("tenant", "frobnicate")[0] == 2


def test_a_folder_that_another_process_holds(
    tmp_path: Path, hotset: Callable[[Path], Hotset], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hotset.cli.client._LOCK_WAIT_S", 0.0)
    with StateFolder(tmp_path).locked():
        status, _, err = hotset(tmp_path)("base", "list")
    assert status == 1
    assert err.startswith("state_locked: ")


def test_a_running_server_sees_a_command_at_once(live: RunningServer, hotset: Callable[[Path], Hotset]) -> None:
    command = hotset(live.home)
    status, issued, _ = command("key", "issue", "tenant-0", "--alias", "adapter", "--label", "test", "--json")
    assert status == 0
    assert models(live, issued["token"]) == ["adapter", "adapter@1"]
    assert command("key", "revoke", issued["key"]["id"], "--yes")[0] == 0
    assert models(live, issued["token"]) is None


def test_a_request_is_explained_without_its_prompt(live: RunningServer, hotset: Callable[[Path], Hotset]) -> None:
    body = {"model": "adapter", "messages": [{"role": "user", "content": "xyzzy"}], "max_tokens": 3}
    headers = {
        "Authorization": f"Bearer {live.tenants['tenant-1'].token}",
        "Hotset-First-Token-Budget-Ms": "600000",
    }
    answer = httpx.post(f"{live.url}/v1/chat/completions", json=body, headers=headers, timeout=60)
    assert answer.status_code == 200
    status, entry, _ = hotset(live.home)("explain", answer.headers["x-request-id"], "--json")
    assert (status, entry["tenant"], entry["adapter"], entry["version"]) == (0, "tenant-1", "tenant-1/adapter", 1)
    assert (entry["budget_ms"], entry["retry_after_ms"]) == (600_000, None)
    assert (entry["route"], entry["engine"]) == ("adapter -> tenant-1/adapter@1 on tiny", "instant 1")
    assert entry["waits"]["total_s"] >= entry["waits"]["answer_s"] >= 0
    assert "xyzzy" not in json.dumps(entry)
    status, text, _ = hotset(live.home)("explain", answer.headers["x-request-id"])
    assert status == 0
    assert "adapter -> tenant-1/adapter@1 on tiny" in text
    assert "xyzzy" not in text


def test_usage_and_top_show_what_was_served(live: RunningServer, hotset: Callable[[Path], Hotset]) -> None:
    command = hotset(live.home)
    body = {"model": "adapter", "messages": [{"role": "user", "content": "one two"}], "max_tokens": 3}
    headers = {"Authorization": f"Bearer {live.tenants['tenant-0'].token}"}
    before = usage_of(command, "tenant-0")
    for _ in range(2):
        assert httpx.post(f"{live.url}/v1/chat/completions", json=body, headers=headers, timeout=60).status_code == 200
    deadline = time.monotonic() + 60
    while (after := usage_of(command, "tenant-0"))["slot_seconds"] <= before["slot_seconds"]:
        assert time.monotonic() < deadline, "agents look at their slots every second"
        time.sleep(0.1)
    assert after["requests"] - before["requests"] == 2
    assert after["completion_tokens"] - before["completion_tokens"] == 6
    assert after["loads"] >= 1
    status, text, _ = command("usage", "--csv", "--since", "1h")
    header, *rows = text.splitlines()
    assert (status, header) == (0, ",".join(after))
    assert any(row.startswith("tenant-0,tenant-0/adapter,") for row in rows)
    status, now, _ = command("top", "--json")
    assert (status, now["workers"][0]["base"], now["workers"][0]["engine"]) == (0, "tiny", "instant 1")
    assert "tenant-0/adapter@1" in [slot["version"] for slot in now["workers"][0]["slots"]]
    assert "tenant-0" in [tenant["tenant"] for tenant in now["tenants"]]
    assert now["per_minute"]["requests"] >= 2
    status, text, _ = command("top", "--once")
    assert status == 0
    assert "tiny on instant 1" in text


def usage_of(command: Hotset, tenant: str) -> dict[str, Any]:
    status, answer, _ = command("usage", "--tenant", tenant, "--json")
    assert status == 0
    none: dict[str, Any] = dict.fromkeys(("requests", "completion_tokens", "loads", "slot_seconds"), 0)
    return next((row for row in answer["rows"] if row["adapter"] == f"{tenant}/adapter"), none)


def test_without_a_server_there_is_usage_and_nothing_goes_on(tmp_path: Path, hotset: Callable[[Path], Hotset]) -> None:
    command = hotset(tmp_path / "home")
    assert command("usage", "--json")[1]["rows"] == []
    status, _, err = command("top", "--once")
    assert status == 1
    assert "needs a running hotset serve" in err


def test_from_elsewhere_files_are_uploaded_and_links_are_not_followed(
    live: RunningServer, hotset: Callable[[Path], Hotset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = live.admin.post("/operators", {"name": "ada", "roles": ["publisher"]})
    monkeypatch.setenv("HOTSET_URL", live.process.admin_url)
    monkeypatch.setenv("HOTSET_TOKEN", operator["token"])
    command = hotset(tmp_path / "not-a-home")
    folder = make_adapter(tmp_path / "new", tiny_base_shape(), seed=77)
    status, version, _ = command("adapter", "push", folder, "tenant-0/uploaded", "--base", "tiny", "--json")
    assert (status, version["state"], version["publisher"]) == (0, "verified", "ada")
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    (folder / "tokenizer.json").symlink_to(secret)
    status, _, err = command("adapter", "push", folder, "tenant-0/linked", "--base", "tiny")
    assert status == 2
    assert err.startswith("file_link: ")
    status, _, err = command("base", "add", tmp_path, "--name", "other")
    assert status == 1
    assert err.startswith("permission_denied: ")
    assert not (tmp_path / "not-a-home").exists()
    monkeypatch.setenv("HOTSET_TOKEN", "hso_wrong")
    assert command("tenant", "list")[2].startswith("unauthenticated: ")
    monkeypatch.setenv("HOTSET_URL", "http://127.0.0.1:9")
    assert command("tenant", "list")[2].startswith("server_unreachable: ")
    monkeypatch.setenv("HOTSET_URL", live.url)
    assert command("tenant", "list")[0] == 1


def models(live: RunningServer, token: str) -> list[str] | None:
    answer = httpx.get(f"{live.url}/v1/models", headers={"Authorization": f"Bearer {token}"}, timeout=60)
    return [model["id"] for model in answer.json()["data"]] if answer.is_success else None
