"""Taking a version from the state it is in to the one that was asked for, one admin call a step."""

from typing import Any, Literal

from hotset.cli.client import AdminClient, OnProgress
from hotset.core.ids import VersionRef

Goal = Literal["verified", "proved", "approved", "active"]
#: State → the verb that leads on.
_NEXT = {"verified": "prove", "proved": "approve", "approved": "promote"}


def version_path(ref: str) -> str:
    """Return the API path of ``owner/name@N``.

    Raises:
        InvalidNameError: the text is anything else.
    """
    parsed = VersionRef.parse(ref)
    return f"/adapters/{parsed.adapter}/versions/{parsed.number}"


def bring_to(client: AdminClient, version: dict[str, Any], goal: Goal, on_progress: OnProgress) -> dict[str, Any]:
    """Prove, approve and promote, as far as the goal and the version's state ask for; return the version.

    Raises:
        HotsetError: a step was refused.
    """
    wanted = list(_NEXT)[: ("verified", "proved", "approved", "active").index(goal)]
    while version["state"] in wanted:
        verb = _NEXT[version["state"]]
        path = f"{version_path(version['ref'])}/{verb}"
        version = client.long(path, {}, on_progress) if verb == "prove" else client.post(path, {})
    return version
