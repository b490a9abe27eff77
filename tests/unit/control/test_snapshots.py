"""What is routable follows from rows alone."""

from dataclasses import replace

from hotset.control.snapshots import RoutingRows, build_snapshot
from hotset.core.ids import AdapterId, Alias, Digest, KeyId, Route, TenantId, VersionRef, engine_name
from hotset.core.quotas import DEFAULT_QUOTA, Quota
from hotset.core.versions import Approval, Manifest
from hotset.storage.rows import BaseRow, GrantRow, KeyRow, TenantRow, VersionRow
from tests.support.adapters import tiny_base_version

ACME, UMBRELLA = TenantId("acme"), TenantId("umbrella")
SUPPORT = AdapterId(ACME, "support")
BASE = tiny_base_version()
APPROVAL = Approval(reviewer_key="ed25519:0", signature="00")


def version(number: int, state: str) -> VersionRow:
    return VersionRow(
        ref=VersionRef(SUPPORT, number),
        base=BASE.digest,
        digest=Digest(f"sha256:{number:064x}"),
        manifest=Manifest(files=(), modules=(), rank_max=8),
        publisher="ann",
        created_at_s=10.0 + number,
        state=state,
        approval=APPROVAL,
        reviewer="bob",
        approved_at_s=3.0,
        purged_at_s=None,
        is_banned=False,
    )


def key(name: str, tenant: TenantId = ACME) -> KeyRow:
    return KeyRow(KeyId(name), tenant, f"sha-{name}", "", None, 1.0, None, None)


ROWS = RoutingRows(
    epoch=7,
    bases=(BaseRow(BASE, "/models/tiny", 1.0),),
    tenants=(TenantRow(ACME, "active", 1.0), TenantRow(UMBRELLA, "active", 1.0)),
    keys=(key("a"), key("u", UMBRELLA)),
    grants=(
        GrantRow(ACME, Alias("support"), SUPPORT, None, 2.0),
        GrantRow(ACME, Alias("tiny"), None, BASE.digest, 2.0),
        GrantRow(UMBRELLA, Alias("helper"), SUPPORT, None, 2.0),
    ),
    versions=(version(1, "standby"), version(2, "active"), version(3, "canary")),
)


def test_everything_that_may_be_routed_is_there() -> None:
    snapshot = build_snapshot(ROWS)
    assert (snapshot.epoch, snapshot.tenants) == (7, frozenset({ACME, UMBRELLA}))
    assert {sha: entry.tenant for sha, entry in snapshot.keys.items()} == {"sha-a": ACME, "sha-u": UMBRELLA}
    own, lent = snapshot.aliases[ACME, Alias("support")], snapshot.aliases[UMBRELLA, Alias("helper")]
    assert own.active == version(2, "active").record.route
    assert sorted(own.numbered) == [1, 2, 3]
    assert (own.base_name, own.adapter, own.created_at_s) == ("tiny", SUPPORT, 12.0)
    assert lent == replace(own, alias=Alias("helper"))
    base = snapshot.aliases[ACME, Alias("tiny")]
    assert (base.active, base.numbered, base.base_name) == (Route(BASE.digest), {}, "tiny")
    assert set(snapshot.versions) == {engine_name(row.record.route) for row in ROWS.versions}
    assert snapshot.bases == {BASE.digest: BASE}


def test_how_often_a_version_was_released_travels_with_it() -> None:
    released = replace(version(2, "active"), num_releases=3)
    snapshot = build_snapshot(replace(ROWS, versions=(version(1, "standby"), released)))
    assert snapshot.releases == {engine_name(released.record.route): 3}


def test_only_serving_states_are_routed() -> None:
    for state in ("published", "verified", "proved", "approved", "draining", "retired", "rejected", "rolled_back"):
        snapshot = build_snapshot(replace(ROWS, versions=(version(1, state),)))
        entry = snapshot.aliases[ACME, Alias("support")]
        assert (entry.active, entry.numbered, snapshot.versions) == (None, {}, {}), state
        assert entry.adapter == SUPPORT


def test_a_version_that_only_stands_by_is_named_by_number_alone() -> None:
    entry = build_snapshot(replace(ROWS, versions=(version(1, "standby"),))).aliases[ACME, Alias("support")]
    assert (entry.active, list(entry.numbered)) == (None, [1])


def test_banned_purged_and_unapproved_versions_are_out() -> None:
    for bent in (
        replace(version(2, "active"), is_banned=True),
        replace(version(2, "active"), purged_at_s=5.0),
        replace(version(2, "active"), approval=None),
    ):
        snapshot = build_snapshot(replace(ROWS, versions=(bent,)))
        assert snapshot.versions == {}
        assert snapshot.aliases[ACME, Alias("support")].active is None


def test_suspended_and_removed_tenants_call_nothing() -> None:
    for state in ("suspended", "removed"):
        tenants = (TenantRow(ACME, state, 1.0), TenantRow(UMBRELLA, "active", 1.0))
        snapshot = build_snapshot(replace(ROWS, tenants=tenants))
        assert snapshot.tenants == frozenset({UMBRELLA})
        assert list(snapshot.keys) == ["sha-u"]
        assert [tenant for tenant, _ in snapshot.aliases] == [UMBRELLA]


def test_quotas_are_those_of_tenants_that_may_call_and_the_default_is_left_out() -> None:
    quota = Quota(reserve_slots=2, limit_slots=4, loads_per_minute=30.0)
    tenants = (TenantRow(ACME, "active", 1.0, quota), TenantRow(UMBRELLA, "active", 1.0, DEFAULT_QUOTA))
    assert build_snapshot(replace(ROWS, tenants=tenants)).quotas == {ACME: quota}
    for state in ("suspended", "removed"):
        gone = (TenantRow(ACME, state, 1.0, quota), TenantRow(UMBRELLA, "active", 1.0, quota))
        assert build_snapshot(replace(ROWS, tenants=gone)).quotas == {UMBRELLA: quota}


def test_a_suspended_owners_adapter_still_serves_others_a_removed_ones_does_not() -> None:
    suspended = (TenantRow(ACME, "suspended", 1.0), TenantRow(UMBRELLA, "active", 1.0))
    removed = (TenantRow(ACME, "removed", 1.0), TenantRow(UMBRELLA, "active", 1.0))
    assert build_snapshot(replace(ROWS, tenants=suspended)).aliases[UMBRELLA, Alias("helper")].active is not None
    snapshot = build_snapshot(replace(ROWS, tenants=removed))
    assert snapshot.aliases[UMBRELLA, Alias("helper")].active is None
    assert snapshot.versions == {}


def test_revoked_keys_are_out_and_expiry_is_the_gateways_to_judge() -> None:
    keys = (replace(key("a"), revoked_at_s=2.0), replace(key("b"), expires_at_s=5.0, aliases=frozenset({Alias("x")})))
    snapshot = build_snapshot(replace(ROWS, keys=keys))
    assert list(snapshot.keys) == ["sha-b"]
    assert snapshot.keys["sha-b"].expires_at_s == 5.0
    assert snapshot.keys["sha-b"].aliases == frozenset({"x"})


def test_the_same_rows_make_the_same_snapshot() -> None:
    assert build_snapshot(ROWS) == build_snapshot(ROWS)
