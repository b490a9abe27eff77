"""Counts what tenants use of one engine: the slots that they are charged for, and the loads into them."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from hotset.core.clock import Clock
from hotset.core.ids import EngineName, TenantId
from hotset.core.residency_report import SlotEvent
from hotset.core.usage import UsageSums

#: Between two looks.
_LOOK_S = 1.0
#: A look that comes later than this after the last one counts no more: the machine slept.
_LOOK_S_MAX = 60.0


class ChargedSlot(Protocol):
    """What of a slot is counted."""

    @property
    def account(self) -> TenantId | None:
        """Who is charged for it."""
        ...

    @property
    def name(self) -> EngineName | None:
        """What is in it."""
        ...

    @property
    def successor(self) -> EngineName | None:
        """What comes into it next."""
        ...


class SlotMeter:
    """Turns what is seen of one engine, look after look, into slot seconds and loads."""

    def __init__(self, sums: UsageSums, adapter_of: Callable[[EngineName], str]) -> None:
        """Begin with an engine.

        Args:
            sums: Where to count.
            adapter_of: Returns a version's ``owner/name``, empty for one that is not served any more.
        """
        self._sums = sums
        self._adapter_of = adapter_of
        self._last_look_s: float | None = None
        #: The number of the newest event that was counted.
        self._counted = 0
        #: Adapters of the versions that were in slots: one that is withdrawn is still on its way out.
        self._adapters: dict[EngineName, str] = {}

    def look(self, slots: Iterable[ChargedSlot], events: Sequence[SlotEvent], now_s: float) -> None:
        """Count what was used since the last look.

        Args:
            slots: As they are now.
            events: The newest loads and evictions.
            now_s: Monotonic seconds.
        """
        since_s = 0.0 if self._last_look_s is None else min(_LOOK_S_MAX, now_s - self._last_look_s)
        self._last_look_s = now_s
        before, self._adapters = self._adapters, {}
        for slot in slots:
            charged = slot.successor or slot.name
            if slot.account is not None and charged is not None:
                adapter = self._adapters[charged] = self._adapter_of(charged) or before.get(charged, "")
                self._sums.of(slot.account, adapter).slot_seconds += since_s
        for event in events:
            if event.number > self._counted and event.kind == "loaded" and event.tenant is not None:
                adapter = self._adapter_of(event.version) or before.get(event.version, "")
                usage = self._sums.of(event.tenant, adapter)
                usage.loads += 1
                usage.load_seconds += event.seconds
        self._counted = max((event.number for event in events), default=self._counted)


async def keep_metering(
    meter: SlotMeter,
    slots: Callable[[], Iterable[ChargedSlot]],
    events: Callable[[], Sequence[SlotEvent]],
    clock: Clock,
) -> None:
    """Look every second until cancelled, and once more then."""
    try:
        while True:
            meter.look(slots(), events(), clock.monotonic_s())
            await asyncio.sleep(_LOOK_S)
    finally:
        meter.look(slots(), events(), clock.monotonic_s())
