"""What residency decides of one engine, carried out: loads, unloads, counts, one at a time and in order.

Nothing is decided here. Each effect's outcome goes back as an event; an effect without an answer is `Lost`, and only an
inventory says what became of it. What is fetched before anybody asks comes beside all that: it is in no load's way.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hotset.core.clock import Clock
from hotset.core.errors import EngineUnavailableError, HotsetError, LoadFailedError, ModelNotFoundError
from hotset.core.ids import EngineName
from hotset.core.messages import AdapterLoad
from hotset.core.versions import VersionRecord
from hotset.dispatch.prefetching import FetchFailed
from hotset.engines.port import Engine
from hotset.registry.approval import check_approval
from hotset.residency.events import (
    Count,
    Counted,
    Discard,
    Event,
    Fetch,
    Fetched,
    Load,
    Loaded,
    LoadFailed,
    Lost,
    Unload,
    Unloaded,
)
from hotset.residency.slots import Slot
from hotset.telemetry.metrics import Metrics
from hotset.worker.local_store import LocalStore
from hotset.worker.observing import Observer

_log = logging.getLogger(__name__)
EngineEffect = Load | Unload | Count | Discard


class EffectRunner:
    """The queue of effects on one engine."""

    def __init__(
        self,
        engine: Engine,
        store: LocalStore,
        reviewer_keys: Mapping[str, Ed25519PublicKey],
        slot_at: Callable[[int], Slot],
        observer: Observer,
        *,
        vouch: Callable[[EngineName], Awaitable[bool]],
        timeout_s: float,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        """Begin with nothing to do.

        Args:
            engine: Started.
            store: Where versions' files are fetched to.
            reviewer_keys: Whose approvals count, by key id.
            slot_at: Returns residency's slot of a number as it is now.
            observer: Hears of loads and evictions.
            vouch: Says of a version that is loaded whether it may serve; if not, this engine is about to end.
            timeout_s: How long the engine may take to answer before an outcome counts as lost.
            clock: Where time comes from.
            metrics: Where loads are counted.
        """
        #: What a version's engine name stands for; only these are loaded.
        self.records: Mapping[EngineName, VersionRecord] = {}
        self._engine = engine
        self._store = store
        self._reviewer_keys = reviewer_keys
        self._slot_at = slot_at
        self._observer = observer
        self._vouch = vouch
        self._timeout_s = timeout_s
        self._clock = clock
        self._metrics = metrics
        self._effects: asyncio.Queue[EngineEffect] = asyncio.Queue()
        self._fetches: asyncio.Queue[Fetch] = asyncio.Queue()

    def put(self, effect: EngineEffect) -> None:
        """Carry this out after what is there already."""
        self._effects.put_nowait(effect)

    def put_fetch(self, fetch: Fetch) -> None:
        """Carry this out beside the others."""
        self._fetches.put_nowait(fetch)

    async def run_fetches(self, tell: Callable[[Fetched | FetchFailed], None]) -> None:
        """Carry fetches out until cancelled, one at a time, and tell what came of each."""
        while True:
            tell(await self._prefetch(await self._fetches.get()))

    async def _prefetch(self, fetch: Fetch) -> Fetched | FetchFailed:
        name = fetch.name
        record = self.records.get(name)
        if record is None:
            return FetchFailed(name)
        try:
            await asyncio.to_thread(self._store.fetch, check_approval(record, self._reviewer_keys))
        except (HotsetError, OSError) as error:
            _log.warning("prefetch failed", extra={"version": str(record.ref), "reason": str(error)})
            self._observer.prefetched(name, "fetch", "failed")
            return FetchFailed(name)
        if not self._store.holds(name):  # withdrawn meanwhile
            return FetchFailed(name)
        self._observer.prefetched(name, "fetch", "done")
        return Fetched(name, fetch.account, sum(entry.size_bytes for entry in record.manifest.files))

    async def run(self, tell: Callable[[Event], None]) -> None:
        """Carry effects out until cancelled, and tell what came of each."""
        while True:
            event = await self._carry_out(await self._next())
            if event is not None:
                tell(event)

    async def _next(self) -> EngineEffect:
        """Return the next effect; after a long time without any, a count, so that an engine that hangs is noticed."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._effects.get()
        except TimeoutError:
            return Count()

    async def _carry_out(self, effect: EngineEffect) -> Event | None:
        """Run one effect; None where the engine is about to end, or nothing is to be told."""
        match effect:
            case Load(slot, name):
                event = await self._load(slot, name, is_prefetch=effect.is_prefetch)
                if effect.is_prefetch:
                    self._observer.prefetched(name, "load", "done" if isinstance(event, Loaded) else "failed")
                return event
            case Unload():
                return await self._unload(effect)
            case Count():
                return await self._count()
            case Discard(name):
                self._observer.forgotten(name)
                await asyncio.to_thread(self._store.discard, name)
                if effect.cause is not None:
                    self._observer.discarded(name, effect.cause, effect.victim, effect.by)
                return None

    async def _load(self, slot: int, name: EngineName, *, is_prefetch: bool) -> Event | None:
        record = self.records.get(name)
        if record is None:
            return LoadFailed(slot, name, ModelNotFoundError.code, "")
        began_s = self._clock.monotonic_s()
        tier = "warm" if self._store.holds(name) else "cold"
        num_bytes = sum(entry.size_bytes for entry in record.manifest.files)
        try:
            load = await asyncio.to_thread(self._fetch, record)
            async with asyncio.timeout(self._timeout_s):
                report = await self._engine.load(load)
                if not await self._vouch(name):
                    return None
        except (TimeoutError, EngineUnavailableError):  # one call that fails is not yet an engine that is gone
            return Lost(slot, name, num_bytes)
        except (HotsetError, OSError) as error:
            _log.error("load failed", extra={"version": str(record.ref), "reason": str(error)})
            return LoadFailed(slot, name, LoadFailedError.code, "")
        seconds = self._clock.monotonic_s() - began_s
        self._metrics.load_done(tier, record.manifest.rank_max, seconds)
        cause = "prefetch" if is_prefetch else ""
        self._observer.loaded(name, self._slot_at(slot).account, tier, seconds, cause)
        _log.info("loaded", extra={"version": str(record.ref), "tier": tier, "seconds": round(seconds, 4)})
        return Loaded(slot, name, num_bytes, seconds, report.slot_bytes, report.stall_seconds)

    def _fetch(self, record: VersionRecord) -> AdapterLoad:
        """Check approval and bytes; runs on a thread."""
        return self._store.materialise(check_approval(record, self._reviewer_keys))

    async def _unload(self, unload: Unload) -> Event:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._engine.unload(unload.name)
        except (TimeoutError, LoadFailedError, EngineUnavailableError):
            return Lost(unload.slot, unload.name)
        slot = self._slot_at(unload.slot)
        by = slot.account if slot.successor is not None else None
        self._observer.evicted(unload.name, unload.cause, unload.victim, by, slot.successor)
        return Unloaded(unload.slot, unload.name)

    async def _count(self) -> Event | None:
        try:
            async with asyncio.timeout(self._timeout_s):
                inventory = await self._engine.inventory()
        except (TimeoutError, LoadFailedError, EngineUnavailableError) as error:
            _log.error("the engine does not answer; it is ended", extra={"reason": str(error)})
            await self._engine.stop()
            return None
        return Counted(frozenset(inventory.loaded)) if await self._are_sound(inventory.loaded) else None

    async def _are_sound(self, names: Iterable[EngineName]) -> bool:
        """Whether versions may serve, such as came in by a load that was lost; those that were tried before may.

        What does not answer in time is tried with the next count.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                for name in names:
                    if not await self._vouch(name):
                        return False
        except (TimeoutError, HotsetError) as error:
            _log.warning("a version is not tried yet", extra={"reason": str(error)})
        return True
