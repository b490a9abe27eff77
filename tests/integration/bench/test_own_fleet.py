"""The scenarios on a server that runs: over HTTP, with keys from files, and what ends them."""

import asyncio
import json
import socket
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from hotset.bench.crowd import Habits, Pace
from hotset.bench.own_fleet import OwnFleet, Reached, read_key, run_on_fleet
from hotset.bench.own_scenarios import Settings, run_cliff, run_rotation, run_storm
from hotset.bench.stats import Spread
from hotset.cli.main import app
from hotset.core.errors import EngineTimeoutError, InvalidRequestError, ServerUnreachableError, UnauthenticatedError
from tests.support.server import BASE, RunningServer, running_server, write_world

pytestmark = pytest.mark.timeout(240)
#: Two victims with an adapter each, and one tenant with as many as there are folders.
NUM_MANY = 4
SLOTS_LEFT = 2


@dataclass(frozen=True)
class Asked:
    """A server that runs, and files of keys to it."""

    server: RunningServer
    victims: tuple[Path, ...]
    crowd: Path

    def settings(self, seconds: float = 1.0, **habits: float) -> Settings:
        return Settings(
            fleet=OwnFleet(gateways=(self.server.url,), minutes_max=2.0),
            habits=Habits(**{"victim_rate": 8.0, "in_flight": 4, "new_tokens": 4, **habits}),  # pyright: ignore[reportArgumentType]
            pace=Pace(rounds=2, seconds=seconds, warmup_s=0.5),
            victim_keys=self.victims,
            other_keys=(self.crowd,),
            slots_left=SLOTS_LEFT,
        )


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Generator[Asked]:
    root = tmp_path_factory.mktemp("own")
    keys = {name: root / f"{name}.key" for name in ("tenant-0", "tenant-1", "crowd")}
    with running_server(root, adapters=2, kind="fake", engine={"num_slots": 2 + SLOTS_LEFT}) as server:
        for name, tenant in server.tenants.items():
            keys[name].write_text(tenant.token + "\n")
            server.admin.post(f"/tenants/{name}/quota", {"reserve_slots": 1})
        server.admin.post("/tenants", {"tenant": "crowd"})
        write_world(root, adapters=2 + NUM_MANY)
        for number in range(NUM_MANY):
            path = f"/adapters/crowd/a{number}/versions"
            server.admin.post(path, {"folder": str(root / f"adapter-{2 + number}"), "base": BASE})
            for verb in ("prove", "approve", "promote"):
                server.admin.post(f"{path}/1/{verb}", {})
        keys["crowd"].write_text(server.admin.post("/keys", {"tenant": "crowd"})["token"])
        yield Asked(server, (keys["tenant-0"], keys["tenant-1"]), keys["crowd"])


def median(figure: Spread | None) -> float:
    assert figure is not None
    return figure.median


def num_loads(server: RunningServer) -> float:
    transport = httpx.HTTPTransport(uds=str(server.home / "run" / "admin.sock"))
    with httpx.Client(transport=transport, base_url="http://control", timeout=60) as client:
        lines = client.get("/metrics").text.splitlines()
    counts = [line.split()[-1] for line in lines if line.startswith("hotset_adapter_load_duration_seconds_count")]
    return sum(map(float, counts))


def test_a_rotation_turns_slots_over_and_is_held_against_its_control_alone(asked: Asked) -> None:
    said: list[str] = []
    before = num_loads(asked.server)
    report = run_rotation(asked.settings(), said.append)
    assert num_loads(asked.server) - before > 2 + NUM_MANY
    blocks, ratios = report.sections
    assert [row.side for row in blocks.rows] == ["control", "rotation"]
    assert [row.side for row in ratios.rows] == ["rotation / control"]
    for row in blocks.rows:
        assert 0.0 < median(row.figures["p50"]) < 10_000.0
        assert median(row.figures["tokens"]) > 0.0
    assert median(ratios.rows[0].figures["p95"]) > 0.0
    assert f"{NUM_MANY} adapters; in the control on {SLOTS_LEFT}" in report.setting["rotating"]
    assert "no plain LRU" in report.notes[-1]
    assert len(said) == 2 + 2 * 2
    assert not any("hs_" in each for each in (*said, report.to_json()))


