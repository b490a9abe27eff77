"""An engine that answers at once: for benchmarks of everything around an engine, and for tests at scale.

It does no mathematics, but keeps the port's promises: slots are bounded, an unknown name fails, a version in use can't
be unloaded, and each answer says which version it came from, so that a wrong route shows in the text.
"""

from collections.abc import Iterator

from hotset.core.base import BaseVersion
from hotset.core.errors import LoadFailedError
from hotset.core.ids import EngineName, RequestId
from hotset.core.messages import (
    AdapterLoad,
    Delta,
    EngineEvent,
    EngineFacts,
    Failed,
    Finished,
    Generate,
    Inventory,
    LoadReport,
    Score,
    Started,
)
from hotset.engines.step_engine import NO_STEP, StepShape

_TOKENS_DEFAULT = 50


def instant_text(name: EngineName | None, position: int) -> str:
    """Return the text of one token: the same for the same version and position, different between versions."""
    return f"{name[3:11] if name else 'base'}.{position} "


class InstantEngine:
    """Implements `engines.step_engine.StepEngine` without a model.

    One step finishes every request or, stepwise, brings each its next token as a real engine's step does.
    """

    def __init__(
        self, base: BaseVersion, *, num_slots: int, rank_max: int, num_waiting_max: int, is_stepwise: bool = False
    ) -> None:
        self._facts = EngineFacts(
            engine="instant 1",
            base=base.digest,
            dtype="float32",
            hardware_class="none",
            num_slots=num_slots,
            rank_max=rank_max,
            model_len_max=base.shape.context_len,
            num_sequences_max=num_waiting_max,
        )
        self._num_waiting_max = num_waiting_max
        self._loaded: dict[EngineName, None] = {}
        self._is_stepwise = is_stepwise
        self._waiting: dict[RequestId, Generate] = {}
        #: What the last step computed.
        self.step_shape = NO_STEP
        #: What is still to come of each waiting request's answer, a token at a time.
        self._rest: dict[RequestId, Iterator[list[EngineEvent]]] = {}

    @property
    def facts(self) -> EngineFacts:
        """What the engine is."""
        return self._facts

    def add(self, request: Generate) -> list[EngineEvent]:
        """Queue a request."""
        if request.engine_name is not None and request.engine_name not in self._loaded:
            return [Failed(request.request_id, LoadFailedError.code, "the version is not loaded")]
        if len(self._waiting) >= self._num_waiting_max:
            return [Failed(request.request_id, "too_many_requests", "the engine's queue is full")]
        self._waiting[request.request_id] = request
        self._rest[request.request_id] = _answer(request)
        return [Started(request.request_id, _prompt_tokens(request))]

    def abort(self, request_id: RequestId) -> None:
        """Drop a request."""
        self._waiting.pop(request_id, None)
        self._rest.pop(request_id, None)

    def stage(self, load: AdapterLoad) -> AdapterLoad:
        """Nothing to read: the load itself is what is placed."""
        return load

    def place(self, staged: object) -> LoadReport:
        """Take a slot."""
        assert isinstance(staged, AdapterLoad)
        if staged.engine_name not in self._loaded and len(self._loaded) >= self._facts.num_slots:
            raise LoadFailedError("no free slot")
        self._loaded[staged.engine_name] = None
        return LoadReport(seconds=0.0, stall_seconds=0.0, num_modules=len(staged.modules), slot_bytes=0)

    def unload(self, name: EngineName) -> None:
        """Free the slot."""
        if any(request.engine_name == name for request in self._waiting.values()):
            raise LoadFailedError("the version is in use")
        self._loaded.pop(name, None)

    def inventory(self) -> Inventory:
        """Return what is loaded and waiting."""
        return Inventory(loaded=tuple(self._loaded), running=tuple(self._waiting), kv_blocks_used=0, kv_blocks_total=0)

    def score(self, score: Score) -> list[list[float]]:
        """Score each word after the first as equally likely, a little likelier under an adapter."""
        if score.engine_name is not None and score.engine_name not in self._loaded:
            raise LoadFailedError("the version is not loaded")
        each = -1.0 if score.engine_name else -2.0
        return [[each] * (len(text.split()) - 1) for text in score.texts]

    def has_work(self) -> bool:
        """Whether a request waits."""
        return bool(self._waiting)

    def step(self) -> list[EngineEvent]:
        """Answer every waiting request in full, or stepwise by one token."""
        events: list[EngineEvent] = []
        names = {request.engine_name for request in self._waiting.values() if request.engine_name is not None}
        self.step_shape = StepShape(len(self._rest), 0, len(names))
        for request_id, rest in list(self._rest.items()):
            for token in rest:
                events.extend(token)
                if self._is_stepwise:
                    break
            if isinstance(events[-1], Finished):
                self.abort(request_id)
        return events


def _prompt_tokens(request: Generate) -> int:
    if request.messages is not None:
        return sum(len(message.content.split()) for message in request.messages)
    return sum(len(p.split()) if isinstance(p, str) else len(p) for p in request.prompts or ())


def _answer(request: Generate) -> Iterator[list[EngineEvent]]:
    """Yield the events of one token of every choice after another, the end with the last."""
    num_choices = request.n * max(1, len(request.prompts or ()))
    num_tokens = request.sampling.max_tokens or _TOKENS_DEFAULT
    for position in range(num_tokens):
        is_last = position == num_tokens - 1
        text, reason = instant_text(request.engine_name, position), "length" if is_last else None
        events: list[EngineEvent] = [Delta(request.request_id, index, text, 1, reason) for index in range(num_choices)]
        if is_last:
            events.append(Finished(request.request_id, _prompt_tokens(request), num_tokens * num_choices))
        yield events
