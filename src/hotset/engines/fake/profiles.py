"""Whose habits the fake engine has, by name: how long its steps and loads take, and what it does that others do not.

Times are seconds of the engine's loop. `plain` is nobody's: round numbers, loads read beside the steps. `vllm` is vLLM
0.32 on a CPU with two threads over a base of 135 M parameters, measured at batches of 1 and 8 with no, one and eight
adapters of rank 16 (9.8 MB, 22 to 45 ms a load). Of SGLang 0.5 no times were measured: `sglang` has plain ones.
"""

from dataclasses import dataclass
from typing import Literal

ProfileName = Literal["plain", "vllm", "sglang"]
#: Where a version comes from on its way into a slot: the engine's host memory, or the disk.
EngineTier = Literal["host", "disk"]
_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What takes how long."""

    #: A step of nothing.
    step_s: float
    #: More for each sequence in the step.
    sequence_s: float
    #: More for the first distinct adapter in the step, and for each further one.
    first_adapter_s: float
    adapter_s: float
    #: More for each prompt token read in the step.
    prompt_token_s: float
    #: A load of nothing, and more for each MiB copied into the slot.
    load_s: float
    copy_mib_s: float
    #: Reading a version from disk, for each MiB.
    read_mib_s: float

    def of_step(self, *, num_sequences: int, num_adapters: int, num_prompt_tokens: int) -> float:
        """Return the seconds of one step."""
        seconds = self.step_s + self.sequence_s * num_sequences + self.prompt_token_s * num_prompt_tokens
        if num_adapters:
            seconds += self.first_adapter_s + self.adapter_s * (num_adapters - 1)
        return seconds

    def of_read(self, num_bytes: int) -> float:
        """Return the seconds of reading a version from disk."""
        return self.read_mib_s * num_bytes / _MIB

    def of_load(self, num_bytes: int, tier: EngineTier) -> float:
        """Return the seconds for which a load stops the loop that does all of it itself."""
        seconds = self.load_s + self.copy_mib_s * num_bytes / _MIB
        return seconds + self.of_read(num_bytes) if tier == "disk" else seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One engine's habits."""

    #: As the engine calls itself.
    engine: str
    timing: Timing
    #: Whether requests for the bare base take a slot, like one more adapter. Source: SGLang 0.5.23, `mem_pool`.
    base_takes_slot: bool = False
    #: Whether files are read on the loop, so that the disk stops every request. Source: vLLM 0.33.0, `worker_manager`;
    #: SGLang's `lora_overlap_loader` overlaps the copy into the slot alone.
    reads_on_loop: bool = False
    #: Whether a host copy goes into its slot beside the steps, so that only its own requests wait. Source: SGLang
    #: 0.5.23, `enable_lora_overlap_loading`, which is off unless asked for.
    overlaps_copies: bool = False


_PLAIN = Timing(
    step_s=0.010,
    sequence_s=0.0002,
    first_adapter_s=0.002,
    adapter_s=0.0005,
    prompt_token_s=0.00002,
    load_s=0.010,
    copy_mib_s=0.001,
    read_mib_s=0.005,
)
_VLLM = Timing(
    step_s=0.0316,
    sequence_s=0.0017,
    first_adapter_s=0.027,
    adapter_s=0.0146,
    prompt_token_s=0.0005,
    load_s=0.003,
    copy_mib_s=0.0014,
    read_mib_s=0.002,
)

PROFILES: dict[ProfileName, Profile] = {
    "plain": Profile(engine="fake plain", timing=_PLAIN),
    "vllm": Profile(engine="fake vllm 0.33.0", timing=_VLLM, reads_on_loop=True),
    "sglang": Profile(engine="fake sglang 0.5.23", timing=_PLAIN, base_takes_slot=True, reads_on_loop=True),
}