def test_the_command_prints_the_cliff_as_json_and_draws_it(asked: Asked, tmp_path: Path) -> None:
    options = ["--gateway", asked.server.url, "--slots-left", str(SLOTS_LEFT), "--crowd-key", str(asked.crowd)]
    for file in asked.victims:
        options += ["--victim-key", str(file)]
    options += ["--rounds", "1", "--seconds", "1", "--warmup", "0.2", "--plot", str(tmp_path / "cliff.svg"), "--json"]
    result = CliRunner().invoke(app, ["bench", "cliff", *options])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    (section,) = report["sections"]
    assert [row["side"] for row in section["rows"]] == ["3 active", "4 active", "6 active"]
    assert all(row["figures"]["p95"]["median"] > 0 for row in section["rows"])
    assert "for real" in result.stderr
    assert (tmp_path / "cliff.svg").read_text().startswith("<svg")


def test_a_storm_counts_who_was_let_in_and_who_came_back(asked: Asked) -> None:
    report = run_storm(asked.settings(in_flight=0), budget_ms=60, clients_each=2, say=lambda _: None)
    storm, misses, warm = report.sections
    figures = storm.rows[0].figures
    assert median(figures["admitted"]) + median(figures["refused"]) == NUM_MANY
    assert list(misses.rows[0].figures) == ["clients", "answered"]
    assert median(misses.rows[0].figures["answered"]) == 2 * NUM_MANY
    assert all(median(row.figures["p95"]) < 3_600_000.0 for row in warm.rows)


def test_a_wrong_key_ends_it_before_it_begins(asked: Asked, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.key"
    wrong.write_text("hs_wrong")
    with pytest.raises(UnauthenticatedError, match=r"does not take the key of .*wrong\.key"):
        run_rotation(replace(asked.settings(), other_keys=(wrong,)), lambda _: None)


def test_one_key_for_two_clients_and_too_few_adapters_end_it(asked: Asked) -> None:
    with pytest.raises(InvalidRequestError, match="a key of its own"):
        run_rotation(replace(asked.settings(), other_keys=asked.victims[:1]), lambda _: None)
    with pytest.raises(InvalidRequestError, match=r"4 adapters of .* fit the 4 slots left"):
        run_cliff(replace(asked.settings(), slots_left=NUM_MANY), lambda _: None)


def test_a_gateway_that_is_away_is_named(asked: Asked) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{bound.getsockname()[1]}"
        fleet = OwnFleet(gateways=(asked.server.url, away), minutes_max=2.0)
        with pytest.raises(ServerUnreachableError, match=away):
            run_rotation(replace(asked.settings(), fleet=fleet), lambda _: None)


def test_a_key_that_is_revoked_meanwhile_ends_it_with_one_error(asked: Asked, tmp_path: Path) -> None:
    issued = asked.server.admin.post("/keys", {"tenant": "crowd"})
    mine = tmp_path / "mine.key"
    mine.write_text(issued["token"])

    def revoke(_: str) -> None:
        asked.server.admin.post(f"/keys/{issued['key']['id']}/revoke", {})

    with pytest.raises(UnauthenticatedError, match=r"mine\.key"):
        run_rotation(replace(asked.settings(), other_keys=(mine,)), revoke)


def test_what_does_not_end_in_time_is_ended(asked: Asked) -> None:
    async def measure(_: Reached) -> None:
        await asyncio.Event().wait()

    fleet = OwnFleet(gateways=(asked.server.url,), minutes_max=0.01)
    with pytest.raises(EngineTimeoutError, match=r"within 0\.01 minutes"):
        run_on_fleet(fleet, asked.victims, 0.0, measure)


@pytest.mark.parametrize("content", ["", "one two", "ключ"])
def test_a_file_holds_one_key_and_nothing_else(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.key").write_text(content)
    with pytest.raises(InvalidRequestError, match="one key and nothing else"):
        read_key(tmp_path / "a.key")
    with pytest.raises(InvalidRequestError, match="No such file"):
        read_key(tmp_path / "b.key")
    (tmp_path / "a.key").write_text(" hs_key\n")
    assert read_key(tmp_path / "a.key") == "hs_key"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--gateway", "http://g", "--slots", "8"], "not with --gateway"),
        (["--victim-key", "acme.key"], "only with --gateway"),
        (["--gateway", "http://g"], "--slots-left"),
        (["--gateway", "http://g", "--slots-left", "1"], "--victim-key"),
        (["--gateway", "http://g", "--slots-left", "1", "--victim-key", "acme.key"], "--rotating-key"),
    ],
)
def test_options_of_the_other_way_and_missing_ones_are_refused(options: list[str], says: str) -> None:
    result = CliRunner().invoke(app, ["bench", "rotation", *options])
    assert result.exit_code == 2
    assert says in result.output
