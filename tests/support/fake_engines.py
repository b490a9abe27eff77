"""Fake engines whose time a test moves, and requests to them."""

from hotset.core.ids import EngineName, RequestId
from hotset.core.messages import AdapterLoad, Generate, ModuleSpec, Sampling
from hotset.engines.fake.adapter_tiers import AdapterTiers, Weights
from hotset.engines.fake.engine import FakeEngine, FakeSettings, make_loop
from hotset.engines.fake.loop import EngineLoop
from hotset.engines.fake.profiles import ProfileName
from tests.support.adapters import tiny_base_version
from tests.support.fake_clock import FakeClock


def ask(request_id: str, name: EngineName | None = None, *, max_tokens: int = 3, prompt: str = "a b c d") -> Generate:
    return Generate(
        request_id=RequestId(request_id),
        engine_name=name,
        cache_salt="",
        sampling=Sampling(max_tokens=max_tokens),
        prompts=(prompt,),
    )


class Folders:
    """Adapter folders that can be taken away; an adapter's bytes are what its folder says."""

    def __init__(self, **megabytes: int) -> None:
        self.weights = {name: Weights(name * 8, size << 20) for name, size in megabytes.items()}
        self.num_reads = 0

    def read(self, folder: str) -> Weights:
        self.num_reads += 1
        if folder not in self.weights:
            raise FileNotFoundError(folder)
        return self.weights[folder]


def fake_loop(
    folders: Folders,
    profile: ProfileName = "plain",
    *,
    num_slots: int = 2,
    num_host: int | None = None,
    overlaps_copies: bool = False,
    num_sequences_max: int = 64,
    num_waiting_max: int = 100,
    kv_bytes_max: int = 1 << 30,
    step_tokens_max: int = 256,
) -> EngineLoop:
    settings = FakeSettings(
        base=tiny_base_version(),
        profile=profile,
        num_sequences_max=num_sequences_max,
        num_waiting_max=num_waiting_max,
        kv_bytes_max=kv_bytes_max,
        step_tokens_max=step_tokens_max,
    )
    tiers = AdapterTiers(num_slots=num_slots, num_host=num_host or num_slots, read=folders.read)
    return make_loop(settings, tiers, overlaps_copies=overlaps_copies)


def fake_engine(
    clock: FakeClock, profile: ProfileName = "plain", *, num_slots: int = 2, speed: float = 1.0
) -> FakeEngine:
    settings = FakeSettings(base=tiny_base_version(), profile=profile, speed=speed, num_slots=num_slots)
    return FakeEngine(settings, clock=clock, sleep=clock.advance)


def load_of(letter: str, *, rank: int = 8) -> AdapterLoad:
    """A version without files, so that its load takes what a load of nothing takes."""
    module = ModuleSpec(module="m", rank=rank, alpha=8.0, scaling=2.0, key_a="a", key_b="b", file="f")
    return AdapterLoad(engine_name=EngineName(f"hs-{letter * 32}"), folder=letter, files={}, modules=(module,))
