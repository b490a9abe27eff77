"""The embedded engine: one base, many adapters, one step at a time.

Everything but `stage` runs on the stepping thread. A request that goes wrong ends alone, with a `Failed`.
Rules: an engine name that is not loaded fails the request, it never means the base; an adapter in use is not
unloaded; what a request held is free, and zeroed, in the moment it ends.
"""

import random
from pathlib import Path

import torch

from hotset.core.clock import Clock, SystemClock
from hotset.core.errors import (
    ContextLengthExceededError,
    EngineFailedError,
    HotsetError,
    InvalidRequestError,
    LoadFailedError,
    TooManyRequestsError,
)
from hotset.core.ids import EngineName, RequestId
from hotset.core.messages import (
    AdapterLoad,
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
from hotset.engines.embedded.adapter_files import StagedAdapter, stage_adapter
from hotset.engines.embedded.batch import BatchBuilder
from hotset.engines.embedded.block_allocator import BlockAllocator
from hotset.engines.embedded.capacity import model_len_max, num_blocks, read_config
from hotset.engines.embedded.chat import PromptEncoder
from hotset.engines.embedded.choice import Choice
from hotset.engines.embedded.hardware import (
    dtype_name,
    hardware_class,
    one_thread,
    serving_dtype,
    subnormals_as_zero,
)
from hotset.engines.embedded.intake import Intake
from hotset.engines.embedded.kv_cache import KvCache
from hotset.engines.embedded.lora_pool import LoraPool
from hotset.engines.embedded.model import Model
from hotset.engines.embedded.rank_spans import aligned
from hotset.engines.embedded.request_checks import check_request
from hotset.engines.embedded.sampler import Sampled, sample
from hotset.engines.embedded.scheduler import Scheduler, Sequence
from hotset.engines.embedded.scoring import token_scores
from hotset.engines.embedded.settings import EmbeddedSettings
from hotset.engines.embedded.weights import check_base_files, load_weights
from hotset.engines.step_engine import NO_STEP

_VERSION = "embedded 0.1.0"


class EmbeddedEngine:
    """A `StepEngine` in PyTorch."""

    @subnormals_as_zero()
    def __init__(self, settings: EmbeddedSettings, clock: Clock | None = None) -> None:
        """Read the base and make room for adapters and keys and values.

        Raises:
            ConfigError: the base is not the registered one, or can't be served exactly, or the settings can't be met.
        """
        if settings.num_threads:
            torch.set_num_threads(settings.num_threads)
        folder, dtype = Path(settings.base_folder), serving_dtype(settings.dtype)
        check_base_files(folder, settings.base)
        config = read_config(folder, settings)
        num_cached = num_blocks(settings, dtype)
        len_max = model_len_max(settings, config, num_cached)
        shape = settings.base.shape
        with torch.inference_mode():
            self._model = Model(config, load_weights(folder, config, dtype), length_max=len_max)
            self.cache = KvCache(shape, num_cached, settings.block_size, dtype)
            self.pool = LoraPool(shape, num_slots=settings.num_slots, rank_max=settings.rank_max, dtype=dtype)
        self.allocator = BlockAllocator(num_cached, self.cache.erase)
        self.scheduler = Scheduler(
            self.allocator,
            block_size=settings.block_size,
            step_tokens_max=max(settings.step_tokens_max, settings.num_sequences_max),
            num_sequences_max=settings.num_sequences_max,
        )
        self._builder = BatchBuilder(self.pool, block_size=settings.block_size, dtype=dtype)
        self._encoder = PromptEncoder(folder, model_len_max=len_max)
        self._intake = Intake(self._encoder, model_len_max=len_max)
        self._settings = settings
        self._dtype = dtype
        self._clock = clock or SystemClock()
        self._random = random.Random(settings.seed)  # noqa: S311 -- not a secret
        self._requests: dict[RequestId, list[Choice]] = {}
        self._choices: dict[Sequence, Choice] = {}
        #: What the last step computed.
        self.step_shape = NO_STEP
        self._facts = EngineFacts(
            engine=_VERSION,
            base=settings.base.digest,
            dtype=dtype_name(dtype),
            hardware_class=hardware_class(),
            num_slots=settings.num_slots,
            rank_max=settings.rank_max,
            model_len_max=len_max,
            num_sequences_max=settings.num_sequences_max,
            slot_bytes=settings.base.shape.lora_bytes(aligned(settings.rank_max), dtype.itemsize),
            computes_own_rank=True,
        )

    @property
    def facts(self) -> EngineFacts:
        """What the engine is."""
        return self._facts

    def add(self, request: Generate) -> list[EngineEvent]:
        """Queue a request; return its `Started`, or a single `Failed` where it can't be served."""
        try:
            return [self._start(request)]
        except HotsetError as error:
            return [Failed(request.request_id, error.code, error.message, error.param)]

    def abort(self, request_id: RequestId) -> None:
        """Drop a request and free all it holds; harmless for an unknown one."""
        self._drop(request_id)

    def stage(self, load: AdapterLoad) -> StagedAdapter:
        """Read, check and convert a version's bytes; safe beside a running step.

        Raises:
            LoadFailedError: bytes other than `load.files` says, or tensors that don't fit.
        """
        with one_thread(), torch.inference_mode():
            return stage_adapter(load, self._settings.base.shape, self._settings.rank_max, self._dtype)

    def place(self, staged: object) -> LoadReport:
        """Copy a staged version into a free slot. Placing what is loaded is a no-op.

        Raises:
            LoadFailedError: no free slot.
        """
        assert isinstance(staged, StagedAdapter)
        started = self._clock.monotonic_s()
        if staged.engine_name not in self.pool:
            with torch.inference_mode():
                self.pool.place(staged)
        seconds = self._clock.monotonic_s() - started
        return LoadReport(
            seconds=seconds,
            stall_seconds=seconds,
            num_modules=staged.num_modules,
            slot_bytes=self.pool.slot_bytes(staged.engine_name),
        )

    def unload(self, name: EngineName) -> None:
        """Zero and free the version's slot; a no-op where it is not loaded.

        Raises:
            LoadFailedError: a request that has not ended uses it.
        """
        if name not in self.pool:
            return
        if any(sequence.engine_name == name for sequence in self._choices):
            raise LoadFailedError("a request that has not ended uses the version.")
        with torch.inference_mode():
            self.pool.drop(name)

    def inventory(self) -> Inventory:
        """Return what is loaded and which requests have not ended."""
        return Inventory(
            loaded=self.pool.names,
            running=tuple(self._requests),
            kv_blocks_used=self.allocator.num_used,
            kv_blocks_total=self.allocator.num_total,
        )

    @torch.inference_mode()
    @subnormals_as_zero()
    def score(self, score: Score) -> list[list[float]]:
        """Return per text the log-probability of each token after its first.

        Raises:
            LoadFailedError: the name is not loaded.
            ContextLengthExceededError: a text is longer than the context.
        """
        self._check_loaded(score.engine_name)
        texts = [self._encoder.encode_text(text, param="texts") for text in score.texts]
        if any(len(text) > self._facts.model_len_max for text in texts):
            raise ContextLengthExceededError(f"a text is longer than {self._facts.model_len_max} tokens.")
        return [self._score(text, score.engine_name) for text in texts]

    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self._choices)

    @torch.inference_mode()
    @subnormals_as_zero()
    def step(self) -> list[EngineEvent]:
        """Advance every running request by at most one token or one piece of prompt."""
        plan = self.scheduler.plan_step()
        self.step_shape = plan.shape
        if not plan.decodes and not plan.prefills:
            return []
        step = self._builder.build(plan)
        hidden = self._model.forward(step.batch, self.cache)
        self.scheduler.advance(plan)
        if not step.sampled:
            return []
        logits = self._model.logits(hidden[step.sampled_rows])
        choices = [self._choices[sequence] for sequence in step.sampled]
        events: list[EngineEvent] = []
        for choice, sampled in zip(choices, sample(logits, [each.state for each in choices]), strict=True):
            # A choice that failed earlier in this loop took its siblings along.
            if choice.sequence in self._choices:
                events += self._accept(choice, sampled)
        return events

    def check(self) -> None:
        """Assert every invariant, re-deriving all totals; for tests."""
        self.scheduler.check()
        self.pool.check()
        assert self.scheduler.num_waiting + self.scheduler.num_running == len(self._choices)
        assert sum(len(choices) for choices in self._requests.values()) == len(self._choices)
        assert all(self._requests.values())

    def _start(self, request: Generate) -> Started:
        if request.request_id in self._requests:
            raise InvalidRequestError("a request of this id is running.", param="request_id")
        check_request(request, self._settings.base.shape.vocab_size)
        self._check_loaded(request.engine_name)
        prompts = self._intake.read(request)
        if self.scheduler.num_waiting + len(prompts) * request.n > self._settings.num_waiting_max:
            raise TooManyRequestsError("the engine's queue is full.")
        choices = self._intake.open(request, prompts, self._random.getrandbits(63))
        self._requests[request.request_id] = choices
        self._choices.update((choice.sequence, choice) for choice in choices)
        self.scheduler.add([choice.sequence for choice in choices])
        return Started(request.request_id, choices[0].request.prompt_tokens)

    def _accept(self, choice: Choice, sampled: Sampled) -> list[EngineEvent]:
        request = choice.request
        if sampled.token is None:
            self._drop(request.request_id)
            message = "the model's numbers were not finite for this request."
            return [Failed(request.request_id, EngineFailedError.code, message)]
        delta = choice.accept(sampled.token, sampled)
        if delta.finish_reason is None:
            return [delta]
        self.scheduler.finish(choice.sequence)
        del self._choices[choice.sequence]
        choices = self._requests[request.request_id]
        choices.remove(choice)
        if choices:
            return [delta]
        del self._requests[request.request_id]
        return [delta, Finished(request.request_id, request.prompt_tokens, request.completion_tokens)]

    def _drop(self, request_id: RequestId) -> None:
        for choice in self._requests.pop(request_id, []):
            del self._choices[choice.sequence]
        self.scheduler.remove(request_id)

    def _check_loaded(self, name: EngineName | None) -> None:
        if name is not None and name not in self.pool:
            raise LoadFailedError("the version is not loaded in this engine.")

    def _score(self, token_ids: list[int], name: EngineName | None) -> list[float]:
        if len(token_ids) < 2:
            return []
        batch = self._builder.build_whole(token_ids, name)
        return token_scores(self._model, self.cache, batch, token_ids)
