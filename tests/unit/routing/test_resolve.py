"""Every name takes one path to one answer; what is visible is what is callable."""

import contextlib
import dataclasses

import pytest

from hotset.core.errors import ModelNotFoundError, UnauthenticatedError
from hotset.core.ids import Alias, KeyId, Route, engine_name
from hotset.core.snapshot import KeyEntry, RoutingSnapshot
from hotset.routing.resolve import Resolved, resolve, stop_reason, visible_models
from tests.support.snapshots import ACME, BASE, GLOBEX, adapter_route, key_hash, three_tenants, token_of

SNAPSHOT = three_tenants()
KEY = KeyEntry(KeyId("key-acme"), ACME)
HASH = key_hash(token_of(ACME))


def test_an_alias_means_its_active_version() -> None:
    resolved = resolve(SNAPSHOT, KEY, "support")
    assert resolved.route == adapter_route("acme", "support", 2)
    assert (resolved.alias, resolved.number, resolved.model, resolved.shown) == ("support", 2, "support", "support@2")


def test_a_number_means_that_version_where_it_may_be_named() -> None:
    resolved = resolve(SNAPSHOT, KEY, "support@1")
    assert resolved.route == adapter_route("acme", "support", 1)
    assert (resolved.model, resolved.shown) == ("support@1", "support@1")


def test_a_base_is_shown_without_a_number() -> None:
    resolved = resolve(SNAPSHOT, KEY, "smol")
    assert resolved.route == Route(BASE)
    assert resolved.shown == "smol"


FOREIGN_OR_NOTHING = [
    "contracts",
    "contracts@1",
    "globex/contracts",
    "nothing",
    "",
    "@",
    "@1",
    "support@",
    "support@0",
    "support@3",
    "support@01",
    "support@1@1",
    "support@ 1",
    "support@1 ",
    "support@-1",
    "support@+1",
    "support@1.0",
    "support@1e0",
    "support@١",
    "support@²",
    "support@99999999999999999999",
    "Support",
    "SUPPORT",
    "suppоrt",
    "support\x00",
    " support",
    "support\u200b",
    "ｓupport",
    "../support",
    "support/..",
    "./support",
    "/support",
    "support/",
    "eu%2Ffaq",
    "eu\\faq",
    "draft",
    "draft@1",
    "smol@0",
    "smol@1",
    "x" * 10_000,
    "support@" + "1" * 10_000,
    "hs-" + "0" * 32,
    engine_name(adapter_route("acme", "support", 2)),
    engine_name(adapter_route("globex", "contracts")),
    str(adapter_route("globex", "contracts").digest),
    str(BASE),
    "\ud800",
    "*",
    "support,contracts",
]


@pytest.mark.parametrize("model", FOREIGN_OR_NOTHING)
def test_everything_else_ends_in_one_and_the_same_error(model: str) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        resolve(SNAPSHOT, KEY, model)
    assert caught.value.message == ModelNotFoundError().message
    assert caught.value.param is None


class CountingAliases(dict):  # type: ignore[type-arg]
    """Counts look-ups."""

    def __init__(self, entries: object) -> None:
        super().__init__(entries)  # type: ignore[call-overload]
        self.num_lookups = 0

    def get(self, key: object, default: object = None) -> object:
        self.num_lookups += 1
        return super().get(key, default)


@pytest.mark.parametrize("model", ["support", "contracts", "nothing", "support@1", "contracts@1", "support@9"])
def test_there_is_one_look_up_whoever_owns_the_name(model: str) -> None:
    aliases = CountingAliases(SNAPSHOT.aliases)
    snapshot = dataclasses.replace(SNAPSHOT, aliases=aliases)
    with contextlib.suppress(ModelNotFoundError):
        resolve(snapshot, KEY, model)
    assert aliases.num_lookups == 1


