"""The engine's settings, filled by `cli.config`: every limit has a default, a least and a greatest value."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from hotset.core.base import BaseVersion
from hotset.engines.fake.profiles import ProfileName
from hotset.engines.wire import EngineSpec

_MIB = 1 << 20
EngineKind = Literal["embedded", "instant", "instant_stepwise", "fake", "fake_served"]

#: Setting → (least, greatest).
BOUNDS: dict[str, tuple[float, float]] = {
    "num_slots": (1, 1024),
    "rank_max": (1, 512),
    "model_len_max": (0, 1_000_000),
    "num_sequences_max": (1, 4096),
    "kv_bytes_max": (_MIB, 1 << 40),
    "step_tokens_max": (1, 65_536),
    "num_waiting_max": (1, 65_536),
    "num_threads": (0, 1024),
    "seed": (0, 2**63 - 1),
    "speed": (0.001, 1000.0),
}


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How every base's engine is run."""

    #: ``embedded`` computes with PyTorch; ``instant`` answers canned text at once (``instant_stepwise`` one
    #: token a step), for benchmarks of the rest; ``fake`` answers as slowly as a real engine, for load tests and for
    #: fleets without a model; ``fake_served`` does so behind the HTTP of vLLM or SGLang, with their mistakes.
    kind: EngineKind = "embedded"
    #: Distinct adapters loaded at once.
    num_slots: int = 8
    #: Largest rank of an adapter; slots are allocated at this rank.
    rank_max: int = 64
    #: ``auto`` picks bfloat16 where the processor has it, else float32.
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    #: Tokens of prompt and answer together; 0 is the model's own context.
    model_len_max: int = 0
    #: Sequences in one step.
    num_sequences_max: int = 64
    #: Bytes of KV cache.
    kv_bytes_max: int = 1 << 30
    #: Prompt tokens computed in one step, over all requests.
    step_tokens_max: int = 256
    #: Requests queued inside the engine.
    num_waiting_max: int = 4096
    #: Threads of one operation; 0 is PyTorch's own choice.
    num_threads: int = 0
    #: Seeds the requests that bring no seed of their own.
    seed: int = 0
    #: Whose times and habits the fake engine has: ``plain`` (nobody's; vLLM's behind HTTP), ``vllm`` or ``sglang``.
    profile: ProfileName = "plain"
    #: How many times as fast as its profile the fake engine is.
    speed: float = 1.0

    @property
    def verified_dtype(self) -> str:
        """The dtype whose range an adapter's values must fit: bfloat16 where the engine chooses."""
        return "bfloat16" if self.dtype == "auto" else self.dtype

    def spec(self, base: BaseVersion, folder: Path) -> EngineSpec:
        """Return what an engine process over this base is started with."""
        return EngineSpec(base=base, base_folder=str(folder), **asdict(self))

    def for_proof(self) -> "EngineSettings":
        """Return the same for the engine of one proof: one slot, and no more memory than a proof needs."""
        return replace(self, num_slots=1, num_sequences_max=4, kv_bytes_max=min(self.kv_bytes_max, 256 * _MIB))
