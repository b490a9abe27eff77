"""Decides whose files leave the local store, and keeps the ledger of it.

A tenant at or under its byte reserve loses no file. Beyond that the tenant that borrows most gives first, of its own
files the one that is needed latest; a tenant over its limit gives its own. Files that a slot holds or will hold stay.
"""

from collections.abc import Collection, Iterator
from itertools import islice

from hotset.core.ids import EngineName, TenantId
from hotset.residency.accounts import Accounts
from hotset.residency.charges import charge_files
from hotset.residency.demand import Demand
from hotset.residency.events import Cause, Discard
from hotset.residency.ledger import Ledger
from hotset.residency.slots import State
from hotset.residency.steps import kept_files

#: Of a tenant's files so many are compared, those in use longest ago: a decision takes no longer the more there are.
_COMPARED_MAX = 64


class StoreEvictions:
    """Charges files and frees room for them."""

    def __init__(self, state: State, accounts: Accounts, demand: Demand) -> None:
        """Start with nothing in the ledger."""
        #: Whose files came in counts as who caused it.
        self.ledger = Ledger()
        self._state = state
        self._accounts = accounts
        self._demand = demand

    def take_in(self, name: EngineName, num_bytes: int, tenant: TenantId | None) -> None:
        """Count a version's files, that are in the store by now, as those of whose request loaded them."""
        warm = self._state.warm
        warm.add(name, num_bytes, warm.account(name) or tenant)
        if tenant is not None:
            charge_files(self._state, self._accounts, name, tenant)

    def make_room(self, tenant: TenantId, now_s: float) -> list[Discard]:
        """Evict what is beyond a tenant's limit, then what is beyond the store's bound.

        Args:
            tenant: Whose files came in last, or are free to go from now on.
            now_s: Monotonic seconds.
        """
        warm, limit_bytes = self._state.warm, self._accounts.share(tenant).limit_bytes
        if not warm.is_over and warm.held(tenant) <= limit_bytes:
            return []
        kept, effects = kept_files(self._state), list[Discard]()
        while warm.held(tenant) > limit_bytes and (name := self._needed_latest(tenant, kept, now_s)) is not None:
            effects.append(self._evict(name, tenant))
        while warm.is_over and (name := self._of_who_borrows_most(kept, now_s)) is not None:
            effects.append(self._evict(name, tenant))
        return effects

    def _of_who_borrows_most(self, kept: Collection[EngineName | None], now_s: float) -> EngineName | None:
        candidates = (self._needed_latest(account, kept, now_s) for account in self._borrowers())
        return next((name for name in candidates if name is not None), None)

    def _borrowers(self) -> Iterator[TenantId | None]:
        """Yield who holds more than its reserve, who borrows most first."""
        borrowed = {account: self._borrowed(account) for account in self._state.warm.accounts()}
        yield from sorted(
            (account for account in borrowed if borrowed[account] > 0),
            key=lambda account: (-borrowed[account], account or ""),
        )

    def _borrowed(self, account: TenantId | None) -> int:
        reserve_bytes = 0 if account is None else self._accounts.share(account).reserve_bytes
        return self._state.warm.held(account) - reserve_bytes

    def _needed_latest(
        self, account: TenantId | None, kept: Collection[EngineName | None], now_s: float
    ) -> EngineName | None:
        """Return which of a tenant's files goes first; None where slots hold all of them."""
        free = list(islice((name for name in self._state.warm.of(account) if name not in kept), _COMPARED_MAX))
        logs = self._demand.log_seconds_of(free, now_s)
        return free[logs.index(max(logs))] if free else None

    def _evict(self, name: EngineName, by: TenantId) -> Discard:
        warm = self._state.warm
        victim = warm.account(name)
        assert self._borrowed(victim) > 0, f"I5: {victim} holds {warm.held(victim)} bytes, and is owed as many"
        cause: Cause = "own"
        if victim != by:
            cause = "borrow" if self._borrowed(by) > 0 else "reserve"
        if victim is not None:
            self.ledger.evicted(by, victim, cause)
        warm.remove(name)
        return Discard(name, cause, victim, by)
