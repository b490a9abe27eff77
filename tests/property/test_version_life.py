"""Whatever operators do to versions, in whatever order: what is routable was approved and is not held back."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hotset.core.errors import ApprovalInvalidError, ProofFailedError
from hotset.registry.approval import check_approval
from tests.support.installation import Installation, installation, version_path

VERBS = ("prove", "prove_badly", "approve", "promote", "retire", "quarantine", "release", "ban", "purge")
WITH_REASON = ("quarantine", "release", "ban")
FINAL = ("retired", "rejected")

acts = st.lists(st.tuples(st.sampled_from(VERBS), st.integers(1, 3)), min_size=3, max_size=14)


async def act(inst: Installation, verb: str, number: int) -> None:
    """Do it, or be refused: an illegal step is a 409, a failed proof a 422, never anything else."""
    inst.prover.fails_with = ProofFailedError("NaN") if verb == "prove_badly" else None
    body = {"reason": "drawn"} if verb in WITH_REASON else {}
    path = f"{version_path(f'acme/support@{number}')}/{verb.removesuffix('_badly')}"
    answer = await inst.call("POST", path, body)
    assert answer.status_code in (200, 409, 422), answer.text
    if answer.status_code == 409:
        assert answer.json()["code"] in ("illegal_transition", "conflict")


async def unapproved(inst: Installation, ended: dict[int, str]) -> list[str]:
    """Return the routed versions without a valid approval; whatever else is wrong fails at once."""
    found: list[str] = []
    versions = (await inst.ok("GET", "/adapters/acme/support"))["versions"]
    assert sum(version["state"] == "active" for version in versions) <= 1
    for version in versions:
        assert ended.get(version["number"], version["state"]) == version["state"], "an ended version moved"
        if version["state"] in FINAL:
            ended[version["number"]] = version["state"]
    by_name = {version["engine_name"]: version for version in versions}
    snapshot = inst.holder.newest
    for name, record in snapshot.versions.items():
        shown = by_name[name]
        assert shown["state"] in ("active", "standby", "canary")
        assert not shown["is_banned"]
        assert not shown["is_quarantined"]
        assert not shown["is_purged"]
        try:
            check_approval(record, inst.folder.reviewer_keys())
        except ApprovalInvalidError:
            found.append(name)
        for entry in record.manifest.files:
            inst.control.blobs.verify(entry.digest)
    routed = {route.number for entry in snapshot.aliases.values() for route in entry.numbered.values()}
    assert routed == {record.number for record in snapshot.versions.values()}
    store = await inst.ok("POST", "/store/verify", {})
    assert (store["damaged"], store["missing"]) == ([], [])
    return found


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(acts)
def test_what_is_routable_was_approved(drawn: list[tuple[str, int]]) -> None:
    async def story() -> list[str]:
        with tempfile.TemporaryDirectory() as root:
            async with installation(Path(root)) as inst:
                await inst.add_base()
                await inst.ok("POST", "/tenants", {"tenant": "acme"})
                await inst.serve("acme/support", inst.adapter("active", seed=1))
                await inst.push("acme/support", inst.adapter("approved", seed=2))
                await inst.step("acme/support@2", "prove")
                await inst.step("acme/support@2", "approve")
                await inst.push("acme/support", inst.adapter("verified", seed=3))
                ended, found = dict[int, str](), list[str]()
                for verb, number in drawn:
                    await act(inst, verb, number)
                    found += await unapproved(inst, ended)
                return found

    assert asyncio.run(story()) == []
