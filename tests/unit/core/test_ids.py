"""Names are parsed once and strictly; an engine name never stands for two versions."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotset.core.errors import InvalidNameError
from hotset.core.ids import (
    AdapterId,
    Digest,
    Route,
    TenantId,
    VersionRef,
    engine_name,
    parse_alias,
    parse_base_name,
    parse_tenant,
    parse_version_number,
)

ROUTE = Route(Digest("sha256:base"), AdapterId(TenantId("acme"), "support"), 3, Digest("sha256:bytes"))


def test_references_round_trip() -> None:
    ref = VersionRef.parse("acme/support-bot_v2.1@12")
    assert str(ref) == "acme/support-bot_v2.1@12"
    assert (ref.adapter.owner, ref.adapter.name, ref.number) == ("acme", "support-bot_v2.1", 12)


HOSTILE = [
    "",
    ".",
    "..",
    "../x",
    "/etc",
    "a\\b",
    "x\0y",
    "a b",
    "ａcme",
    "аcme",
    "a\n",
    "a\u202eb",
    "%2e%2e",
    "a" * 200,
    "-a",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("parse", [parse_tenant, parse_base_name, parse_alias], ids=lambda parse: parse.__name__)
def test_hostile_names_are_refused(parse: object, text: str) -> None:
    with pytest.raises(InvalidNameError):
        parse(text)  # pyright: ignore


@pytest.mark.parametrize("text", ["acme", "acme/", "/x", "acme/../x", "acme/a/b", "ACME/x", "acme/.x", "acme/x."])
def test_adapters_are_owner_and_one_name(text: str) -> None:
    with pytest.raises(InvalidNameError):
        AdapterId.parse(text)


@pytest.mark.parametrize(
    "text", ["acme/x", "acme/x@", "acme/x@0", "acme/x@01", "acme/x@1000001", "acme/x@-1", "acme/x@٣"]
)
def test_version_numbers_are_plain_decimals_from_one(text: str) -> None:
    with pytest.raises(InvalidNameError):
        VersionRef.parse(text)


def test_aliases_may_hold_slashes_but_neither_colon_nor_at() -> None:
    assert parse_alias("team/support") == "team/support"
    for text in ("a:b", "a@1", "a//b", "/a", "a/"):
        with pytest.raises(InvalidNameError):
            parse_alias(text)


def test_the_largest_version_number_is_a_million() -> None:
    assert parse_version_number("1000000") == 1_000_000


def test_an_engine_name_is_opaque_and_stable() -> None:
    assert engine_name(ROUTE) == engine_name(replace(ROUTE))
    assert re.fullmatch(r"hs-[0-9a-f]{32}", engine_name(ROUTE) or "")
    assert engine_name(Route(ROUTE.base)) is None
    assert ROUTE.is_base is False


@pytest.mark.parametrize(
    "other",
    [
        replace(ROUTE, number=4),
        replace(ROUTE, digest=Digest("sha256:other")),
        replace(ROUTE, base=Digest("sha256:other")),
        replace(ROUTE, adapter=AdapterId(TenantId("acme"), "supporT")),
        replace(ROUTE, adapter=AdapterId(TenantId("acm"), "esupport")),
    ],
    ids=["number", "digest", "base", "adapter", "owner"],
)
def test_each_part_of_a_route_changes_its_engine_name(other: Route) -> None:
    """I1 and I7: one engine name never stands for two versions."""
    assert engine_name(other) != engine_name(ROUTE)


@given(st.text(max_size=40))
def test_whatever_parses_prints_as_it_was_written(text: str) -> None:
    try:
        ref = VersionRef.parse(text)
    except InvalidNameError:
        return
    assert str(ref) == text
