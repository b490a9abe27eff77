"""Whose request goes to the engine next: the tenant that was served least, in tokens (VTC). Pure counters.

A tenant's counter rises by what the engine did for it, input and output tokens weighted; of the tenants that wait, the
one with the lowest counter goes next, its own requests in order of arrival. A tenant that comes back from idling is
lifted to the lowest counter among those that waited when its request came, so idling saves nothing up, and a wait for a
slot costs nothing. Two tenants that both wait here all the time then differ by at most twice
``max(input_weight * longest input, output_weight * tokens in flight)``.
Source: Sheng et al., Fairness in Serving Large Language Models, OSDI 2024, algorithm 2 and theorem 4.4.
"""

from collections import Counter

import msgspec

from hotset.core.ids import EngineName, RequestId, TenantId


class _Entry(msgspec.Struct, eq=False):
    tenant: TenantId
    #: What its counter was or will be charged for the prompt.
    input_tokens: int
    #: Sequences that it takes in the engine.
    num_sequences: int
    #: What it is for; None for the bare base, which no bound on adapters concerns.
    adapter: EngineName | None


class FairQueue:
    """Requests that wait for a place in the engine, and those that have one."""

    def __init__(
        self,
        *,
        sequences_max: int,
        adapters_max: int | None = None,
        input_weight: float = 1.0,
        output_weight: float = 2.0,
    ) -> None:
        """Start empty.

        Args:
            sequences_max: What may be in the engine at a time, at least 1. A request of more goes when it is alone.
            adapters_max: Distinct adapters that may be in the engine at a time, at least 1; None sets no bound.
            input_weight: What a prompt token counts.
            output_weight: What a generated token counts; more, since each takes a step of its own.
        """
        assert sequences_max >= 1, sequences_max
        assert adapters_max is None or adapters_max >= 1, adapters_max
        self._sequences_max = sequences_max
        self._adapters_max = adapters_max
        self._input_weight = input_weight
        self._output_weight = output_weight
        #: By tenant, requests in order of arrival; no tenant without any.
        self._waiting: dict[TenantId, dict[RequestId, _Entry]] = {}
        #: The same, by request.
        self._entries: dict[RequestId, _Entry] = {}
        self._running: dict[RequestId, _Entry] = {}
        #: The sum over those that run.
        self._num_sequences = 0
        #: Running requests by adapter; none is kept without any.
        self._adapters: dict[EngineName, int] = {}
        #: Requests that went before one whose adapter had to wait, since an adapter was last let in.
        self._num_overtook = 0
        self._counters: dict[TenantId, float] = {}
        #: The counter of the tenant that left the queue last: where one starts that finds it empty.
        self._left_at = 0.0

    @property
    def num_running(self) -> int:
        """Requests that have a place in the engine."""
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        """Requests that wait for one."""
        return len(self._entries)

    def waiting(self) -> list[RequestId]:
        """Return the requests that wait for one, in order of arrival."""
        return list(self._entries)

    def has_place(self, num_sequences: int, adapter: EngineName | None = None) -> bool:
        """Whether a request of so many sequences for this adapter would go at once."""
        has_room = not self._running or self._num_sequences + num_sequences <= self._sequences_max
        return not self._waiting and has_room and self._may_join(adapter)

    def num_ahead(self, tenant: TenantId) -> int:
        """Return about how many requests go before a tenant's next one: its own, and as many of each other tenant."""
        own = len(self._waiting.get(tenant, ()))
        return own + sum(min(len(entries), own + 1) for other, entries in self._waiting.items() if other != tenant)

    def counter(self, tenant: TenantId) -> float:
        """Return a tenant's weighted tokens, as lifted."""
        return self._counters.get(tenant, 0.0)

    def lowest(self) -> float:
        """Return the lowest counter among those that wait; where none does, that of the tenant that did last."""
        return min(map(self.counter, self._waiting), default=self._left_at)

    def __contains__(self, request: RequestId) -> bool:
        return request in self._running or request in self._entries

    def enter(
        self,
        request: RequestId,
        tenant: TenantId,
        *,
        input_tokens: int,
        num_sequences: int = 1,
        adapter: EngineName | None = None,
        lowest: float | None = None,
    ) -> None:
        """Let a request wait; its prompt is charged when it starts.

        Args:
            request: Not here yet.
            tenant: Whose it is.
            input_tokens: Of its prompt, as well as is known.
            num_sequences: That it takes in the engine.
            adapter: What it is for; None for the bare base.
            lowest: The lowest counter when it came; None where it came now.
        """
        assert request not in self, f"request {request} entered twice"
        if not self._waiting:
            self._num_overtook = 0
        if tenant not in self._waiting:
            lowest = self.lowest() if lowest is None else lowest
            self._counters[tenant] = max(self.counter(tenant), lowest)
            self._waiting[tenant] = {}
        entry = _Entry(tenant, input_tokens, num_sequences, adapter)
        self._waiting[tenant][request] = self._entries[request] = entry

    def start(self) -> list[RequestId]:
        """Give free places to those that wait, and return who got one, in order.

        The one whose turn it is may not fit; nobody overtakes it then. Where it is its adapter that has to wait for
        another one to leave, requests for adapters that are in go first, but no more than the engine holds: then
        nobody goes until there is room for it, so that it waits for one engine's fill at most.
        """
        started: list[RequestId] = []
        while self._waiting and (turn := self._next()) is not None and self._fits(turn[1]):
            request, entry, overtakes = turn
            self._take(request, entry)
            self._num_overtook += overtakes
            self._run(request, entry)
            self._counters[entry.tenant] += self._input_weight * entry.input_tokens
            started.append(request)
        return started

    def served(self, request: RequestId, *, input_tokens: int | None = None, output_tokens: int = 0) -> None:
        """Charge what the engine did for a running request; of an unknown one nothing is charged.

        Args:
            request: The request.
            input_tokens: The true length of its prompt, in place of the one it entered with.
            output_tokens: Tokens generated since the last call.
        """
        entry = self._running.get(request)
        if entry is None:
            return
        charge = self._output_weight * output_tokens
        if input_tokens is not None:
            charge += self._input_weight * (input_tokens - entry.input_tokens)
            entry.input_tokens = input_tokens
        self._counters[entry.tenant] += charge

    def leave(self, request: RequestId) -> None:
        """Let go of a request, running or waiting; unknown ones are ignored."""
        if (entry := self._running.pop(request, None)) is not None:
            self._num_sequences -= entry.num_sequences
            if entry.adapter is not None:
                self._adapters[entry.adapter] -= 1
                if not self._adapters[entry.adapter]:
                    del self._adapters[entry.adapter]
            return
        if (entry := self._entries.get(request)) is not None:
            self._take(request, entry)

    def clear(self) -> None:
        """Forget every request, as the engine is gone; counters stay."""
        self._waiting.clear()
        self._entries.clear()
        self._running.clear()
        self._adapters.clear()
        self._num_sequences = self._num_overtook = 0

    def check(self) -> None:
        """Assert that the totals are right, the bound holds and every request stands in one place."""
        total = sum(entry.num_sequences for entry in self._running.values())
        assert self._num_sequences == total, f"{self._num_sequences} sequences counted, {total} run"
        assert total <= self._sequences_max or len(self._running) == 1, f"{total} of {self._sequences_max} run"
        adapters = Counter(entry.adapter for entry in self._running.values() if entry.adapter is not None)
        assert self._adapters == adapters, f"{self._adapters} counted, {adapters} run"
        assert self._adapters_max is None or len(adapters) <= self._adapters_max, f"{len(adapters)} adapters run"
        waiting = [request for entries in self._waiting.values() for request in entries]
        assert self._entries.keys() == set(waiting), "requests wait that no tenant has, or the other way round"
        assert all(self._waiting.values()), "a tenant waits with nothing"
        assert max(Counter([*waiting, *self._running]).values(), default=1) == 1, "a request stands in two places"

    def _next(self) -> tuple[RequestId, _Entry, bool] | None:
        """Return whose turn it is, and whether it overtakes; None where its adapter waits and enough overtook it."""
        tenant = min(self._waiting, key=self._turn)
        request, entry = next(iter(self._waiting[tenant].items()))
        if self._may_join(entry.adapter):
            return request, entry, False
        return self._overtaker() if self._num_overtook < self._sequences_max else None

    def _turn(self, tenant: TenantId) -> tuple[float, TenantId]:
        return self.counter(tenant), tenant

    def _overtaker(self) -> tuple[RequestId, _Entry, bool] | None:
        """Return the first request, in the order of turns, that needs no adapter that is not in the engine."""
        for tenant in sorted(self._waiting, key=self._turn):
            for request, entry in self._waiting[tenant].items():
                if entry.adapter is None or entry.adapter in self._adapters:
                    return request, entry, True
        return None

    def _may_join(self, adapter: EngineName | None) -> bool:
        """Whether the bound on adapters lets one in."""
        if adapter is None or self._adapters_max is None or adapter in self._adapters:
            return True
        return len(self._adapters) < self._adapters_max

    def _run(self, request: RequestId, entry: _Entry) -> None:
        """Count a request among those that run."""
        if entry.adapter is not None:
            if entry.adapter not in self._adapters:
                self._num_overtook = 0
            self._adapters[entry.adapter] = self._adapters.get(entry.adapter, 0) + 1
        self._running[request] = entry
        self._num_sequences += entry.num_sequences

    def _fits(self, entry: _Entry) -> bool:
        return not self._running or self._num_sequences + entry.num_sequences <= self._sequences_max

    def _take(self, request: RequestId, entry: _Entry) -> None:
        """Take a request out of those that wait."""
        del self._entries[request]
        del self._waiting[entry.tenant][request]
        if not self._waiting[entry.tenant]:
            del self._waiting[entry.tenant]
            self._left_at = self.counter(entry.tenant)
