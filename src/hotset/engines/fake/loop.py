"""The fake engine's loop: which requests are in a step, what the step brings and how long it takes. Nothing waits here.

Requests are taken in order of arrival; one whose adapter finds no slot is passed over, however long it waits, and
one for which there is no room holds up the rest. Source: vLLM 0.33.0, `v1/core/sched/scheduler.py`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from hotset.core.errors import ContextLengthExceededError
from hotset.core.ids import Digest, RequestId
from hotset.core.messages import Delta, EngineEvent, Failed, Finished, Generate, Started, TokenLogprob
from hotset.engines.fake.adapter_tiers import BASE, AdapterKey, AdapterTiers, Brought
from hotset.engines.fake.answers import Answerer, num_tokens, prompts_of
from hotset.engines.fake.flaws import Flaws
from hotset.engines.fake.profiles import Profile
from hotset.engines.step_engine import NO_STEP, StepShape

_TOKENS_DEFAULT = 50
BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What fits the engine at a time."""

    num_sequences_max: int
    num_waiting_max: int
    model_len_max: int
    num_kv_blocks: int
    #: Prompt tokens read in one step, over all requests.
    step_tokens_max: int


@dataclass(frozen=True, slots=True)
class Taken:
    """One step."""

    events: list[EngineEvent]
    seconds: float


@dataclass(slots=True)
class _Row:
    """One request; all its choices go forward together."""

    request: Generate
    #: None for the bare base.
    adapter: AdapterKey | None
    prompts: list[str]
    prompt_tokens: int
    num_new: int
    num_kv_blocks: int
    prompt_left: int = field(init=False)
    num_done: int = 0

    def __post_init__(self) -> None:
        self.prompt_left = self.prompt_tokens

    @property
    def num_sequences(self) -> int:
        return len(self.prompts) * self.request.n


