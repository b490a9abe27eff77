"""The admin API as the demo uses it, in memory; it counts what is changed."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any


class FakeAdmin:
    """Follows `docs/admin-api.md` for the calls of the demo."""

    def __init__(self, stop_before: str | None = None) -> None:
        self.bases: list[dict[str, Any]] = []
        self.tenants: list[dict[str, Any]] = []
        self.grants: list[dict[str, Any]] = []
        self.keys: list[dict[str, Any]] = []
        self.versions: dict[str, dict[str, Any]] = {}
        self.changes: list[str] = []
        self.stop_before = stop_before

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        if path == "/adapters":
            found = [name for name in self.versions if name.startswith(query["owner"] + "/")]
            return {"adapters": [self._adapter(name) for name in found]}
        kept = {"/bases": self.bases, "/tenants": self.tenants, "/grants": self.grants, "/keys": self.keys}[path]
        matching = [entry for entry in kept if all(entry[name] == value for name, value in query.items())]
        return {path.strip("/"): matching}

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self._change(path, dict(body or {}))

    def long(self, path: str, body: Mapping[str, Any], on_progress: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        phase = "start_engine" if path.endswith("/prove") else "hash"
        on_progress({"event": "progress", "phase": phase, "done": 1, "total": 2, "unit": "bytes"})
        return self._change(path, dict(body))

    @contextlib.contextmanager
    def submitted(self, folder: Path, on_progress: Callable[[dict[str, Any]], None]) -> Iterator[dict[str, Any]]:
        yield {"folder": str(folder)}

    def _adapter(self, name: str) -> dict[str, Any]:
        version = self.versions[name]
        return {"adapter": name, "active": 1 if version["state"] == "active" else None, "versions": [version]}

    def _change(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.stop_before is not None and path.endswith(self.stop_before):
            raise InterruptedError(path)
        parts = path.strip("/").split("/")
        if parts[0] == "adapters":
            return self._version_step("/".join(parts[1:3]), parts[-1])
        self.changes.append(path)
        if parts[0] == "keys":
            return self._key(parts, body)
        kept = {"bases": self.bases, "tenants": self.tenants, "grants": self.grants}[parts[0]]
        entry = {"alias": body.get("base"), **body} if parts[0] == "grants" else body
        kept.append(entry)
        return entry

    def _key(self, parts: list[str], body: dict[str, Any]) -> dict[str, Any]:
        if parts[-1] == "revoke":
            key = next(key for key in self.keys if key["id"] == parts[1])
            key["revoked_at_s"] = 1.0
            return key
        key = {"id": f"k{len(self.keys)}", "revoked_at_s": None, **body}
        self.keys.append(key)
        return {"key": key, "token": f"hs_{key['id']}"}

    def _version_step(self, adapter: str, verb: str) -> dict[str, Any]:
        if verb == "versions":  # the same bytes again give the same version
            if adapter not in self.versions:
                self.changes.append(f"publish {adapter}")
            return self.versions.setdefault(adapter, {"ref": f"{adapter}@1", "state": "verified"})
        before, after = {
            "prove": ("verified", "proved"),
            "approve": ("proved", "approved"),
            "promote": ("approved", "active"),
        }[verb]
        assert self.versions[adapter]["state"] == before
        self.changes.append(f"{verb} {adapter}")
        self.versions[adapter] = {"ref": f"{adapter}@1", "state": after}
        return self.versions[adapter]
