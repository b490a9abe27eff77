"""Who carries out an operator command, what their roles allow, and what one may not sign for."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from hotset.core.errors import InvalidRequestError, PermissionDeniedError
from hotset.storage.rows import VersionRow

Role = Literal["publisher", "reviewer", "deployer", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, slots=True)
class Actor:
    """A person or program behind a command, by the name the audit log keeps."""

    name: str
    roles: frozenset[Role] = field(default_factory=frozenset[Role])
    #: On this machine, through the Unix socket or the state folder itself; may name the server's paths.
    is_local: bool = False

    def require(self, *roles: Role) -> None:
        """Pass if the actor has one of these roles or is an admin.

        Raises:
            PermissionDeniedError: it has none of them; the message says which would do.
        """
        if not self.roles & {*roles, "admin"}:
            needed = " or ".join((*roles, "admin") if "admin" not in roles else roles)
            has = ", ".join(sorted(self.roles)) or "no role"
            raise PermissionDeniedError(f"This needs the role {needed}; {self.name!r} has {has}.")

    def require_local(self) -> None:
        """Pass if the actor may name paths of this machine.

        Raises:
            PermissionDeniedError: the command came over the network.
        """
        if not self.is_local:
            raise PermissionDeniedError("Paths on the server are taken only through its Unix socket.")


#: The caller on the Unix socket, or a command that opened the state folder under its lock.
LOCAL_ADMIN = Actor("local", frozenset(ROLES), is_local=True)

#: On whose behalf control acts on what a worker's watchdog found.
WATCHDOG = Actor("watchdog")
#: Whom the audit log names for what gateways and workers do, and what control itself observed.
FLEET = Actor("fleet")
CONTROL = Actor("control")
#: Names that no operator may have.
SYSTEM_NAMES = frozenset(actor.name for actor in (LOCAL_ADMIN, WATCHDOG, FLEET, CONTROL))


@dataclass(frozen=True, slots=True)
class Separation:
    """Who published a version can't sign for it, but in a one-person install."""

    is_one_person: bool
    #: How errors name that setting, as the operator would write it.
    setting: str

    def check(self, actor: Actor, row: VersionRow, verb: str) -> None:
        """Pass if the actor may answer for the version.

        Raises:
            PermissionDeniedError: the actor published it.
        """
        if not self.is_one_person and actor.name == row.publisher:
            raise PermissionDeniedError(
                f"{actor.name!r} published {row.ref} and so can't {verb} it; another reviewer must. "
                f"Where one person does both, set {self.setting}."
            )


def parse_roles(texts: list[str]) -> frozenset[Role]:
    """Return the roles named by `texts`.

    Raises:
        InvalidRequestError: none is named, or a word is no role.
    """
    roles: frozenset[Role] = frozenset(role for role in ROLES if role in texts)
    if not roles or len(roles) != len(set(texts)):
        raise InvalidRequestError(f"Roles are one or more of: {', '.join(ROLES)}.", param="roles")
    return roles
