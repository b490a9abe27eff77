"""Commands on API keys."""

from dataclasses import dataclass, field

from hotset.control.actors import Actor
from hotset.control.commits import Change, Commits
from hotset.control.grants import need_grant
from hotset.control.tenants import need_tenant
from hotset.control.tokens import API_KEY_PREFIX, Entropy, make_id, make_token, token_sha256
from hotset.core.errors import InvalidRequestError, NotFoundError
from hotset.core.ids import Alias, KeyId, TenantId
from hotset.core.ports import Withdrawal
from hotset.core.terms import DEFAULT_TERMS, Terms
from hotset.storage.catalogue import Catalogue
from hotset.storage.rows import KeyRow

_KEY_SECONDS_MAX = 10 * 366 * 24 * 3600
_LABEL_CHARS_MAX = 128


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A key just issued, and its token, which exists nowhere else."""

    row: KeyRow
    token: str = field(repr=False)


class Keys:
    """API keys: one method a command."""

    def __init__(self, commits: Commits, entropy: Entropy) -> None:
        self._commits = commits
        self._entropy = entropy

    async def issue(
        self,
        actor: Actor,
        tenant: TenantId,
        *,
        expires_in_s: float | None = None,
        aliases: frozenset[Alias] | None = None,
        label: str = "",
        terms: Terms = DEFAULT_TERMS,
    ) -> IssuedKey:
        """Issue an API key. Its token is in the answer and nowhere else.

        Args:
            actor: An admin.
            tenant: Whose key it is.
            expires_in_s: Seconds until it stops working, at most ten years; None never.
            aliases: The only aliases it may name; each must be granted. None is all, future ones too.
            label: For people, at most 128 characters.
            terms: What it may ask for, beside its tenant's terms.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: no such tenant, or an alias it does not hold.
            InvalidRequestError: the expiry or label is out of range.
        """
        actor.require("admin")
        _check_key_request(expires_in_s, aliases, label)
        token = make_token(API_KEY_PREFIX, self._entropy)
        key = KeyId(make_id("key", self._entropy))

        def act(change: Change) -> KeyRow:
            need_tenant(change.catalogue, tenant)
            for alias in sorted(aliases or ()):
                need_grant(change.catalogue, tenant, alias)
            row = KeyRow(
                key=key,
                tenant=tenant,
                token_sha256=token_sha256(token),
                label=label,
                aliases=aliases,
                created_at_s=change.now_s,
                expires_at_s=None if expires_in_s is None else change.now_s + expires_in_s,
                revoked_at_s=None,
                terms=terms,
            )
            change.catalogue.keys.add(row)
            change.audit("key.issue", key, tenant=tenant, label=label, expires_at_s=row.expires_at_s)
            return row

        return IssuedKey(await self._commits.run(actor, act), token)

    async def revoke(self, actor: Actor, key: KeyId, *, cut: bool = False) -> KeyRow:
        """Stop a key from working; with `cut`, end what runs under it. Revoking twice changes nothing.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: there is no such key.
        """
        actor.require("admin")

        def act(change: Change) -> KeyRow:
            row = need_key(change.catalogue, key)
            change.catalogue.keys.revoke(key, change.now_s)
            change.audit("key.revoke", key, tenant=row.tenant, cut=cut)
            if cut:
                change.withdrawals.append(Withdrawal(key=key))
            return need_key(change.catalogue, key)

        return await self._commits.run(actor, act)


def need_key(catalogue: Catalogue, key: KeyId) -> KeyRow:
    """Return the key, revoked or not.

    Raises:
        NotFoundError: there is no such key.
    """
    row = catalogue.keys.get(key)
    if row is None:
        raise NotFoundError(f"There is no key {key[:80]!r}; see `hotset key list`.", param="key")
    return row


def _check_key_request(expires_in_s: float | None, aliases: frozenset[Alias] | None, label: str) -> None:
    if expires_in_s is not None and not 1 <= expires_in_s <= _KEY_SECONDS_MAX:
        raise InvalidRequestError("A key lives from 1 second to ten years.", param="expires_in_s")
    if aliases is not None and not aliases:
        raise InvalidRequestError("A key that may name no alias is of no use.", param="aliases")
    if len(label) > _LABEL_CHARS_MAX or not label.isprintable():
        raise InvalidRequestError("A label is at most 128 printable characters.", param="label")
