"""Commands on operator tokens, and how a token becomes an actor."""

from dataclasses import dataclass, field
from typing import cast

from hotset.control.actors import LOCAL_ADMIN, ROLES, SYSTEM_NAMES, Actor, Role
from hotset.control.commits import Change, Commits
from hotset.control.tokens import OPERATOR_PREFIX, Entropy, make_id, make_token, token_sha256
from hotset.core.errors import InvalidRequestError, NotFoundError, UnauthenticatedError
from hotset.storage.catalogue import Catalogue
from hotset.storage.rows import OperatorRow

_NAME_CHARS_MAX = 64


@dataclass(frozen=True, slots=True)
class IssuedOperator:
    """An operator just made, and its token, which exists nowhere else."""

    row: OperatorRow
    token: str = field(repr=False)


class Operators:
    """Operator tokens: one method a command."""

    def __init__(self, commits: Commits, entropy: Entropy) -> None:
        self._commits = commits
        self._entropy = entropy

    async def add(self, actor: Actor, name: str, roles: frozenset[Role]) -> IssuedOperator:
        """Make a token for a person or program.

        Raises:
            PermissionDeniedError: the actor is no admin.
            InvalidRequestError: the name is empty, too long, or one that the audit log has for Hotset itself, in
                whatever case.
        """
        actor.require("admin")
        if not 1 <= len(name) <= _NAME_CHARS_MAX or not name.isprintable() or name.strip().lower() in SYSTEM_NAMES:
            taken = ", ".join(f"'{each}'" for each in sorted(SYSTEM_NAMES))
            raise InvalidRequestError(f"An operator's name is 1 to 64 printable characters, not {taken}.", param="name")
        return await self._issue(actor, name, roles)

    async def first(self) -> IssuedOperator | None:
        """Make the installation's first admin token; None where there has been one."""
        if await self._commits.read(lambda catalogue: bool(catalogue.operators.all())):
            return None
        return await self._issue(LOCAL_ADMIN, "first-admin", frozenset(ROLES))

    async def revoke(self, actor: Actor, operator: str) -> OperatorRow:
        """Stop a token from working.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: there is no such operator.
        """
        actor.require("admin")

        def act(change: Change) -> OperatorRow:
            row = _need_operator(change.catalogue, operator)
            change.catalogue.operators.revoke(operator, change.now_s)
            change.audit("operator.revoke", operator, name=row.name)
            return _need_operator(change.catalogue, operator)

        return await self._commits.run(actor, act)

    async def authenticate(self, token: str | None) -> Actor:
        """Return whose token this is.

        Raises:
            UnauthenticatedError: it is missing, unknown, revoked, or a tenant's key.
        """
        if token is not None and token.startswith(OPERATOR_PREFIX):
            sha256 = token_sha256(token)
            row = await self._commits.read(lambda catalogue: catalogue.operators.by_token(sha256))
            if row is not None:
                return Actor(row.name, cast("frozenset[Role]", row.roles))
        raise UnauthenticatedError("The operator token (hso_…) is missing, unknown or revoked.")

    async def _issue(self, actor: Actor, name: str, roles: frozenset[Role]) -> IssuedOperator:
        token = make_token(OPERATOR_PREFIX, self._entropy)
        operator = make_id("op", self._entropy)

        def act(change: Change) -> OperatorRow:
            row = OperatorRow(operator, name, token_sha256(token), frozenset(roles), change.now_s, None)
            change.catalogue.operators.add(row)
            change.audit("operator.add", operator, name=name, roles=sorted(roles))
            return row

        return IssuedOperator(await self._commits.run(actor, act), token)


def _need_operator(catalogue: Catalogue, operator: str) -> OperatorRow:
    for row in catalogue.operators.all():
        if row.operator == operator:
            return row
    raise NotFoundError(f"There is no operator {operator[:80]!r}.", param="operator")
