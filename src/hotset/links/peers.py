"""Who is at the other end of a link: a role and a name.

Over TLS the certificate says it, in a URI among its alternative names: ``hotset://ROLE/NAME``. Over a Unix socket the
other end says it itself: whoever can open the socket is this user, or root.
"""

import os
import re
import socket
import struct
from typing import Any, Literal, cast

import msgspec

from hotset.core.errors import PermissionDeniedError
from hotset.links.link import Link

Role = Literal["control", "gateway", "worker"]

_UCRED = struct.Struct("3i")
_URI = re.compile(r"hotset://(control|gateway|worker)/([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)", re.ASCII)


class Peer(msgspec.Struct, frozen=True, array_like=True):
    """A process of the installation."""

    role: Role
    name: str

    def __str__(self) -> str:
        return f"{self.role} {self.name}"


def check_peer(link: Link[Any], claimed: Peer) -> None:
    """Pass if the other end is who it claims to be.

    Raises:
        PermissionDeniedError: its certificate says something else, or it is another user's process.
    """
    check_shown(link.fact("peercert"), link.fact("socket"), claimed)


def check_shown(certificate: dict[str, Any] | None, end: socket.socket, claimed: Peer) -> None:
    """Pass if the other end is who it claims to be, by what it shows.

    Args:
        certificate: As the TLS library gives it; None where the connection is a Unix socket.
        end: Our end of the connection.
        claimed: Who it claims to be.

    Raises:
        PermissionDeniedError: its certificate says something else, or it is another user's process.
    """
    if certificate is not None:
        shown = _shown_by(certificate)
        if claimed not in shown:
            names = ", ".join(map(str, shown)) or "nobody"
            raise PermissionDeniedError(f"The certificate is of {names}, not of {claimed}.")
        return
    uid = _user_of(end)
    if uid not in (os.geteuid(), 0):
        raise PermissionDeniedError(f"The process at the other end is user {uid}'s.")


def _shown_by(certificate: dict[str, Any]) -> list[Peer]:
    names = cast("tuple[tuple[str, str], ...]", certificate.get("subjectAltName", ()))
    matches = (_URI.fullmatch(name) for kind, name in names if kind == "URI")
    return [Peer(cast("Role", match[1]), match[2]) for match in matches if match is not None]


def _user_of(end: socket.socket) -> int:
    _pid, uid, _gid = _UCRED.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return uid
