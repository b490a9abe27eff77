"""What a simulated store lets through: approved bytes that check, and nothing else."""

import random

import pytest

from hotset.core.errors import ApprovalInvalidError, DigestMismatchError
from hotset.core.ids import AdapterId, TenantId, engine_name
from hotset.core.versions import VersionRecord
from hotset.planner.calibration import Calibration
from hotset.planner.installation import Installation, reviewer_keys
from hotset.planner.virtual_store import VirtualStore

RNG = random.Random(1)


def store_and_version(*, is_forged: bool = False) -> tuple[VirtualStore, VersionRecord]:
    installation = Installation()
    record = installation.publish(AdapterId(TenantId("acme"), "a"), 8, is_forged=is_forged)
    return VirtualStore(installation.truth, reviewer_keys(), Calibration()), record


def test_a_fetch_is_slower_than_a_check_and_a_slow_disk_slower_still() -> None:
    store, record = store_and_version()
    cold_s = store.seconds(record)
    assert store.materialise(record, RNG) == b"weights of acme/a@1"
    warm_s = store.seconds(record)
    assert 0 < warm_s < cold_s
    store.slowness = 10.0
    assert store.seconds(record) == pytest.approx(10 * warm_s)
    store.open()
    assert store.seconds(record) == pytest.approx(10 * cold_s)


def test_what_a_forger_signed_is_refused() -> None:
    store, record = store_and_version(is_forged=True)
    with pytest.raises(ApprovalInvalidError):
        store.materialise(record, RNG)


def test_corrupt_bytes_are_refused_and_not_kept() -> None:
    store, record = store_and_version()
    store.corrupt_share = 1.0
    cold_s = store.seconds(record)
    with pytest.raises(DigestMismatchError):
        store.materialise(record, RNG)
    assert store.seconds(record) == cold_s


def test_a_flipped_bit_is_found_and_the_bytes_fetched_anew() -> None:
    store, record = store_and_version()
    store.corrupt(RNG)
    store.materialise(record, RNG)
    store.corrupt(RNG)
    assert store.materialise(record, RNG) == b"weights of acme/a@1"
    store.is_full = True
    store.corrupt(RNG)
    with pytest.raises(OSError, match="full"):
        store.materialise(record, RNG)


def test_what_is_discarded_is_cold_again() -> None:
    store, record = store_and_version()
    cold_s = store.seconds(record)
    store.materialise(record, RNG)
    name = engine_name(record.route)
    assert name is not None
    store.discard(name)
    store.discard(name)
    assert store.seconds(record) == cold_s
