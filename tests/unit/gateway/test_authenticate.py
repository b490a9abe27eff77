"""Only a live key of a tenant that may call is somebody."""

import dataclasses

import pytest

from hotset.core.errors import InvalidRequestError, UnauthenticatedError
from hotset.gateway.authenticate import authenticate
from hotset.gateway.request_head import check_is_json, read_head
from tests.support.snapshots import ACME, GLOBEX, key_hash, three_tenants, token_of

SNAPSHOT = three_tenants()
GOOD = b"Bearer " + token_of(ACME).encode()
HASH = key_hash(token_of(ACME))


@pytest.mark.parametrize("header", [GOOD, b"bearer " + GOOD[7:], b"BEARER   " + GOOD[7:] + b" "])
def test_a_live_key_is_its_tenant(header: bytes) -> None:
    caller = authenticate(SNAPSHOT, header, 0.0)
    assert (caller.key.tenant, caller.key_hash) == (ACME, HASH)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"Bearer",
        b"Bearer ",
        b"Basic " + GOOD[7:],
        b"Bearex " + GOOD[7:],
        GOOD[7:],
        GOOD[:-1],
        GOOD + b"x",
        GOOD + b"," + GOOD,
        b"Bearer " + HASH.encode(),
        b"Bearer " + b"x" * 100_000,
        b"Bearer \xff\xfe",
        b"Bearer \xd0\xb0cme",
    ],
)
def test_anything_else_is_one_error(header: bytes) -> None:
    with pytest.raises(UnauthenticatedError) as caught:
        authenticate(SNAPSHOT, header, 0.0)
    assert caught.value.message == UnauthenticatedError().message


def test_expired_and_suspended_are_the_same_error() -> None:
    entry = dataclasses.replace(SNAPSHOT.keys[HASH], expires_at_s=100.0)
    expiring = dataclasses.replace(SNAPSHOT, keys={HASH: entry})
    assert authenticate(expiring, GOOD, 99.9).key == entry
    with pytest.raises(UnauthenticatedError):
        authenticate(expiring, GOOD, 100.0)
    with pytest.raises(UnauthenticatedError):
        authenticate(dataclasses.replace(SNAPSHOT, tenants=frozenset({GLOBEX})), GOOD, 0.0)


def test_the_head_reads_four_headers_and_no_other() -> None:
    head = read_head(
        [
            (b"x-request-id", b"mine"),
            (b"authorization", GOOD),
            (b"content-length", b"12"),
            (b"content-type", b"application/json; charset=utf-8"),
            (b"x-tenant", b"globex"),
        ]
    )
    assert (head.authorization, head.content_length) == (GOOD, 12)
    check_is_json(head)


def test_two_credentials_are_none() -> None:
    with pytest.raises(UnauthenticatedError):
        read_head([(b"authorization", GOOD), (b"authorization", GOOD)])


@pytest.mark.parametrize("length", [b"", b"-1", b"+1", b"1.5", b"0x10", b"9" * 16])
def test_a_length_that_is_no_number_is_refused(length: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        read_head([(b"content-length", length)])


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"content-type", b"text/plain")],
        [(b"content-type", b"application/jsonp")],
        [(b"content-type", b"application/x-www-form-urlencoded")],
        [(b"content-type", b"application/json"), (b"content-encoding", b"gzip")],
    ],
)
def test_a_body_that_is_not_plain_json_is_refused(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(InvalidRequestError):
        check_is_json(read_head(headers))
