"""A version that is held back is told so beside its state, and an audit entry with what is worth reading of it."""

from typing import Any

import pytest

from hotset.cli.commands.installation import _details
from hotset.cli.version_words import tell_version

VERSION: dict[str, Any] = {
    "ref": "acme/a@1",
    "state": "active",
    "reason": "",
    "warnings": [],
    "is_purged": False,
    "is_banned": False,
    "is_quarantined": False,
}


def test_a_quarantined_version_is_not_told_as_merely_active(capsys: pytest.CaptureFixture[str]) -> None:
    tell_version(VERSION, as_json=False)
    tell_version({**VERSION, "is_quarantined": True, "reason": "quarantined: odd"}, as_json=False)
    said = capsys.readouterr().out.splitlines()
    assert said == ["acme/a@1 is active.", "acme/a@1 is active (quarantined). quarantined: odd"]


def test_details_leave_out_what_is_unset_and_digests() -> None:
    details = {
        "digest": "sha256:0",
        "reason": "odd",
        "code": None,
        "cut": False,
        "roles": ["admin"],
        "reserve_slots": 0,
    }
    assert _details(details) == 'reason: odd, roles: ["admin"], reserve_slots: 0'