class EngineLoop:
    """Requests that wait and run over one base version."""

    def __init__(
        self, base: Digest, profile: Profile, tiers: AdapterTiers, limits: Limits, flaws: Flaws | None = None
    ) -> None:
        self.tiers = tiers
        self.flaws = flaws or Flaws()
        self.answerer = Answerer(base)
        #: What the last step computed.
        self.shape = NO_STEP
        self._profile = profile
        self._limits = limits
        #: In order of arrival.
        self._waiting: dict[RequestId, _Row] = {}
        self._running: dict[RequestId, _Row] = {}
        #: Seconds of all steps so far, and when on that clock the copies beside the steps are done.
        self._spent_s = 0.0
        self._copied_at_s: dict[AdapterKey, float] = {}

    @property
    def kv_blocks_total(self) -> int:
        """Blocks that there are."""
        return self._limits.num_kv_blocks

    @property
    def kv_blocks_used(self) -> int:
        """Blocks that running requests hold."""
        return sum(row.num_kv_blocks for row in self._running.values())

    def requests(self) -> tuple[RequestId, ...]:
        """Return the requests that have not ended."""
        return (*self._running, *self._waiting)

    def in_use(self) -> set[AdapterKey]:
        """Return the adapters of running requests, the base among them where it takes a slot."""
        return {key for row in self._running.values() if (key := self._slot_key(row)) is not None}

    def is_asked_for(self, adapter: AdapterKey) -> bool:
        """Whether a request that has not ended is for this adapter."""
        return any(row.adapter == adapter for rows in (self._running, self._waiting) for row in rows.values())

    def add(self, request: Generate, adapter: AdapterKey | None) -> list[EngineEvent]:
        """Queue a request; return its `Started`, or a single `Failed` where it can't be served."""
        row = _row(request, adapter)
        longest = max(map(num_tokens, row.prompts)) + row.num_new
        if longest > self._limits.model_len_max or row.num_kv_blocks > self._limits.num_kv_blocks:
            message = f"{longest} tokens do not fit the context of {self._limits.model_len_max}."
            return [Failed(request.request_id, ContextLengthExceededError.code, message)]
        if len(self._waiting) + len(self._running) >= self._limits.num_waiting_max:
            return [Failed(request.request_id, "too_many_requests", "the engine's queue is full")]
        self._waiting[request.request_id] = row
        return [Started(request.request_id, row.prompt_tokens)]

    def abort(self, request_id: RequestId) -> None:
        """Drop a request; harmless for an unknown one."""
        self._waiting.pop(request_id, None)
        self._running.pop(request_id, None)

    def has_work(self) -> bool:
        """Whether a request waits or runs."""
        return bool(self._waiting or self._running)

    def step(self) -> Taken:
        """Advance every running request by one token, or by a piece of its prompt."""
        seconds = self._admit()
        rows = self._in_slots(seconds)
        if not rows and self._copied_at_s:
            self.shape = NO_STEP
            return self._spend([], max(seconds, min(self._copied_at_s.values()) - self._spent_s))
        num_prompt_tokens = self._read_prompts(rows)
        adapters = list(dict.fromkeys(row.adapter for row in rows if row.adapter is not None))
        num_adapters = len(adapters)
        num_decodes = sum(row.num_sequences for row in rows if row.prompt_left == 0)
        self.shape = StepShape(num_decodes, num_prompt_tokens, num_adapters)
        seconds += sum(self._profile.timing.of_read(self.tiers.read_again(key)) for key in self.flaws.reread(adapters))
        seconds += self._profile.timing.of_step(
            num_sequences=sum(row.num_sequences for row in rows),
            num_adapters=num_adapters,
            num_prompt_tokens=num_prompt_tokens,
        )
        events: list[EngineEvent] = []
        for row in rows:
            if row.prompt_left == 0:
                events += self._advance(row, adapters)
        return self._spend(events, seconds)

    def _spend(self, events: list[EngineEvent], seconds: float) -> Taken:
        self._spent_s += seconds
        return Taken(events, seconds)

    def _in_slots(self, seconds: float) -> list[_Row]:
        """Return the rows whose adapters are wholly in their slots, so many seconds into the step."""
        now_s = self._spent_s + seconds
        self._copied_at_s = {key: at_s for key, at_s in self._copied_at_s.items() if at_s > now_s}
        return [row for row in self._running.values() if row.adapter not in self._copied_at_s]

    def _admit(self) -> float:
        """Let waiting requests run that fit; return the seconds of the loads that they cause."""
        seconds = 0.0
        for row in list(self._waiting.values()):
            if not self._has_room(row):
                break
            key = self._slot_key(row)
            if key is not None:
                brought = self.tiers.bring(key, self.in_use())
                if brought is None:
                    continue
                seconds += self._stall_of(key, brought)
            del self._waiting[row.request.request_id]
            self._running[row.request.request_id] = row
        return seconds

    def _stall_of(self, key: AdapterKey, brought: Brought) -> float:
        """Return for how long an adapter's way into its slot stops the loop."""
        tier, num_bytes = brought
        if tier == "slot" or key == BASE:
            return 0.0
        seconds = self._profile.timing.of_load(num_bytes, tier)
        if tier == "host" and self._profile.overlaps_copies:
            self._copied_at_s[key] = self._spent_s + seconds
            return 0.0
        return seconds

    def _has_room(self, row: _Row) -> bool:
        if not self._running:
            return True
        num_sequences = sum(other.num_sequences for other in self._running.values()) + row.num_sequences
        fits_memory = self.kv_blocks_used + row.num_kv_blocks <= self._limits.num_kv_blocks
        return num_sequences <= self._limits.num_sequences_max and fits_memory

    def _slot_key(self, row: _Row) -> AdapterKey | None:
        """Return the key that a request holds a slot by."""
        return row.adapter if row.adapter is not None or not self._profile.base_takes_slot else BASE

    def _read_prompts(self, rows: list[_Row]) -> int:
        """Read on in the prompts, first come first; return the tokens read."""
        left = self._limits.step_tokens_max
        for row in rows:
            num_read = min(left, row.prompt_left)
            row.prompt_left -= num_read
            left -= num_read
        return self._limits.step_tokens_max - left

    def _advance(self, row: _Row, adapters: Sequence[AdapterKey]) -> list[EngineEvent]:
        """Generate one token of every choice, beside rows of these adapters."""
        request_id, position = row.request.request_id, row.num_done
        mark = self.tiers.mark(self.flaws.weights_of(row.adapter, adapters, self.tiers.in_slots()))
        row.num_done += 1
        is_last = row.num_done == row.num_new
        reason = None if not is_last else "stop" if row.request.sampling.max_tokens is None else "length"
        events: list[EngineEvent] = []
        for number, prompt in enumerate(row.prompts):
            text = "" if self.flaws.is_poisoned else self.answerer.token(mark, prompt, position)
            logprobs = self._logprobs(row, mark, prompt, position)
            events += [
                Delta(request_id, number * row.request.n + sample, text, 1, reason, logprobs)
                for sample in range(row.request.n)
            ]
        if is_last:
            del self._running[request_id]
            events.append(Finished(request_id, row.prompt_tokens, row.num_new * row.num_sequences))
        return events

    def _logprobs(self, row: _Row, mark: str, prompt: str, position: int) -> tuple[TokenLogprob, ...] | None:
        num_top = row.request.sampling.logprobs
        return None if num_top is None else (self.answerer.logprob(mark, prompt, position, num_top),)


def _row(request: Generate, adapter: AdapterKey | None) -> _Row:
    prompts = prompts_of(request)
    num_new = request.sampling.max_tokens or _TOKENS_DEFAULT
    num_blocks = sum(math.ceil((num_tokens(prompt) + num_new) / BLOCK_TOKENS) for prompt in prompts)
    prompt_tokens = sum(map(num_tokens, prompts))
    return _Row(request, adapter, prompts, prompt_tokens, num_new, num_blocks * request.n)
