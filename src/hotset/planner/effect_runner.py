"""Carries out one simulated engine's effects: one at a time, in order, each within its time-out, as an agent does."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from hotset.core.errors import HotsetError, LoadFailedError, ModelNotFoundError
from hotset.core.ids import EngineName
from hotset.core.versions import VersionRecord
from hotset.dispatch.prefetching import FetchFailed
from hotset.planner.calibration import Calibration
from hotset.planner.rules import EngineRules
from hotset.planner.virtual_engine import VirtualEngine
from hotset.planner.virtual_store import VirtualStore
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
from hotset.residency.reclaim import Reclaim
from hotset.sim.clocks import SkewedClock
from hotset.sim.world import Timer, World

EngineEffect = Load | Unload | Count | Discard
_DISCARD_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerShape:
    """One simulated worker."""

    num_slots: int = 4
    #: The highest rank that its slots take.
    rank_class: int = 64
    sequences_max: int = 4
    waiting_max: int = 64
    warm_bytes_max: int = 200_000_000
    load_timeout_s: float = 8.0
    effect_timeout_s: float = 2.0
    load_retry_s: float = 1.0
    loads_per_minute: float = 240.0
    reclaim: Reclaim = field(default_factory=Reclaim)
    #: Distinct adapters in the engine at a time; None sets no bound but the slots.
    adapters_max: int | None = None
    stall_ms_per_s: float = 500.0
    calibration: Calibration = field(default_factory=Calibration)


class EffectRunner:
    """The queue of effects on one engine; what comes of each is told to the policy."""

    def __init__(
        self,
        world: World,
        clock: SkewedClock,
        tell: Callable[[Event | FetchFailed], None],
        *,
        subject: str,
        shape: WorkerShape,
        store: VirtualStore,
        engine: VirtualEngine,
        rules: EngineRules,
    ) -> None:
        self._world, self._clock, self._tell = world, clock, tell
        self._subject, self._shape, self._store = subject, shape, store
        self._engine, self._rules = engine, rules
        self._rng = world.randomness(f"disk of {subject} at {world.now_s}")
        #: Versions that may be loaded.
        self.records: Mapping[EngineName, VersionRecord] = {}
        self._effects: deque[EngineEffect] = deque()
        #: Numbers effects, so that an answer after its time-out is not taken for the next one's.
        self._count = 0
        self._is_busy = False
        self._is_over = False
        self._timer: Timer | None = None
        self._count_when_idle()

    def put(self, effect: EngineEffect) -> None:
        """Add an effect; `carry_on` begins it."""
        self._effects.append(effect)

    def fetch(self, fetch: Fetch) -> None:
        """Bring a version's files in, beside the effects on the engine."""
        name = fetch.name
        record = self.records.get(name)
        if record is None:
            what, done = f"{self._subject} has no record of {name}", partial(self._tell, FetchFailed(name))
            self._world.after(0.0, what, done)
            return
        prefetched = partial(self._prefetched, record, fetch)
        self._world.after(self._store.seconds(record), f"{self._subject} has prefetched {name}", prefetched)

    def _prefetched(self, record: VersionRecord, fetch: Fetch) -> None:
        if self._is_over:
            return
        try:
            self._store.fetch(record, self._rng)
        except (HotsetError, OSError) as error:
            self._world.log.note(f"{self._subject}: prefetch failed: {error}")
            self._tell(FetchFailed(fetch.name))
        else:
            self._tell(Fetched(fetch.name, fetch.account, num_bytes(record)))
        self.carry_on()

    def stop(self) -> None:
        """Carry out nothing more, and tell nothing of what is under way."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def carry_on(self) -> None:
        """Begin the next effect, unless one is under way."""
        if self._is_busy or self._is_over or not self._effects:
            return
        self._is_busy = True
        self._count += 1
        done = partial(self._done, self._count)
        match self._effects.popleft():
            case Load(slot, name):
                self._load(slot, name)
            case Unload(slot, name):
                unloaded, lost = Unloaded(slot, name), Lost(slot, name)
                self._within_timeout(partial(done, lost))
                self._engine.unload(name, lambda code: done(unloaded if code is None else lost))
            case Count():
                self._within_timeout(self._end_engine)
                self._engine.inventory(lambda loaded: done(Counted(loaded)))
            case Discard(name):
                self._world.after(_DISCARD_S, f"{self._subject} deletes {name}", partial(self._discard, name))

    def _load(self, slot: int, name: EngineName) -> None:
        record = self.records.get(name)
        if record is None:
            failed = LoadFailed(slot, name, ModelNotFoundError.code, "")
            self._world.after(0.0, f"{self._subject} has no record of {name}", partial(self._done, self._count, failed))
            return
        what = f"{self._subject} has fetched {name}"
        fetched = partial(self._fetched, slot, record, name, self._clock.monotonic_s())
        self._world.after(self._store.seconds(record), what, fetched)

    def _fetched(self, slot: int, record: VersionRecord, name: EngineName, began_s: float) -> None:
        if self._is_over:
            return
        count, size = self._count, num_bytes(record)
        try:
            weights = self._store.materialise(record, self._rng)
        except (HotsetError, OSError) as error:
            self._world.log.note(f"{self._subject}: load failed: {error}")
            self._done(count, LoadFailed(slot, name, LoadFailedError.code, ""))
            return
        self._within_timeout(partial(self._done, count, Lost(slot, name, size)))

        def answered(code: str | None) -> None:
            seconds, stall_s = self._clock.monotonic_s() - began_s, self._shape.calibration.load_stall_s
            loaded = Loaded(slot, name, size, seconds, size, stall_s)
            self._done(count, loaded if code is None else LoadFailed(slot, name, code, ""))

        self._engine.load(name, weights, answered)

    def _discard(self, name: EngineName) -> None:
        if self._is_over:
            return
        self._rules.files_deleted(name, self._engine.loaded)
        self._store.discard(name)
        self._done(self._count, None)

    def _end_engine(self) -> None:
        self._world.log.note(f"{self._subject}: the engine does not answer; it is ended")
        self._engine.die()

    def _within_timeout(self, late: Callable[[], None]) -> None:
        self._set_timer(f"{self._subject} effect takes too long", late)

    def _done(self, count: int, event: Event | None) -> None:
        """Take the present effect's outcome; one that was given up on comes too late."""
        if count != self._count or not self._is_busy or self._is_over:
            return
        self._is_busy = False
        self._count_when_idle()
        if event is not None:
            self._world.log.note(f"{self._subject}: {type(event).__name__}")
            self._tell(event)
        self.carry_on()

    def _count_when_idle(self) -> None:
        """After a long time without any effect ask for a count, so that an engine that hangs is noticed."""

        def count() -> None:
            self._effects.append(Count())
            self.carry_on()

        self._set_timer(f"{self._subject} had no effect for long", count)

    def _set_timer(self, what: str, action: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.after(self._shape.effect_timeout_s, what, action)


def num_bytes(record: VersionRecord) -> int:
    """Return what a version's files take."""
    return sum(entry.size_bytes for entry in record.manifest.files)
