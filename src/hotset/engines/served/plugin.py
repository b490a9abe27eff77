"""What Hotset's plugin answers inside an engine that serves HTTP: the engine's truth, and the acts its own API lacks.

The engine's own API forgets names instead of unloading, and says neither what is in a slot nor what runs. So an
engine without these endpoints is refused. Bodies and answers are JSON. Source: `vllm.endpoint_plugins` of vLLM 0.33.0
gives a plugin routes and the engine client; the slots it reads through `collective_rpc`.

========  ====================  =========================================================================
``GET``   `STATE`               → `PluginState`
``GET``   `STEPS`               → one JSON array of `core.messages.StepFacts` a line, until the reader leaves
``POST``  `REMOVE`              `Named` → 200 once slot, host copy and name are gone; 409 while requests use it
``POST``  `ABORT`               `Running` → `Aborted`
``POST``  `SCORE`               `Scored` → `Scores`; 404 for a name that is not held
``POST``  `CHECKSUM`            `Named` → `Checksum` of what the slot holds; 404 for a name in no slot
========  ====================  =========================================================================
"""

from typing import Literal

import msgspec

STATE = "/hotset/v1/state"
STEPS = "/hotset/v1/steps"
REMOVE = "/hotset/v1/remove"
ABORT = "/hotset/v1/abort"
SCORE = "/hotset/v1/score"
CHECKSUM = "/hotset/v1/checksum"


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """One adapter that the engine knows of, by name or by its weights."""

    name: str
    path: str
    #: Where its weights are; ``nowhere`` where the engine let go of them and would read the path again.
    tier: Literal["slot", "host", "nowhere"]
    #: Whether requests may name it: the engine's own unload takes the name and leaves the weights.
    is_registered: bool
    #: Of the weights.
    num_bytes: int


class PluginState(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine is, holds and runs at one moment."""

    #: Such as ``vllm 0.32.0``.
    engine: str
    dtype: str
    hardware_class: str
    #: Of the served base version; None where the engine was not told it.
    base: str | None
    #: Distinct adapters in one step, less one where the base takes a slot.
    num_slots: int
    #: Host copies beyond the slots, which the engine would bring in by itself.
    num_host_extra: int
    rank_max: int
    #: Tokens of prompt and answer together.
    model_len_max: int
    num_sequences_max: int
    held: tuple[Held, ...]
    #: Request ids as their senders gave them, waiting and running.
    running: tuple[str, ...]
    kv_blocks_used: int
    kv_blocks_total: int

    def find(self, name: str) -> Held | None:
        """Return what the engine holds under a name."""
        return next((held for held in self.held if held.name == name), None)

    def in_slots(self) -> tuple[str, ...]:
        """Return the names of what is in slots."""
        return tuple(held.name for held in self.held if held.tier == "slot")


class Named(msgspec.Struct, frozen=True):
    """One adapter."""

    name: str


class Running(msgspec.Struct, frozen=True):
    """One request."""

    request_id: str


class Aborted(msgspec.Struct, frozen=True):
    """Whether the request was waiting or running; either way it is not any more."""

    was_running: bool


class Scored(msgspec.Struct, frozen=True):
    """Texts to score under one adapter; None is the bare base."""

    name: str | None
    texts: tuple[str, ...]


class Scores(msgspec.Struct, frozen=True):
    """For each text, the natural-log probability of each token after its first; null for what is no finite number."""

    scores: list[list[float | None]]


class Checksum(msgspec.Struct, frozen=True):
    """Stands for the tensors in a slot: equal for equal bytes in an engine of the same kind."""

    checksum: str
