"""How an engine process and its owner speak: length-prefixed MessagePack over one inherited Unix socket.

The owner sends `EngineSpec` first, then `Generate` and `Call` frames; the engine process answers each call
with one `Reply` and pushes `Events`. Both ends are ours, one child of the other, so a frame that does not decode is a
bug and ends the connection.
"""

from typing import Literal

import msgspec

from hotset.core.base import BaseVersion
from hotset.core.ids import EngineName, RequestId
from hotset.core.messages import (
    AdapterLoad,
    EngineEvent,
    EngineFacts,
    Generate,
    Inventory,
    LoadReport,
    Score,
    StepFacts,
)
from hotset.engines.fake.profiles import ProfileName


class EngineSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Which engine a process is to run, and over which base."""

    #: The instant ones answer without a model, in one step or a token a step; the fake one takes its time over it.
    kind: Literal["embedded", "instant", "instant_stepwise", "fake"]
    base: BaseVersion
    #: Absolute path of the base version's folder; its files are checked against `base.files` before use.
    base_folder: str
    num_slots: int = 8
    rank_max: int = 64
    #: ``auto`` picks bfloat16 where the processor has it, else float32.
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    #: 0 is the model's own context.
    model_len_max: int = 0
    num_sequences_max: int = 64
    #: Bytes of KV cache.
    kv_bytes_max: int = 1 << 30
    #: Prompt tokens computed in one step, over all requests.
    step_tokens_max: int = 256
    #: Requests queued inside the engine.
    num_waiting_max: int = 4096
    #: 0 is PyTorch's own choice.
    num_threads: int = 0
    seed: int = 0
    #: Of the fake engine: whose habits it has, and how many times as fast it is.
    profile: ProfileName = "plain"
    speed: float = 1.0


class Unload(msgspec.Struct, frozen=True, tag="unload"):
    """Free a version's slot."""

    engine_name: EngineName


class Abort(msgspec.Struct, frozen=True, tag="abort"):
    """End a request."""

    request_id: RequestId


class TakeInventory(msgspec.Struct, frozen=True, tag="inventory"):
    """Say what is loaded and running."""


class Call(msgspec.Struct, frozen=True, tag="call"):
    """A question that gets exactly one `Reply` with the same id."""

    call_id: int
    body: AdapterLoad | Unload | Abort | TakeInventory | Score


class WireError(msgspec.Struct, frozen=True):
    """A leaf of the error tree, by its code."""

    code: str
    message: str


class Reply(msgspec.Struct, frozen=True, array_like=True, tag="reply"):
    """The answer to one `Call`; call 0 is the answer to `EngineSpec`. At most one field is set."""

    call_id: int
    error: WireError | None = None
    facts: EngineFacts | None = None
    report: LoadReport | None = None
    inventory: Inventory | None = None
    scores: list[list[float]] | None = None


class Events(msgspec.Struct, frozen=True, array_like=True, tag="events"):
    """What one step brought, over all requests, in order."""

    events: list[EngineEvent]
    #: What the steps computed since the last of these frames.
    steps: list[StepFacts] = []


ToEngine = Generate | Call
FromEngine = Reply | Events
