"""Ids, references and routes: what things are called, and nothing about what they may do.

Every identifier that a person or a client can spell is parsed here, once, into a value that can
no longer be malformed. ASCII only: a look-alike letter is never the same name.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import NewType

from hotset.core.errors import InvalidNameError

TenantId = NewType("TenantId", str)
KeyId = NewType("KeyId", str)
RequestId = NewType("RequestId", str)
#: ``job_`` or ``resp_`` and 32 hex digits.
JobId = NewType("JobId", str)
#: The name under which a base version is registered, such as ``smollm2-135m``.
BaseName = NewType("BaseName", str)
#: ``sha256:`` and 64 hex digits.
Digest = NewType("Digest", str)
#: ``hs-`` and 32 hex digits; never used for other bytes.
EngineName = NewType("EngineName", str)
#: The model name a tenant uses, in that tenant's own namespace.
Alias = NewType("Alias", str)
WorkerId = NewType("WorkerId", str)
PoolName = NewType("PoolName", str)

_SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_SLUG_RULE = "1 to 63 of a-z, 0-9 and '-', no '-' at either end"
_SEGMENT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?", re.ASCII)
_ALIAS_CHARS_MAX = 128
_VERSION_NUMBER_MAX = 1_000_000


def parse_tenant(text: str) -> TenantId:
    """Return `text` as a tenant id: 1 to 63 of ``a-z 0-9 -``, no hyphen at either end.

    Raises:
        InvalidNameError: the text is anything else.
    """
    if not _SLUG.fullmatch(text):
        raise InvalidNameError("tenant id", text, _SLUG_RULE)
    return TenantId(text)


def parse_worker(text: str) -> WorkerId:
    """Return `text` as a worker id: 1 to 63 of ``a-z 0-9 -``, no hyphen at either end.

    Raises:
        InvalidNameError: the text is anything else.
    """
    if not _SLUG.fullmatch(text):
        raise InvalidNameError("worker id", text, _SLUG_RULE)
    return WorkerId(text)


def parse_pool(text: str) -> PoolName:
    """Return `text` as a pool's name: 1 to 63 of ``a-z 0-9 -``, no hyphen at either end.

    Raises:
        InvalidNameError: the text is anything else.
    """
    if not _SLUG.fullmatch(text):
        raise InvalidNameError("pool name", text, _SLUG_RULE)
    return PoolName(text)


def parse_base_name(text: str) -> BaseName:
    """Return `text` as a base name: one path-free segment of ``A-Z a-z 0-9 . _ -``.

    Raises:
        InvalidNameError: the text is anything else.
    """
    if not _SEGMENT.fullmatch(text):
        raise InvalidNameError("base name", text, "1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', no '.' at either end")
    return BaseName(text)


def parse_alias(text: str) -> Alias:
    """Return `text` as an alias: segments joined by ``/``, at most 128 characters, no ``:`` or ``@``.

    Raises:
        InvalidNameError: the text is anything else.
    """
    if len(text) > _ALIAS_CHARS_MAX or not all(_SEGMENT.fullmatch(part) for part in text.split("/")):
        raise InvalidNameError(
            "alias", text, "segments of A-Z, a-z, 0-9, '.', '_', '-' joined by '/', at most 128 characters"
        )
    return Alias(text)


@dataclass(frozen=True, slots=True, order=True)
class AdapterId:
    """A named LoRA of one owner, written ``owner/name``."""

    owner: TenantId
    name: str

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> "AdapterId":
        """Parse ``owner/name``.

        Raises:
            InvalidNameError: no owner, or a part with other characters than a name may hold.
        """
        owner, slash, name = text.partition("/")
        if not slash or not _SEGMENT.fullmatch(name):
            raise InvalidNameError("adapter", text, "owner/name, the name of A-Z, a-z, 0-9, '.', '_' and '-'")
        return cls(parse_tenant(owner), name)


@dataclass(frozen=True, slots=True, order=True)
class VersionRef:
    """One immutable version of an adapter, written ``owner/name@N``."""

    adapter: AdapterId
    number: int

    def __str__(self) -> str:
        return f"{self.adapter}@{self.number}"

    @classmethod
    def parse(cls, text: str) -> "VersionRef":
        """Parse ``owner/name@N``, N from 1, without leading zeros.

        Raises:
            InvalidNameError: the text is anything else.
        """
        adapter, at, number = text.rpartition("@")
        if not at:
            raise InvalidNameError("version", text, "owner/name@N")
        return cls(AdapterId.parse(adapter), parse_version_number(number))


def parse_version_number(text: str) -> int:
    """Return the version number in `text`: a decimal from 1 to 1,000,000 in plain ASCII digits.

    Raises:
        InvalidNameError: the text is anything else.
    """
    if not re.fullmatch(r"[1-9][0-9]{0,6}", text, re.ASCII) or int(text) > _VERSION_NUMBER_MAX:
        raise InvalidNameError("version number", text, "a decimal number from 1 to 1000000")
    return int(text)


@dataclass(frozen=True, slots=True)
class Route:
    """(base version, adapter id, version): what a request is bound to for its whole life.

    `adapter`, `number` and `digest` are None, 0 and empty for a route to the bare base.
    """

    base: Digest
    adapter: AdapterId | None = None
    number: int = 0
    digest: Digest = Digest("")

    @property
    def is_base(self) -> bool:
        """Whether the route names the bare base."""
        return self.adapter is None


def engine_name(route: Route) -> EngineName | None:
    """Return what an engine calls the route's version; None for the bare base.

    A pure function of (base version, adapter id, number, digest), so the same bytes published
    again under another number are another name, and a name never stands for other bytes.
    """
    if route.adapter is None:
        return None
    identity = "\x00".join((route.base, str(route.adapter), str(route.number), route.digest))
    return EngineName("hs-" + hashlib.sha256(identity.encode()).hexdigest()[:32])
