"""Configuration: file, environment and flags in that order, every mistake at once, nothing secret shown."""

from pathlib import Path

import pytest

from hotset.cli.config import read_settings, shown
from hotset.cli.settings import Settings
from hotset.core.errors import ConfigError
from hotset.core.ids import TenantId


def written(folder: Path, text: str) -> Path:
    path = folder / "hotset.yaml"
    path.write_text(text)
    return path


def mistakes_of(file: Path | None, **environment: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read_settings(file, environment=environment)
    return caught.value.message


def test_without_anything_there_are_the_rooms_own_defaults(tmp_path: Path) -> None:
    settings = read_settings(environment={}, home=tmp_path)
    assert settings == Settings(home=tmp_path)
    assert settings.control.one_person


def test_file_then_environment_then_flags(tmp_path: Path) -> None:
    file = written(tmp_path, "server: {tenant_port: 1, admin_port: 2}\nengine: {rank_max: 8}\n")
    settings = read_settings(
        file,
        environment={"HOTSET_SERVER_ADMIN_PORT": "3", "HOTSET_GATEWAY_N_MAX": "4", "HOTSET_HOME": str(tmp_path)},
        flags={"server.tenant_port": 5, "server.tenant_host": None},
    )
    assert (settings.server.tenant_port, settings.server.admin_port) == (5, 3)
    assert (settings.engine.rank_max, settings.gateway.n_max) == (8, 4)
    assert settings.control.rank_max == 8
    assert settings.home == tmp_path


def test_a_section_that_the_file_leaves_empty_takes_variables_and_flags(tmp_path: Path) -> None:
    file = written(tmp_path, "server:\nengine:\n")
    settings = read_settings(file, environment={"HOTSET_ENGINE_NUM_SLOTS": "3"}, flags={"server.tenant_port": 5})
    assert (settings.server.tenant_port, settings.engine.num_slots) == (5, 3)


def test_a_variable_that_is_no_yaml_is_a_mistake_beside_others(tmp_path: Path) -> None:
    text = mistakes_of(written(tmp_path, "enginee: {}"), HOTSET_SERVER_TENANT_HOST="*", HOTSET_SERVER_ADMIN_HOST="[::1")
    assert "HOTSET_SERVER_TENANT_HOST: is not valid YAML: put the value into quotes" in text
    assert "HOTSET_SERVER_ADMIN_HOST: is not valid YAML" in text
    assert "enginee: unknown setting" in text


def test_the_file_may_be_named_by_a_variable(tmp_path: Path) -> None:
    file = written(tmp_path, "engine: {num_slots: 3}\n")
    assert read_settings(environment={"HOTSET_CONFIG": str(file)}).engine.num_slots == 3


def test_all_mistakes_are_reported_at_once_with_place_and_key(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
server: {tenant_prot: 1}
gateway: {n_max: 99, body_timeout_s: soon}
enginee: {}
bases: [{name: bad/name, folder: nowhere}]
tenants: [Acme]
adapters: [{adapter: acme/x, base: tiny, overrides: [anything], folder: .}]
grants: [{tenant: acme}, {tenant: acme, adapter: acme/x, base: tiny}]
""",
    )
    text = mistakes_of(file, HOTSET_WORKER_LOAD_TIMEOUT_S="-1")
    for part in (
        f"{file}: server.tenant_prot: unknown setting; did you mean tenant_port?",
        f"{file}: gateway.n_max: input should be less than or equal to 16, not 99",
        f"{file}: gateway.body_timeout_s: ",
        f"{file}: enginee: unknown setting; did you mean engine?",
        f"{file}: bases[0].name: ",
        f"{file}: bases[0].folder: there is no folder {tmp_path / 'nowhere'}",
        f"{file}: tenants[0]: ",
        f"{file}: adapters[0]: unknown override 'anything'",
        f"{file}: grants[0]: name either an adapter or a base",
        f"{file}: grants[1]: name either an adapter or a base",
        "HOTSET_WORKER_LOAD_TIMEOUT_S: worker.load_timeout_s: input should be greater than or equal to 0.1, not -1",
    ):
        assert part in text
    assert len(text.splitlines()) == 12


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("server: [", "line 1: is not valid YAML"),
        ("engine: {num_slots: 1, num_slots: 2}", "'num_slots' stands twice"),
        ("? [server]\n: 1", "is not valid YAML: found unhashable key"),
        ("server: \x07", "is not valid YAML: unacceptable character"),
        ("- just\n- a list\n", "expected a mapping"),
        ("server: 3", "server: "),
    ],
)
def test_files_that_are_no_configuration(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in mistakes_of(written(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "can't be read" in mistakes_of(tmp_path / "absent.yaml")


def test_a_key_of_a_variable_that_is_unknown_is_a_mistake_and_foreign_variables_are_not() -> None:
    assert "HOTSET_ENGINE_SLOTS: engine.slots: unknown setting" in mistakes_of(None, HOTSET_ENGINE_SLOTS="3")
    # A container platform sets such variables for a service that is called hotset.
    assert read_settings(environment={"HOTSET_SERVICE_HOST": "10.0.0.1"}).server.tenant_port == 8080


def test_a_server_elsewhere_needs_a_token_and_a_url() -> None:
    assert "HOTSET_TOKEN: is needed" in mistakes_of(None, HOTSET_URL="http://a:1")
    assert "HOTSET_URL: expected" in mistakes_of(None, HOTSET_URL="a:1", HOTSET_TOKEN="hso_x")
    remote = read_settings(environment={"HOTSET_URL": "http://a:1/", "HOTSET_TOKEN": "hso_secret"}).remote
    assert remote is not None
    assert remote.url == "http://a:1"


def test_folders_are_seen_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    settings = read_settings(
        written(tmp_path, "bases: [{name: tiny, folder: model, synonyms: [a/b]}]\ntenants:\n"), environment={}
    )
    assert settings.desired.bases[0].folder == tmp_path / "model"
    assert settings.desired.bases[0].synonyms == ("a/b",)


def test_a_tenant_is_a_name_or_a_name_with_its_quota(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
tenants:
  - acme
  - {tenant: umbrella, reserve_slots: 2, limit_slots: 4, loads_per_minute: 30, reserve_bytes: 4096, limit_bytes: 512MiB}
  - {tenant: globex, limit_slots: null, tokens_per_minute: 5000, first_token_budget_ms: null}
  - tenant: initech
""",
    )
    settings = read_settings(file, environment={})
    assert settings.desired.tenants == ("acme", "umbrella", "globex", "initech")
    quotas = {quota.tenant: quota.parts for quota in settings.desired.quotas}
    assert quotas == {
        "umbrella": {
            "reserve_slots": 2,
            "limit_slots": 4,
            "loads_per_minute": 30.0,
            "reserve_bytes": 4096,
            "limit_bytes": 512 << 20,
        },
        "globex": {"limit_slots": None},
    }
    assert shown(settings)["tenants"] == [
        {"tenant": "acme"},
        {"tenant": "umbrella", **quotas[TenantId("umbrella")]},
        {"tenant": "globex", "limit_slots": None, "tokens_per_minute": 5000.0, "first_token_budget_ms": None},
        {"tenant": "initech"},
    ]


def test_mistakes_in_quotas_name_their_entry(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
tenants:
  - {tenant: acme, reserve_slots: 3, limit_slots: 2}
  - {tenant: umbrella, reserve_slots: -1}
  - {tenant: globex, loads_per_minute: .nan}
  - {tenant: initech, limit_slots: many}
  - {tenant: hooli, reserve: 2}
  - {tenant: Pied-Piper, reserve_slots: 1}
  - {tenant: vandelay, reserve_bytes: much}
  - {reserve_slots: 1}
  - 7
""",
    )
    text = mistakes_of(file)
    for part in (
        f"{file}: tenants[0]: limit_slots (2) is below reserve_slots (3)",
        f"{file}: tenants[1]: reserve_slots is from 0 to 1024",
        f"{file}: tenants[2]: loads_per_minute is from 0.01 to 60000",
        f"{file}: tenants[3].limit_slots: ",
        f"{file}: tenants[4].reserve: unknown setting",
        f"{file}: tenants[5].tenant: ",
        f"{file}: tenants[6].reserve_bytes: 'much' is no number of bytes",
        f"{file}: tenants[7].tenant: is needed",
        f"{file}: tenants[8]: ",
    ):
        assert part in text
    assert len(text.splitlines()) == 10


def test_settings_of_bytes_are_written_as_people_write_them(tmp_path: Path) -> None:
    file = written(tmp_path, "worker: {warm_bytes_max: 2GiB}\nuploads: {file_bytes_max: 4096}\n")
    settings = read_settings(file, environment={"HOTSET_UPLOADS_UPLOAD_BYTES_MAX": "64 MB"})
    assert settings.worker.warm_bytes_max == 2 << 30
    assert (settings.uploads.file_bytes_max, settings.uploads.upload_bytes_max) == (4096, 64_000_000)
    assert "warm_bytes_max: input should be greater" in mistakes_of(
        written(tmp_path, "worker: {warm_bytes_max: 1KB}\n")
    )


def test_a_tenant_stands_once(tmp_path: Path) -> None:
    file = written(tmp_path, "tenants: [acme, {tenant: acme, reserve_slots: 1}]\n")
    assert f"{file}: tenants: tenant 'acme' stands twice" in mistakes_of(file)


def test_what_is_shown_holds_no_token() -> None:
    settings = read_settings(environment={"HOTSET_URL": "http://a:1", "HOTSET_TOKEN": "hso_secret"})
    assert "hso_secret" not in repr(settings)
    assert "hso_secret" not in repr(shown(settings))


@pytest.mark.parametrize(
    ("host", "expected"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False)]
)
def test_an_installation_that_others_reach_separates_duties(host: str, expected: bool) -> None:
    settings = read_settings(environment={}, flags={"server.tenant_host": host})
    assert settings.control.one_person is expected
    assert read_settings(
        environment={"HOTSET_SERVER_ONE_PERSON": "true"}, flags={"server.tenant_host": host}
    ).control.one_person


def test_pools_are_declared_with_their_tenants(tmp_path: Path) -> None:
    file = written(
        tmp_path, "pools: [{pool: own, base: tiny, kind: dedicated, tenants: [acme]}, {pool: two, base: tiny}]\n"
    )
    settings = read_settings(file, environment={})
    assert [(each.pool, each.kind, each.tenants) for each in settings.desired.pools] == [
        ("own", "dedicated", (TenantId("acme"),)),
        ("two", "shared", ()),
    ]
    assert shown(settings)["pools"][0]["tenants"] == ("acme",)


@pytest.mark.parametrize(
    ("pools", "said"),
    [
        ("[{pool: default, base: tiny}]", "pools[0]: every base has the pool 'default'"),
        ("[{pool: Own, base: tiny}]", "pools[0].pool: "),
        ("[{pool: own, base: tiny, kind: private}]", "pools[0].kind: "),
        ("[{pool: own, base: tiny, release_schedule: always}]", "pools[0].release_schedule: 'always' is no window"),
        ("[{pool: own, base: tiny, kind: dedicated, tenants: [a, b]}]", "pools[0]: a dedicated pool is for one tenant"),
        ("[{pool: own, base: tiny}, {pool: own, base: tiny}]", "pools: pool 'own' stands twice"),
        (
            "[{pool: a, base: t, tenants: [x]}, {pool: b, base: t, tenants: [x]}]",
            "pools: tenant 'x' of base 't' stands",
        ),
    ],
)
def test_what_is_no_pool_is_told(tmp_path: Path, pools: str, said: str) -> None:
    assert said in mistakes_of(written(tmp_path, f"pools: {pools}\n"))