def test_a_key_scope_narrows_what_is_callable_and_what_is_visible() -> None:
    narrow = dataclasses.replace(KEY, aliases=frozenset({Alias("eu/faq")}))
    assert resolve(SNAPSHOT, narrow, "eu/faq").alias == "eu/faq"
    for model in ("support", "support@1", "smol"):
        with pytest.raises(ModelNotFoundError):
            resolve(SNAPSHOT, narrow, model)
    assert [model.model for model in visible_models(SNAPSHOT, narrow)] == ["eu/faq", "eu/faq@1"]


def test_what_is_visible_is_what_is_callable() -> None:
    visible = list(visible_models(SNAPSHOT, KEY))
    assert [model.model for model in visible] == ["eu/faq", "eu/faq@1", "smol", "support", "support@1", "support@2"]
    assert [resolve(SNAPSHOT, KEY, model.model) for model in visible] == visible
    callable_names = {
        name
        for _, alias in SNAPSHOT.aliases
        for name in (alias, *(f"{alias}@{number}" for number in range(12)))
        if _resolves(SNAPSHOT, name)
    }
    assert callable_names == {model.model for model in visible}


def _resolves(snapshot: RoutingSnapshot, name: str) -> bool:
    try:
        resolve(snapshot, KEY, name)
    except ModelNotFoundError:
        return False
    return True


def bound() -> Resolved:
    return resolve(SNAPSHOT, KEY, "support")


def test_a_waiting_request_goes_on_where_nothing_was_withdrawn() -> None:
    assert stop_reason(SNAPSHOT, HASH, KEY, bound()) is None
    assert stop_reason(SNAPSHOT, HASH, KEY, resolve(SNAPSHOT, KEY, "smol")) is None


def test_a_newer_active_version_does_not_stop_a_waiting_request() -> None:
    entry = dataclasses.replace(SNAPSHOT.aliases[ACME, Alias("support")], active=adapter_route("acme", "support", 3))
    newer = dataclasses.replace(SNAPSHOT, aliases={**SNAPSHOT.aliases, (ACME, Alias("support")): entry})
    assert stop_reason(newer, HASH, KEY, bound()) is None


def test_a_withdrawn_key_or_tenant_stops_a_waiting_request() -> None:
    for changed in (
        dataclasses.replace(SNAPSHOT, keys={}),
        dataclasses.replace(SNAPSHOT, tenants=frozenset({GLOBEX})),
        dataclasses.replace(SNAPSHOT, keys={HASH: KeyEntry(KeyId("other"), GLOBEX)}),
    ):
        assert isinstance(stop_reason(changed, HASH, KEY, bound()), UnauthenticatedError)


def test_a_withdrawn_alias_scope_adapter_or_version_stops_a_waiting_request() -> None:
    place = (ACME, Alias("support"))
    entry = SNAPSHOT.aliases[place]
    without = {key: value for key, value in SNAPSHOT.aliases.items() if key != place}
    name = engine_name(bound().route)
    versions = {key: value for key, value in SNAPSHOT.versions.items() if key != name}
    for changed in (
        dataclasses.replace(SNAPSHOT, aliases=without),
        dataclasses.replace(SNAPSHOT, versions=versions),
        dataclasses.replace(SNAPSHOT, keys={HASH: dataclasses.replace(KEY, aliases=frozenset())}),
        dataclasses.replace(
            SNAPSHOT, aliases={**without, place: dataclasses.replace(entry, adapter=adapter_route("acme", "x").adapter)}
        ),
        dataclasses.replace(SNAPSHOT, aliases={**without, place: dataclasses.replace(entry, base_name=None)}),
    ):
        assert isinstance(stop_reason(changed, HASH, KEY, bound()), ModelNotFoundError)


def test_a_base_that_is_no_longer_granted_stops_a_waiting_request() -> None:
    place = (ACME, Alias("smol"))
    entry = dataclasses.replace(SNAPSHOT.aliases[place], active=None)
    changed = dataclasses.replace(SNAPSHOT, aliases={**SNAPSHOT.aliases, place: entry})
    assert isinstance(stop_reason(changed, HASH, KEY, resolve(SNAPSHOT, KEY, "smol")), ModelNotFoundError)
