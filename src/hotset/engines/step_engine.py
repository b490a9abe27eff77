"""What an engine of ours must be able to do inside its process; `engines/host.py` runs it.

All methods but `stage` run on one thread, between steps, so an implementation needs no locks.
"""

from typing import NamedTuple, Protocol

from hotset.core.ids import EngineName, RequestId
from hotset.core.messages import AdapterLoad, EngineEvent, EngineFacts, Generate, Inventory, LoadReport, Score


class StepShape(NamedTuple):
    """What one step computes."""

    #: Sequences that get a token each.
    num_decodes: int = 0
    #: Tokens of prompts that are read.
    num_prompt_tokens: int = 0
    #: Distinct adapters among all of them.
    num_adapters: int = 0


NO_STEP = StepShape()


class StepEngine(Protocol):
    """A synchronous engine that is advanced one step at a time."""

    @property
    def facts(self) -> EngineFacts:
        """What the engine is; constant once it is made."""
        ...

    def add(self, request: Generate) -> list[EngineEvent]:
        """Queue a request; return its first events, a `Started`, or a single `Failed` where it can't be served."""
        ...

    def abort(self, request_id: RequestId) -> None:
        """Drop a request and free all it holds, at once; harmless for an unknown one. No event follows it."""
        ...

    def stage(self, load: AdapterLoad) -> object:
        """Read, check and convert a version's bytes, off the stepping thread; nothing of the engine changes.

        Raises:
            LoadFailedError: bytes other than `load.files` says, or tensors that don't fit.
        """
        ...

    def place(self, staged: object) -> LoadReport:
        """Copy a staged version into a free slot, between steps. Placing what is loaded is a no-op.

        Raises:
            LoadFailedError: no free slot.
        """
        ...

    def unload(self, name: EngineName) -> None:
        """Zero and free the version's slot; a no-op where it is not loaded.

        Raises:
            LoadFailedError: a request that has not ended uses it.
        """
        ...

    def inventory(self) -> Inventory:
        """Return what is loaded and which requests have not ended."""
        ...

    def score(self, score: Score) -> list[list[float]]:
        """Return per text the log-probability of each token after its first.

        Raises:
            LoadFailedError: the name is not loaded.
            ContextLengthExceededError: a text is longer than the context.
        """
        ...

    def has_work(self) -> bool:
        """Whether a step would do anything."""
        ...

    @property
    def step_shape(self) -> StepShape:
        """What the last step computed."""
        ...

    def step(self) -> list[EngineEvent]:
        """Advance every running request by at most one token (or one piece of prompt); return what happened."""
        ...
