"""Requests that no slot was found for yet, so that each event need look at few of them. Pure."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from hotset.core.ids import EngineName, RequestId, TenantId


@dataclass(frozen=True, slots=True)
class Want:
    """One request's wait for a slot."""

    request: RequestId
    name: EngineName
    tenant: TenantId
    #: Monotonic seconds: when it came.
    since_s: float


class Wanting:
    """Wants by request, by tenant and by version, each in order of arrival."""

    def __init__(self) -> None:
        self._wants: dict[RequestId, Want] = {}
        #: By tenant, then by version; neither is kept without a want. A version stands where its first want came.
        self._by_tenant: dict[TenantId, dict[EngineName, dict[RequestId, Want]]] = {}
        #: By version, of all tenants; none is kept without a want.
        self._by_name: dict[EngineName, dict[RequestId, Want]] = {}

    def __contains__(self, request: RequestId) -> bool:
        return request in self._wants

    def __iter__(self) -> Iterator[RequestId]:
        return iter(self._wants)

    def __len__(self) -> int:
        return len(self._wants)

    def add(self, want: Want) -> None:
        """Take a request in, as the latest."""
        self._wants[want.request] = want
        self._by_tenant.setdefault(want.tenant, {}).setdefault(want.name, {})[want.request] = want
        self._by_name.setdefault(want.name, {})[want.request] = want

    def remove(self, request: RequestId) -> None:
        """Forget a request; an unknown one is ignored."""
        want = self._wants.pop(request, None)
        if want is None:
            return
        _drop(self._by_name, want.name, request)
        versions = self._by_tenant[want.tenant]
        _drop(versions, want.name, request)
        if not versions:
            del self._by_tenant[want.tenant]

    def tenants(self) -> list[TenantId]:
        """Return the tenants that want a slot, in order of their first requests."""
        return list(self._by_tenant)

    def has(self, tenant: TenantId) -> bool:
        """Whether a tenant wants a slot."""
        return tenant in self._by_tenant

    def firsts(self, tenant: TenantId) -> Iterator[Want]:
        """Yield a tenant's first want of each version."""
        for wants in self._by_tenant.get(tenant, {}).values():
            yield next(iter(wants.values()))

    def of_tenant(self, tenant: TenantId) -> list[Want]:
        """Return all wants of a tenant."""
        return [want for wants in self._by_tenant.get(tenant, {}).values() for want in wants.values()]

    def of_version(self, name: EngineName | None) -> list[Want]:
        """Return all tenants' wants of a version."""
        return list(self._by_name.get(name, {}).values()) if name is not None else []

    def num_versions(self) -> dict[TenantId, int]:
        """Return the number of versions wanted by tenant."""
        return {tenant: len(versions) for tenant, versions in self._by_tenant.items()}

    def versions(self, tenant: TenantId) -> list[EngineName]:
        """Return the versions that a tenant wants, in order of their first requests."""
        return list(self._by_tenant.get(tenant, ()))

    def counts(self) -> Counter[TenantId]:
        """Return the number of wants by tenant."""
        return Counter({tenant: sum(map(len, versions.values())) for tenant, versions in self._by_tenant.items()})

    def check(self) -> None:
        """Assert that all three say the same."""
        by_tenant = {r for versions in self._by_tenant.values() for wants in versions.values() for r in wants}
        by_name = {request for wants in self._by_name.values() for request in wants}
        assert self._wants.keys() == by_tenant == by_name, "wants differ by tenant or by version"
        assert all(self._by_name.values()), "a version is wanted by nobody"
        assert all(versions and all(versions.values()) for versions in self._by_tenant.values()), (
            "a tenant wants nothing"
        )


def _drop(wants: dict[EngineName, dict[RequestId, Want]], name: EngineName, request: RequestId) -> None:
    """Take one want out, and its version with the last."""
    del wants[name][request]
    if not wants[name]:
        del wants[name]
