"""What is sealed opens in its own place alone, under a key that is there, and unchanged."""

import pytest

from hotset.core.errors import SealBrokenError
from hotset.core.ids import JobId, TenantId
from hotset.storage.sealing import KEY_BYTES, Kind, Sealer

OLD, NEW = b"o" * KEY_BYTES, b"n" * KEY_BYTES
JOB, ACME = JobId("job_1"), TenantId("acme")


def test_what_was_sealed_opens_and_looks_different_each_time() -> None:
    sealer = Sealer([NEW])
    one = sealer.seal(b"prompt", job=JOB, tenant=ACME, kind="body")
    two = sealer.seal(b"prompt", job=JOB, tenant=ACME, kind="body")
    assert one != two
    assert b"prompt" not in one
    assert sealer.open(one, job=JOB, tenant=ACME, kind="body") == b"prompt"
    empty = sealer.seal(b"", job=JOB, tenant=ACME, kind="result")
    assert sealer.open(empty, job=JOB, tenant=ACME, kind="result") == b""


@pytest.mark.parametrize(
    ("job", "tenant", "kind"),
    [(JobId("job_2"), ACME, "body"), (JOB, TenantId("globex"), "body"), (JOB, ACME, "result")],
)
def test_it_opens_in_no_other_row_tenant_or_column(job: JobId, tenant: TenantId, kind: Kind) -> None:
    sealer = Sealer([NEW])
    sealed = sealer.seal(b"prompt", job=JOB, tenant=ACME, kind="body")
    with pytest.raises(SealBrokenError):
        sealer.open(sealed, job=job, tenant=tenant, kind=kind)


def test_every_changed_byte_is_noticed() -> None:
    sealer = Sealer([NEW])
    sealed = sealer.seal(b"prompt", job=JOB, tenant=ACME, kind="body")
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(SealBrokenError):
            sealer.open(bytes(changed), job=JOB, tenant=ACME, kind="body")
    for length in range(len(sealed)):
        with pytest.raises(SealBrokenError):
            sealer.open(sealed[:length], job=JOB, tenant=ACME, kind="body")


def test_the_newest_key_seals_and_older_ones_open_what_they_sealed() -> None:
    sealed = Sealer([OLD]).seal(b"prompt", job=JOB, tenant=ACME, kind="body")
    rotated = Sealer([OLD, NEW])
    assert rotated.open(sealed, job=JOB, tenant=ACME, kind="body") == b"prompt"
    newer = rotated.seal(b"prompt", job=JOB, tenant=ACME, kind="body")
    assert Sealer([NEW]).open(newer, job=JOB, tenant=ACME, kind="body") == b"prompt"
    with pytest.raises(SealBrokenError):
        Sealer([NEW]).open(sealed, job=JOB, tenant=ACME, kind="body")
