"""Inside the engine process: the engine that a spec asks for. Only the embedded one brings PyTorch in."""

from hotset.engines.fake.engine import FakeEngine, FakeSettings
from hotset.engines.instant import InstantEngine
from hotset.engines.step_engine import StepEngine
from hotset.engines.wire import EngineSpec


def build_engine(spec: EngineSpec) -> StepEngine:
    """Build the engine that a spec names.

    Raises:
        HotsetError: the base can't be served, with the reason.
    """
    if spec.kind in {"instant", "instant_stepwise"}:
        return InstantEngine(
            spec.base,
            num_slots=spec.num_slots,
            rank_max=spec.rank_max,
            num_waiting_max=spec.num_waiting_max,
            is_stepwise=spec.kind == "instant_stepwise",
        )
    if spec.kind == "fake":
        return FakeEngine(
            FakeSettings(
                base=spec.base,
                profile=spec.profile,
                speed=spec.speed,
                num_slots=spec.num_slots,
                rank_max=spec.rank_max,
                model_len_max=spec.model_len_max,
                num_sequences_max=spec.num_sequences_max,
                num_waiting_max=spec.num_waiting_max,
                kv_bytes_max=spec.kv_bytes_max,
                step_tokens_max=spec.step_tokens_max,
            )
        )
    from hotset.engines.embedded.engine import EmbeddedEngine  # torch, only in this process
    from hotset.engines.embedded.settings import EmbeddedSettings

    return EmbeddedEngine(
        EmbeddedSettings(
            base_folder=spec.base_folder,
            base=spec.base,
            dtype=spec.dtype,
            num_slots=spec.num_slots,
            rank_max=spec.rank_max,
            model_len_max=spec.model_len_max,
            num_sequences_max=spec.num_sequences_max,
            num_waiting_max=spec.num_waiting_max,
            kv_bytes_max=spec.kv_bytes_max,
            step_tokens_max=spec.step_tokens_max,
            num_threads=spec.num_threads,
            seed=spec.seed,
        )
    )
