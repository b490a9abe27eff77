"""Snapshots and refusals cross a link unchanged; a version's record crosses once."""

from dataclasses import replace

import msgspec
import pytest

from hotset.core.errors import (
    AdmissionError,
    EngineError,
    EngineFailedError,
    HotsetError,
    ModelNotFoundError,
    PermissionDeniedError,
    StaleRouteError,
    UnavailableError,
    leaf_errors,
)
from hotset.core.snapshot import RoutingSnapshot
from hotset.core.versions import Approval
from hotset.links.holder_messages import Current, FromControl, Records
from hotset.links.refusals import error_of, refusal_of
from hotset.links.snapshot_pieces import SnapshotCutter, SnapshotJoiner
from hotset.links.worker_messages import FromWorker
from tests.support.snapshots import three_tenants

LEAVES = [*leaf_errors(AdmissionError), *leaf_errors(UnavailableError), *leaf_errors(EngineError), ModelNotFoundError]


def crossed(cutter: SnapshotCutter, joiner: SnapshotJoiner, snapshot: RoutingSnapshot) -> tuple[RoutingSnapshot, int]:
    """Send a snapshot from one end to the other; return what came, and how many records it took."""
    decoder, num_records = msgspec.msgpack.Decoder(FromControl), 0
    for piece in cutter.pieces(snapshot):
        came = decoder.decode(msgspec.msgpack.encode(piece))
        if isinstance(came, Records):
            num_records += len(came.records)
            joiner.add(came)
        else:
            assert isinstance(came, Current)
            return joiner.join(came), num_records
    raise AssertionError("no end came")


def test_a_snapshot_crosses_whole_and_each_record_once() -> None:
    cutter, joiner = SnapshotCutter(), SnapshotJoiner()
    first = three_tenants(epoch=1, active=2)
    assert crossed(cutter, joiner, first) == (first, len(first.versions))
    second = three_tenants(epoch=2, active=3)
    assert crossed(cutter, joiner, second) == (second, 1)
    third = three_tenants(epoch=3, without=("acme", "support"))
    assert crossed(cutter, joiner, third) == (third, 0)
    assert crossed(cutter, joiner, second) == (second, len(second.versions) - len(third.versions))


def test_a_version_that_was_approved_again_crosses_again() -> None:
    cutter, joiner = SnapshotCutter(), SnapshotJoiner()
    snapshot = three_tenants()
    crossed(cutter, joiner, snapshot)
    name, record = next(iter(snapshot.versions.items()))
    approved = msgspec.structs.replace(record, approval=Approval(reviewer_key="ed25519:x", signature="00"))
    again = replace(snapshot, epoch=9, versions={**snapshot.versions, name: approved})
    assert crossed(cutter, joiner, again) == (again, 1)


def test_a_record_that_did_not_come_is_an_error_and_not_a_gap() -> None:
    snapshot = three_tenants()
    *_, current = SnapshotCutter().pieces(snapshot)
    assert isinstance(current, Current)
    with pytest.raises(msgspec.ValidationError):
        SnapshotJoiner().join(current)


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_refusal_comes_back_as_the_same_leaf(leaf: type[HotsetError]) -> None:
    error = leaf("why")
    if isinstance(error, AdmissionError):
        error.retry_after_ms = 1234
    if isinstance(error, StaleRouteError):
        error.epoch = 7
    sent = msgspec.msgpack.encode(refusal_of(5, error))
    came = error_of(msgspec.msgpack.decode(sent, type=FromWorker))  # type: ignore[arg-type]
    assert type(came) is leaf
    assert (came.message, vars(came)) == ("why", vars(error))


def test_what_no_agent_refuses_with_is_the_agents_failure() -> None:
    assert type(error_of(refusal_of(1, PermissionDeniedError("no")))) is EngineFailedError
