"""Tokens, actors, progress, problems: the small parts that commands rest on."""

import inspect

import pytest

from hotset.control import problems
from hotset.control.actors import LOCAL_ADMIN, Actor, parse_roles
from hotset.control.keys import IssuedKey
from hotset.control.operators import IssuedOperator
from hotset.control.progress import ByteCount, Progress
from hotset.control.tokens import make_id, make_token, system_entropy, token_sha256
from hotset.core.errors import (
    AdmissionError,
    EngineError,
    HotsetError,
    InvalidNameError,
    InvalidRequestError,
    PermissionDeniedError,
    VersionRefusedError,
    leaf_errors,
)
from hotset.core.ids import KeyId, TenantId
from hotset.storage.rows import KeyRow, OperatorRow


def test_tokens_are_of_one_length_and_carry_all_the_entropy() -> None:
    low, high = make_token("hs_", lambda n: b"\0" * n), make_token("hs_", lambda n: b"\xff" * n)
    assert len(low) == len(high) == 46
    assert low != high
    assert low[3:] == "0" * 43
    assert high[3:].isalnum()
    one_bit = make_token("hs_", lambda n: b"\0" * (n - 1) + b"\1")
    assert one_bit not in (low, high)
    assert make_token("hs_", system_entropy) != make_token("hs_", system_entropy)


def test_the_hash_covers_the_prefix_and_takes_any_text() -> None:
    assert token_sha256("hs_a") != token_sha256("hso_a")
    assert len(token_sha256("\ud800")) == 64


def test_ids_are_public_and_short() -> None:
    assert make_id("key", lambda n: bytes(range(n))) == "key-000102030405"


def test_a_token_never_shows_in_a_repr() -> None:
    key = IssuedKey(KeyRow(KeyId("k"), TenantId("t"), "sha", "", None, 0.0, None, None), "hs_secret")
    operator = IssuedOperator(OperatorRow("op", "n", "sha", frozenset(), 0.0, None), "hso_secret")
    assert "secret" not in repr(key) + repr(operator)


def test_roles() -> None:
    reviewer = Actor("rita", frozenset({"reviewer"}))
    reviewer.require("publisher", "reviewer")
    with pytest.raises(PermissionDeniedError, match="deployer or admin; 'rita' has reviewer"):
        reviewer.require("deployer")
    with pytest.raises(PermissionDeniedError, match="has no role"):
        Actor("nobody").require("admin")
    with pytest.raises(PermissionDeniedError, match="Unix socket"):
        reviewer.require_local()
    LOCAL_ADMIN.require("deployer")
    LOCAL_ADMIN.require_local()


def test_roles_are_parsed_whole_or_not_at_all() -> None:
    assert parse_roles(["admin", "reviewer", "admin"]) == {"admin", "reviewer"}
    for texts in ([], ["root"], ["admin", "root"], ["Admin"]):
        with pytest.raises(InvalidRequestError):
            parse_roles(texts)


def test_bytes_are_reported_in_a_hundred_parts_and_at_the_end() -> None:
    seen: list[Progress] = []
    count = ByteCount("hash", 1000, seen.append, "weights")
    for _ in range(1000):
        count(1)
    assert 100 <= len(seen) <= 102
    assert (seen[-1].done, seen[-1].total, seen[-1].unit, seen[-1].subject) == (1000, 1000, "bytes", "weights")


def test_an_empty_file_is_reported_once() -> None:
    seen: list[Progress] = []
    ByteCount("hash", 0, seen.append)(0)
    assert len(seen) == 1


def made(kind: type[HotsetError]) -> HotsetError:
    if kind is InvalidNameError:
        return InvalidNameError("alias", "a:b", "no colon")
    if kind is VersionRefusedError:
        return VersionRefusedError("dora_unsupported", "no DoRA", subject="use_dora")
    return kind()


def test_every_leaf_has_a_status_and_a_whole_body() -> None:
    for kind in leaf_errors():
        listed = [parent for parent in inspect.getmro(kind) if parent in problems.STATUS_OF]
        assert listed, f"{kind.__name__} has no status"
        body = problems.problem_of(made(kind))
        assert body["code"] == kind.code
        assert 400 <= problems.status_of(made(kind)) < 600
        assert body["detail"]


def test_bodies_say_what_is_at_fault() -> None:
    body = problems.problem_of(made(VersionRefusedError))
    assert (body["status"], body["reason"], body["param"]) == (422, "dora_unsupported", "use_dora")
    assert "reason" not in problems.problem_of(InvalidRequestError())
    assert problems.status_of(HotsetError()) == 500


def test_branches_stand_for_their_leaves() -> None:
    for branch in (AdmissionError, EngineError):
        assert all(problems.status_of(made(kind)) == problems.STATUS_OF[branch] for kind in leaf_errors(branch))
