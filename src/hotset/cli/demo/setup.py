"""Brings a running server to the state that the demo shows, through the admin API like any operator.

Every step asks what is there before it does anything, so a second start costs a few look-ups. Keys are the
one exception: a server keeps no key in readable form, so each start issues new ones and revokes those of the
last.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from hotset.cli.demo.cast import BASE_NAME, BASE_SYNONYM, BASE_TENANT, CAST, TENANTS, Role

KEY_LABEL = "demo"
#: Called with a step's title and, for long steps, how much of it is done (0 of 0 where that is not known).
Show = Callable[[str, int, int], None]


class Admin(Protocol):
    """What the demo needs of the admin API; `hotset.cli.client.AdminClient` is one."""

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """Read."""
        ...

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Act."""
        ...

    def long(
        self, path: str, body: Mapping[str, Any], on_progress: Callable[[dict[str, Any]], None]
    ) -> dict[str, Any]:
        """Act, following the work's progress events."""
        ...


def set_up(admin: Admin, base_folder: Path, adapters: Path, show: Show) -> dict[str, str]:
    """Register the base, create the tenants, serve their adapters; return a new key's token for each tenant.

    Raises:
        HotsetError: the server refused a step; the error says which and why.
    """
    add_base(admin, base_folder, show)
    for tenant in TENANTS:
        add_tenant(admin, tenant)
    show("three tenants: " + ", ".join(TENANTS), 0, 0)
    for role in CAST:
        serve_adapter(admin, role, adapters / role.name, show)
    grant_base(admin)
    return {tenant: renew_key(admin, tenant) for tenant in TENANTS}


def add_base(admin: Admin, folder: Path, show: Show) -> None:
    """Register the base under its name and synonym, unless that is done."""
    if any(base["name"] == BASE_NAME for base in admin.get("/bases")["bases"]):
        show(f"base {BASE_NAME} is registered", 0, 0)
        return
    body = {"folder": str(folder.resolve()), "name": BASE_NAME, "synonyms": [BASE_SYNONYM]}
    admin.long(
        "/bases", body, lambda event: show(f"register base {BASE_NAME}", event["done"], event["total"])
    )


def add_tenant(admin: Admin, tenant: str) -> None:
    """Create the tenant, unless it is there."""
    if not any(entry["tenant"] == tenant for entry in admin.get("/tenants")["tenants"]):
        admin.post("/tenants", {"tenant": tenant})


def serve_adapter(admin: Admin, role: Role, folder: Path, show: Show) -> None:
    """Publish, prove, approve and promote the adapter as far as that is still to do."""
    known = {entry["adapter"]: entry for entry in admin.get("/adapters", owner=role.owner)["adapters"]}
    if known.get(role.adapter, {}).get("active") is not None:
        show(f"{role.adapter} is served", 0, 0)
        return
    version = admin.long(
        f"/adapters/{role.owner}/{role.name}/versions",
        {"folder": str(folder), "base": BASE_NAME},
        lambda event: show(f"{role.adapter}: {event['phase']}", event["done"], event["total"]),
    )
    path = f"/adapters/{role.owner}/{role.name}/versions/{version['number']}"
    if version["state"] == "verified":
        version = admin.long(
            f"{path}/prove",
            {},
            lambda event: show(f"{role.adapter}: prove, {event['phase']}", event["done"], event["total"]),
        )
    if version["state"] == "proved":
        version = admin.post(f"{path}/approve", {})
    if version["state"] == "approved":
        admin.post(f"{path}/promote", {})
    show(f"{role.adapter}: verified, proved, approved, served", 0, 0)


def grant_base(admin: Admin) -> None:
    """Let one tenant call the bare base too."""
    grants = admin.get("/grants", tenant=BASE_TENANT)["grants"]
    if not any(grant["alias"] == BASE_NAME for grant in grants):
        admin.post("/grants", {"tenant": BASE_TENANT, "base": BASE_NAME})


def renew_key(admin: Admin, tenant: str) -> str:
    """Revoke the keys of earlier demos, issue a new one and return its token."""
    for key in admin.get("/keys", tenant=tenant)["keys"]:
        if key["label"] == KEY_LABEL and key["revoked_at_s"] is None:
            admin.post(f"/keys/{key['id']}/revoke", {})
    return str(admin.post("/keys", {"tenant": tenant, "label": KEY_LABEL})["token"])
