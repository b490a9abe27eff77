"""Who asks: the bearer token's SHA-256, looked up in the current snapshot. Nothing else names a tenant.

An absent, malformed, unknown, expired or suspended credential gets one and the same answer after the same work.
"""

import hashlib

import msgspec

from hotset.core.errors import UnauthenticatedError
from hotset.core.snapshot import KeyEntry, RoutingSnapshot

_SCHEME = b"bearer "
_TOKEN_BYTES_MAX = 256

Headers = list[tuple[bytes, bytes]]


class Caller(msgspec.Struct, frozen=True):
    """An authenticated key, and the hash under which later snapshots are asked for it."""

    key: KeyEntry
    key_hash: str


def authenticate(snapshot: RoutingSnapshot, authorization: bytes, wall_s: float) -> Caller:
    """Return who holds the credential.

    Args:
        snapshot: The state to look it up in.
        authorization: The ``Authorization`` header's value; empty where there is none.
        wall_s: Wall-clock seconds, against which the key's expiry is held.

    Raises:
        UnauthenticatedError: no live key of a tenant that may call.
    """
    token = authorization[len(_SCHEME) :].strip()
    key_hash = hashlib.sha256(token[:_TOKEN_BYTES_MAX]).hexdigest()
    entry = snapshot.keys.get(key_hash)
    if (
        entry is None
        or authorization[: len(_SCHEME)].lower() != _SCHEME
        or len(token) > _TOKEN_BYTES_MAX
        or (entry.expires_at_s is not None and entry.expires_at_s <= wall_s)
        or entry.tenant not in snapshot.tenants
    ):
        raise UnauthenticatedError
    return Caller(entry, key_hash)
