"""Seals what tenants entrust to the database: AES-256-GCM under a key from a file, bound to its place.

A sealed text is one version byte, 8 bytes that name its key, a random nonce of 12 bytes, and the ciphertext with its
tag. The associated bytes name the row, its tenant and the kind of content, so a sealed text that is moved to another
row, tenant or column does not open. Several keys may be there: the newest seals, each opens what it sealed.
Source: NIST SP 800-38D, section 8.2.2; one key may seal 2^32 texts under random nonces.
"""

import hashlib
import os
from collections.abc import Sequence
from typing import Literal

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hotset.core.errors import SealBrokenError
from hotset.core.ids import JobId, TenantId

KEY_BYTES = 32
_VERSION = b"\x01"
_KEY_ID_BYTES = 8
_NONCE_BYTES = 12
_HEAD_BYTES = len(_VERSION) + _KEY_ID_BYTES + _NONCE_BYTES

Kind = Literal["body", "result"]


class Sealer:
    """Seals and opens under the keys of one installation; safe to use from several threads."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        """Take the keys.

        Args:
            keys: `KEY_BYTES` each, oldest first; the last one seals.
        """
        assert keys, "there is no key to seal with"
        assert all(len(key) == KEY_BYTES for key in keys), "a key has another length"
        self._keys = {_key_id(key): AESGCM(key) for key in keys}
        self._newest = _key_id(keys[-1])

    def seal(self, content: bytes, *, job: JobId, tenant: TenantId, kind: Kind) -> bytes:
        """Return the content sealed for this place."""
        nonce = os.urandom(_NONCE_BYTES)
        ciphertext = self._keys[self._newest].encrypt(nonce, content, _place(job, tenant, kind))
        return b"".join((_VERSION, self._newest, nonce, ciphertext))

    def open(self, sealed: bytes, *, job: JobId, tenant: TenantId, kind: Kind) -> bytes:
        """Return what was sealed for this place.

        Raises:
            SealBrokenError: it was sealed under a key that is gone or for another place, or was changed.
        """
        key = self._keys.get(sealed[len(_VERSION) : len(_VERSION) + _KEY_ID_BYTES])
        if key is None or not sealed.startswith(_VERSION):
            raise SealBrokenError(f"No key of this installation opens the {kind} of {job}.")
        nonce = sealed[_HEAD_BYTES - _NONCE_BYTES : _HEAD_BYTES]
        try:
            return key.decrypt(nonce, sealed[_HEAD_BYTES:], _place(job, tenant, kind))
        except (InvalidTag, ValueError) as error:  # the latter: cut off within the nonce
            raise SealBrokenError(f"The {kind} of {job} was changed, or sealed for another place.") from error


def _key_id(key: bytes) -> bytes:
    return hashlib.sha256(b"hotset seal key\x00" + key).digest()[:_KEY_ID_BYTES]


def _place(job: JobId, tenant: TenantId, kind: Kind) -> bytes:
    return msgspec.json.encode(("hotset job", job, tenant, kind))
