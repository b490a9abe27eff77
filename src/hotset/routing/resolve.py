"""From the name a client wrote to the route it means, in that tenant's own namespace (I2).

Every name takes the same path: split off ``@N``, one look-up of (tenant, alias), one answer. A name that is
malformed, unknown, another tenant's, outside the key's scope or without an active version ends in the same
`ModelNotFoundError`, with the same text, so nothing tells "not yours" from "does not exist".
"""

from collections.abc import Iterator

import msgspec

from hotset.core.errors import HotsetError, ModelNotFoundError, UnauthenticatedError
from hotset.core.ids import Alias, BaseName, Route, engine_name
from hotset.core.snapshot import AliasEntry, KeyEntry, RoutingSnapshot

#: Longer names are not looked at: 128 characters of alias, ``@`` and 7 digits.
_MODEL_CHARS_MAX = 136
_NUMBER_DIGITS_MAX = 7


class Resolved(msgspec.Struct, frozen=True):
    """What a model name means for one key at one epoch."""

    route: Route
    alias: Alias
    #: The version's number, 0 for a base.
    number: int
    #: The name as it may be asked for again: ``alias`` or ``alias@N``.
    model: str
    #: None where the base has no registered name any more.
    base_name: BaseName | None
    created_at_s: float = 0.0
    #: The alias's own default; None leaves it to others.
    first_token_budget_ms: int | None = None

    @property
    def shown(self) -> str:
        """``alias@N`` for a version, the alias alone for a base."""
        return f"{self.alias}@{self.number}" if self.number else self.alias


def resolve(snapshot: RoutingSnapshot, key: KeyEntry, model: str) -> Resolved:
    """Return the route that `model` stands for.

    Args:
        snapshot: The state to look it up in.
        key: The authenticated key; its tenant decides the namespace, its scope narrows it.
        model: ``alias`` or ``alias@N`` as the client wrote it.

    Raises:
        ModelNotFoundError: the name stands for nothing that this key may call.
    """
    _, at, number_text = model.rpartition("@")
    alias = alias_of(model)
    entry = snapshot.aliases.get((key.tenant, alias)) if len(model) <= _MODEL_CHARS_MAX else None
    if entry is None or (key.aliases is not None and alias not in key.aliases):
        raise ModelNotFoundError
    route = entry.numbered.get(_number(number_text)) if at else entry.active
    if route is None:
        raise ModelNotFoundError
    return _resolved(entry, route, model)


def alias_of(model: str) -> Alias:
    """Return the alias in a model's name, which may be followed by ``@N``."""
    alias, at, _ = model.rpartition("@")
    return Alias(alias if at else model)


def visible_models(snapshot: RoutingSnapshot, key: KeyEntry) -> Iterator[Resolved]:
    """Yield every name that `resolve` accepts from this key, in order: what is visible is what is callable."""
    own = (
        entry
        for (tenant, alias), entry in snapshot.aliases.items()
        if tenant == key.tenant and (key.aliases is None or alias in key.aliases)
    )
    for entry in sorted(own, key=lambda entry: entry.alias):
        if entry.active is not None:
            yield _resolved(entry, entry.active, entry.alias)
        for number in sorted(entry.numbered):
            yield _resolved(entry, entry.numbered[number], f"{entry.alias}@{number}")


def stop_reason(snapshot: RoutingSnapshot, key_hash: str, key: KeyEntry, bound: Resolved) -> HotsetError | None:
    """Return why a request that was resolved at an earlier epoch may not start at this one (I11), else None.

    The key must live and mean the same, its tenant may call, the alias must still stand for the same adapter
    over the same base, and the version must still be one that may be loaded. A newer active version is no
    reason to stop: the route is bound for the request's life.

    Args:
        snapshot: The present state.
        key_hash: Under which `snapshot.keys` knows the key.
        key: The key as it was when the request was authenticated.
        bound: What the model's name meant then.
    """
    current = snapshot.keys.get(key_hash)
    if current is None or current.tenant != key.tenant or key.tenant not in snapshot.tenants:
        return UnauthenticatedError()
    entry = snapshot.aliases.get((key.tenant, bound.alias))
    if entry is None or (current.aliases is not None and bound.alias not in current.aliases):
        return ModelNotFoundError()
    if entry.adapter != bound.route.adapter or entry.base_name != bound.base_name:
        return ModelNotFoundError()
    name = engine_name(bound.route)
    may_load = entry.active == bound.route if name is None else name in snapshot.versions
    return None if may_load else ModelNotFoundError()


def _number(text: str) -> int:
    """The number in plain ASCII digits without a leading zero; 0, which names nothing, for anything else."""
    if len(text) > _NUMBER_DIGITS_MAX or not text.isascii() or not text.isdigit() or text[0] == "0":
        return 0
    return int(text)


def _resolved(entry: AliasEntry, route: Route, model: str) -> Resolved:
    return Resolved(
        route,
        entry.alias,
        route.number,
        model,
        entry.base_name,
        entry.created_at_s,
        entry.first_token_budget_ms,
    )
