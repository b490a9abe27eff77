"""Brings a running server to the state that the demo shows, through the admin API like any operator.

Every step asks what is there before it does anything, so a second start costs a few look-ups. Keys are the
one exception: a server keeps no key in readable form, so each start issues new ones and revokes those of the
last.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hotset.cli.client import AdminClient
from hotset.cli.demo.cast import BASE_NAME, BASE_SYNONYM, BASE_TENANT, CAST, TENANTS, Role
from hotset.cli.demo.steps import Steps
from hotset.cli.output import phase_of
from hotset.cli.version_steps import bring_to

KEY_LABEL = "demo"


def set_up(admin: AdminClient, base_folder: Path, adapters: Path, steps: Steps) -> dict[str, str]:
    """Register the base, create the tenants, serve their adapters; return a new key's token for each tenant.

    Raises:
        HotsetError: the server refused a step; the error says which and why.
    """
    add_base(admin, base_folder, steps)
    for tenant in TENANTS:
        add_tenant(admin, tenant)
    steps.done("tenants " + ", ".join(TENANTS))
    for role in CAST:
        serve_adapter(admin, role, adapters / role.name, steps)
    grant_base(admin)
    return {tenant: renew_key(admin, tenant) for tenant in TENANTS}


def add_base(admin: AdminClient, folder: Path, steps: Steps) -> None:
    """Register the base under its name and synonym, unless that is done."""
    if not any(base["name"] == BASE_NAME for base in admin.get("/bases")["bases"]):
        body = {"folder": str(folder.resolve()), "name": BASE_NAME, "synonyms": [BASE_SYNONYM]}
        admin.long("/bases", body, _follow(steps, f"base {BASE_NAME}"))
    steps.done(f"base {BASE_NAME} registered")


def add_tenant(admin: AdminClient, tenant: str) -> None:
    """Create the tenant, unless it is there."""
    if not any(entry["tenant"] == tenant for entry in admin.get("/tenants")["tenants"]):
        admin.post("/tenants", {"tenant": tenant})


def serve_adapter(admin: AdminClient, role: Role, folder: Path, steps: Steps) -> None:
    """Publish, prove, approve and promote the adapter as far as that is still to do."""
    known = {entry["adapter"]: entry for entry in admin.get("/adapters", owner=role.owner)["adapters"]}
    if known.get(role.adapter, {}).get("active") is None:
        publish(admin, role, folder, steps)
    steps.done(f"adapter {role.adapter} verified, proved, approved, active")


def publish(admin: AdminClient, role: Role, folder: Path, steps: Steps) -> None:
    """Take the adapter's version from the state it is in to active."""
    path = f"/adapters/{role.owner}/{role.name}/versions"
    follow = _follow(steps, role.adapter)
    with admin.submitted(folder, follow) as source:
        version = admin.long(path, {**source, "base": BASE_NAME}, follow)
    bring_to(admin, version, "active", _follow(steps, f"{role.adapter}: prove"))


def _follow(steps: Steps, title: str) -> Callable[[dict[str, Any]], None]:
    def on_progress(event: dict[str, Any]) -> None:
        steps.progress(f"{title}, {phase_of(event)}", event["done"], event["total"])

    return on_progress


def grant_base(admin: AdminClient) -> None:
    """Let one tenant call the bare base too."""
    grants = admin.get("/grants", tenant=BASE_TENANT)["grants"]
    if not any(grant["alias"] == BASE_NAME for grant in grants):
        admin.post("/grants", {"tenant": BASE_TENANT, "base": BASE_NAME})


def renew_key(admin: AdminClient, tenant: str) -> str:
    """Revoke the keys of earlier demos, issue a new one and return its token."""
    for key in admin.get("/keys", tenant=tenant)["keys"]:
        if key["label"] == KEY_LABEL and key["revoked_at_s"] is None:
            admin.post(f"/keys/{key['id']}/revoke", {})
    return str(admin.post("/keys", {"tenant": tenant, "label": KEY_LABEL})["token"])
