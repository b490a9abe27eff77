"""Which versions' files are in the local store, whom each is charged to, and what they add up to."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hotset.core.ids import EngineName, TenantId


class _Files(NamedTuple):
    """What is known of one version's files."""

    num_bytes: int
    #: Whom they are charged to; None is nobody.
    account: TenantId | None


class WarmFiles:
    """Bytes by version and by tenant."""

    def __init__(self, bytes_max: int) -> None:
        """Start empty; `bytes_max` bounds all files together, as far as slots let go of them."""
        self.bytes_max = bytes_max
        #: The one that was in use longest ago first.
        self._files: dict[EngineName, _Files] = {}
        #: The same by account; none is kept without files.
        self._by_account: dict[TenantId | None, dict[EngineName, None]] = {}
        #: Bytes charged to each of these, and of all together.
        self._held: dict[TenantId | None, int] = {}
        self._total = 0

    def __contains__(self, name: EngineName) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[EngineName]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    @property
    def total(self) -> int:
        """Bytes of all files together."""
        return self._total

    @property
    def is_over(self) -> bool:
        """Whether they are more than their bound."""
        return self._total > self.bytes_max

    def items(self) -> Iterable[tuple[EngineName, int]]:
        """Yield each version with its bytes."""
        return ((name, files.num_bytes) for name, files in self._files.items())

    def charges(self) -> Iterable[tuple[EngineName, TenantId | None, int]]:
        """Yield each version with whom its files are charged to, and their bytes."""
        return ((name, files.account, files.num_bytes) for name, files in self._files.items())

    def num_bytes(self, name: EngineName) -> int:
        """Return the bytes of a version's files; 0 where there are none."""
        files = self._files.get(name)
        return 0 if files is None else files.num_bytes

    def account(self, name: EngineName) -> TenantId | None:
        """Return whom a version's files are charged to; None where there are none."""
        files = self._files.get(name)
        return None if files is None else files.account

    def held(self, account: TenantId | None) -> int:
        """Return the bytes that are charged to a tenant."""
        return self._held.get(account, 0)

    def accounts(self) -> Iterable[TenantId | None]:
        """Return whom files are charged to."""
        return self._held.keys()

    def of(self, account: TenantId | None) -> Iterable[EngineName]:
        """Return the versions whose files are charged to a tenant, the one that was in use longest ago first."""
        return self._by_account.get(account, {}).keys()

    def add(self, name: EngineName, num_bytes: int, account: TenantId | None = None) -> None:
        """Take a version's files in, or count them anew, as those in use last."""
        self.remove(name)
        self._files[name] = _Files(num_bytes, account)
        self._by_account.setdefault(account, {})[name] = None
        self._held[account] = self._held.get(account, 0) + num_bytes
        self._total += num_bytes

    def used(self, name: EngineName) -> None:
        """Count a version's files as those in use last; unknown ones are ignored."""
        files = self._files.get(name)
        if files is not None:
            self.add(name, files.num_bytes, files.account)

    def remove(self, name: EngineName) -> bool:
        """Forget a version's files; whether there were any."""
        files = self._files.pop(name, None)
        if files is None:
            return False
        of_account = self._by_account[files.account]
        del of_account[name]
        self._held[files.account] -= files.num_bytes
        if not of_account:
            del self._by_account[files.account], self._held[files.account]
        self._total -= files.num_bytes
        return True

    def check(self) -> None:
        """Assert that every sum is one."""
        assert self._total == sum(files.num_bytes for files in self._files.values()), f"warm bytes: {self._total}"
        held = dict.fromkeys((files.account for files in self._files.values()), 0)
        for files in self._files.values():
            held[files.account] += files.num_bytes
        assert self._held == held, f"warm bytes by tenant: {self._held}, in truth {held}"
        by_account = {account: [name for name in self._files if self.account(name) == account] for account in held}
        assert {account: list(names) for account, names in self._by_account.items()} == by_account, (
            f"warm files by tenant: {self._by_account}"
        )
