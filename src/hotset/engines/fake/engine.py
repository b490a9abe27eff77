"""The fake engine as one of ours: slots filled and emptied by name, steps and loads that take their profile's time.

What real engines do behind the port, such as evicting by themselves or forgetting a name only, is in `loop` and in
`server`; an agent that keeps its promises (I4, I12) never meets it here.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from hotset.core.base import BaseShape, BaseVersion
from hotset.core.clock import Clock, SystemClock
from hotset.core.errors import LoadFailedError
from hotset.core.ids import EngineName, RequestId
from hotset.core.messages import (
    AdapterLoad,
    EngineEvent,
    EngineFacts,
    Failed,
    Generate,
    Inventory,
    LoadReport,
    Score,
)
from hotset.engines.fake.adapter_folder import read_checked
from hotset.engines.fake.adapter_tiers import BASE, AdapterKey, AdapterTiers, Weights
from hotset.engines.fake.loop import BLOCK_TOKENS, EngineLoop, Limits
from hotset.engines.fake.profiles import PROFILES, ProfileName
from hotset.engines.step_engine import StepShape

_KV_VALUE_BYTES = 2
#: Of each number in a slot: float32, as it says.
_NUMBER_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeSettings:
    """What one fake engine is."""

    base: BaseVersion
    profile: ProfileName = "plain"
    #: How many times as fast as its profile it runs.
    speed: float = 1.0
    #: Usable ones: where the base takes a slot, the engine has one more.
    num_slots: int = 8
    rank_max: int = 64
    #: 0 is the base's own context.
    model_len_max: int = 0
    num_sequences_max: int = 64
    num_waiting_max: int = 4096
    kv_bytes_max: int = 1 << 30
    step_tokens_max: int = 256


@dataclass(frozen=True, slots=True)
class _Staged:
    load: AdapterLoad
    weights: Weights
    #: Spent beside the steps.
    seconds: float


def num_kv_blocks(shape: BaseShape, kv_bytes_max: int) -> int:
    """Return how many blocks of KV cache of a base's shape fit so many bytes, at least one."""
    block_bytes = BLOCK_TOKENS * 2 * shape.num_layers * shape.num_kv_heads * shape.head_dim * _KV_VALUE_BYTES
    return max(1, kv_bytes_max // block_bytes)


def make_loop(settings: FakeSettings, tiers: AdapterTiers, *, overlaps_copies: bool = False) -> EngineLoop:
    """Return the loop of an engine with these settings; see `profiles.Profile` for `overlaps_copies`."""
    limits = Limits(
        num_sequences_max=settings.num_sequences_max,
        num_waiting_max=settings.num_waiting_max,
        model_len_max=settings.model_len_max or settings.base.shape.context_len,
        num_kv_blocks=num_kv_blocks(settings.base.shape, settings.kv_bytes_max),
        step_tokens_max=settings.step_tokens_max,
    )
    profile = replace(PROFILES[settings.profile], overlaps_copies=overlaps_copies)
    return EngineLoop(settings.base.digest, profile, tiers, limits)


class FakeEngine:
    """Implements `engines.step_engine.StepEngine` without a model."""

    def __init__(
        self, settings: FakeSettings, *, clock: Clock | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Start empty.

        Args:
            settings: What it is.
            clock: What its times are held against.
            sleep: Lets seconds pass on that clock.
        """
        profile = self._profile = PROFILES[settings.profile]
        num_slots = settings.num_slots + profile.base_takes_slot
        self._settings = settings
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._keys: dict[EngineName, AdapterKey] = {}
        self._tiers = AdapterTiers(num_slots=num_slots, num_host=num_slots, read=_read_again)
        self._loop = make_loop(settings, self._tiers)
        self._facts = EngineFacts(
            engine=profile.engine,
            base=settings.base.digest,
            dtype="float32",
            hardware_class="none",
            num_slots=settings.num_slots,
            rank_max=settings.rank_max,
            model_len_max=settings.model_len_max or settings.base.shape.context_len,
            num_sequences_max=settings.num_sequences_max,
            slot_bytes=settings.base.shape.lora_bytes(settings.rank_max, _NUMBER_BYTES),
        )

    @property
    def facts(self) -> EngineFacts:
        """What the engine is."""
        return self._facts

    def add(self, request: Generate) -> list[EngineEvent]:
        """Queue a request; return its `Started`, or a single `Failed` where it can't be served."""
        name = request.engine_name
        if name is not None and name not in self._keys:
            return [Failed(request.request_id, LoadFailedError.code, "the version is not loaded")]
        return self._loop.add(request, None if name is None else self._keys[name])

    def abort(self, request_id: RequestId) -> None:
        """Drop a request."""
        self._loop.abort(request_id)

    def stage(self, load: AdapterLoad) -> _Staged:
        """Read and check a version's bytes, beside the steps where the profile can."""
        began_s = self._clock.monotonic_s()
        rank = max((module.rank for module in load.modules), default=0)
        if rank > self._settings.rank_max:
            raise LoadFailedError(f"rank {rank} does not fit a slot of rank {self._settings.rank_max}.")
        weights = read_checked(load.folder, load.files)
        if not self._profile.reads_on_loop:
            self._pass(began_s, self._profile.timing.of_read(weights.num_bytes))
        return _Staged(load, weights, self._clock.monotonic_s() - began_s)

    def place(self, staged: object) -> LoadReport:
        """Take a slot, and stop the loop for as long as the profile's load does."""
        assert isinstance(staged, _Staged)
        load, weights, began_s = staged.load, staged.weights, self._clock.monotonic_s()
        if load.engine_name not in self._keys:
            if len(self._keys) >= self._settings.num_slots:
                raise LoadFailedError("no free slot")
            key = self._tiers.add(load.folder, weights, self._loop.in_use())
            self._tiers.bring(key, self._loop.in_use())
            self._keys[load.engine_name] = key
            tier = "disk" if self._profile.reads_on_loop else "host"
            self._pass(began_s, self._profile.timing.of_load(weights.num_bytes, tier))
        stall_s = self._clock.monotonic_s() - began_s
        return LoadReport(
            seconds=staged.seconds + stall_s,
            stall_seconds=stall_s,
            num_modules=len(load.modules),
            slot_bytes=weights.num_bytes,
        )

    def unload(self, name: EngineName) -> None:
        """Free the slot."""
        key = self._keys.get(name)
        if key is None:
            return
        if self._loop.is_asked_for(key):
            raise LoadFailedError("the version is in use")
        del self._keys[name]
        self._tiers.remove(key)

    def inventory(self) -> Inventory:
        """Return what is in slots, and which requests have not ended."""
        names = {key: name for name, key in self._keys.items()}
        return Inventory(
            loaded=tuple(names[key] for key in self._tiers.in_slots() if key != BASE),
            running=self._loop.requests(),
            kv_blocks_used=self._loop.kv_blocks_used,
            kv_blocks_total=self._loop.kv_blocks_total,
        )

    def score(self, score: Score) -> list[list[float]]:
        """Return a log-probability for each word after the first, likelier under an adapter than under the base."""
        if score.engine_name is not None and score.engine_name not in self._keys:
            raise LoadFailedError("the version is not loaded")
        mark = self._tiers.mark(None if score.engine_name is None else self._keys[score.engine_name])
        return [self._loop.answerer.scores(mark, text) for text in score.texts]

    def has_work(self) -> bool:
        """Whether a request waits or runs."""
        return self._loop.has_work()

    @property
    def step_shape(self) -> StepShape:
        """What the last step computed."""
        return self._loop.shape

    def step(self) -> list[EngineEvent]:
        """Advance every running request, in as much time as the profile says."""
        began_s = self._clock.monotonic_s()
        taken = self._loop.step()
        self._pass(began_s, taken.seconds)
        return taken.events

    def _pass(self, began_s: float, seconds: float) -> None:
        """Return so many seconds of the profile after the moment when they began."""
        left_s = began_s + seconds / self._settings.speed - self._clock.monotonic_s()
        if left_s > 0:
            self._sleep(left_s)


def _read_again(folder: str) -> Weights:
    raise AssertionError(f"the engine let go of {folder} by itself, though it holds no more than its slots")
