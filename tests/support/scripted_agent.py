"""An agent whose answers are written down in the request: the prompt's last message says what happens.

It stands in for a worker in the gateway's tests. Every ticket is counted until it ended, so a test can ask for
what was left over. A prompt is words; those it knows are instructions, any other prompt is answered by a short
text that names the route it came by:

``pieces=5`` five deltas; ``text=abc`` each of them this text; ``stall`` nothing after the first delta until
aborted; ``silent`` nothing at all; ``fail=engine_failed`` fails before the first delta; ``failmid=CODE`` after
it; ``wait=MS`` says that it waits, so long; ``hold`` waits in `submit` until `release` or cancellation; ``load``
comes by the loading lane; ``burst`` all deltas at once; ``full`` is refused with slots_full, to return after
``full=MS``; ``cold`` is refused with adapter_cold (after ``hold``, where both stand); ``stale=N`` is refused with
stale_route below epoch N; ``die`` ends without a last event; ``bug`` raises.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from hotset.core.errors import (
    AdapterColdError,
    EngineUnavailableError,
    LoadFailedError,
    SlotsFullError,
    StaleRouteError,
)
from hotset.core.ids import RequestId
from hotset.core.messages import Delta, EngineEvent, Failed, Finished, Started, TokenLogprob
from hotset.core.ports import Lane, OnWaiting, Waiting, Work

PROMPT_TOKENS = 7
COLD_RETRY_AFTER_MS = 2500


@dataclass(frozen=True, slots=True)
class Script:
    """What one request asks for."""

    words: frozenset[str]
    values: dict[str, str]

    @classmethod
    def of(cls, work: Work) -> "Script":
        generate = work.generate
        if generate.messages is not None:
            prompt = generate.messages[-1].content
        else:
            first = (generate.prompts or ("",))[0]
            prompt = first if isinstance(first, str) else ""
        words = prompt.split(" ")
        values = dict(word.split("=", 1) for word in words if "=" in word)
        return cls(frozenset(words), values)


class ScriptedTicket:
    """One request's events, as its script says."""

    def __init__(self, agent: "ScriptedAgent", work: Work, script: Script) -> None:
        self.lane: Lane = "loading" if "load" in script.words else "hot"
        self.worker = ""
        self.load_seconds = 0.25 if "load" in script.words else 0.0
        self._agent = agent
        self._work = work
        self._script = script
        self._batches = _batches(agent, work, script)
        self._ended = asyncio.Event()
        agent.open_tickets[work.request_id] = self

    async def events(self) -> list[EngineEvent]:
        """Return the next batch; an empty list after the last one."""
        if self._ended.is_set():
            return []
        if "bug" in self._script.words:
            raise RuntimeError("a bug in the agent: secret-detail")
        if not self._batches:
            if self._script.words & {"stall", "silent"}:
                self._agent.num_silent += 1
                try:
                    await self._ended.wait()
                finally:
                    self._agent.num_silent -= 1
            else:
                self._end()
            return []
        await self._agent.may_step.wait()
        if self._agent.step_s:
            await asyncio.sleep(self._agent.step_s)
        elif "burst" not in self._script.words:
            await asyncio.sleep(0)
        batch = self._batches.pop(0)
        if isinstance(batch[-1], Finished | Failed):
            self._end()
        return batch

    async def abort(self) -> None:
        """End the request; harmless after the end."""
        if not self._ended.is_set():
            self._agent.num_aborted += 1
            self._end()

    def _end(self) -> None:
        self._ended.set()
        self._agent.open_tickets.pop(self._work.request_id, None)


@dataclass
class ScriptedAgent:
    """Answers by script; implements `core.ports.Agent`."""

    ready: bool = True
    len_max: int = 2048
    #: Seconds between two batches; 0 only yields to the loop.
    step_s: float = 0.0
    #: Tickets handed out and not ended.
    open_tickets: dict[RequestId, ScriptedTicket] = field(default_factory=dict)
    num_aborted: int = 0
    #: Requests waiting in `submit`.
    num_held: int = 0
    works: list[Work] = field(default_factory=list)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    seen: Counter[str] = field(default_factory=Counter)
    #: While it is not set, nothing comes of any ticket.
    may_step: asyncio.Event = field(default_factory=asyncio.Event)
    #: Tickets that have told all they will, and wait to be aborted.
    num_silent: int = 0

    def __post_init__(self) -> None:
        self.may_step.set()

    async def submit(self, work: Work, on_waiting: OnWaiting | None = None) -> ScriptedTicket:
        """Accept the work, or refuse it as its script says."""
        self.works.append(work)
        self.seen[str(work.route.adapter or "base")] += 1
        script = Script.of(work)
        if not self.ready:
            raise EngineUnavailableError
        if work.epoch < (epoch := int(script.values.get("stale", "0"))):
            raise StaleRouteError(epoch=epoch)
        if "full" in script.words:
            raise SlotsFullError(retry_after_ms=1500)
        if "full" in script.values:
            raise SlotsFullError(retry_after_ms=int(script.values["full"]))
        if "badload" in script.words:
            raise LoadFailedError("/secret/path hs-0123456789abcdef0123456789abcdef has wrong bytes")
        if "wait" in script.values and on_waiting is not None:
            on_waiting(Waiting("loading", int(script.values["wait"]) / 1000))
        if "hold" in script.words:
            self.num_held += 1
            try:
                await self.release.wait()
            finally:
                self.num_held -= 1
        if "cold" in script.words:
            raise AdapterColdError(retry_after_ms=COLD_RETRY_AFTER_MS)
        return ScriptedTicket(self, work, script)

    def is_ready(self) -> bool:
        """Whether it serves."""
        return self.ready

    def model_len_max(self) -> int:
        """Tokens of prompt and answer together."""
        return self.len_max


def answer_text(work: Work) -> str:
    """The text that names the route a request came by."""
    return f"answer of {work.route.adapter or 'base'}@{work.route.number}"


def _batches(agent: ScriptedAgent, work: Work, script: Script) -> list[list[EngineEvent]]:
    request_id = work.request_id
    num_prompts = len(work.generate.prompts or ("",))
    num_choices = num_prompts * work.generate.n
    pieces = int(script.values.get("pieces", "2"))
    batches: list[list[EngineEvent]] = [[Started(request_id, PROMPT_TOKENS)]]
    if "silent" in script.words:
        return batches
    if "fail" in script.values:
        code = script.values["fail"]
        return [[Failed(request_id, code, "secret: hs-0123456789abcdef0123456789abcdef broke", None)]]
    for piece in range(pieces):
        is_last = piece == pieces - 1
        batches.append([_delta(work, script, index, piece, is_last=is_last) for index in range(num_choices)])
        if "failmid" in script.values:
            return [*batches, [Failed(request_id, script.values["failmid"], "secret detail", None)]]
        if "stall" in script.words or "die" in script.words:
            return batches
    batches.append([Finished(request_id, PROMPT_TOKENS, pieces * num_choices)])
    return [[event for batch in batches for event in batch]] if "burst" in script.words else batches


def _delta(work: Work, script: Script, index: int, piece: int, *, is_last: bool) -> Delta:
    whole = script.values.get("text") or answer_text(work)
    text = whole if "text" in script.values or piece == 0 else f" {piece}"
    logprobs = None
    if work.generate.sampling.logprobs is not None:
        top = tuple(
            TokenLogprob(f"t{place}", b"t%d" % place, -float(place + 1))
            for place in range(work.generate.sampling.logprobs)
        )
        logprobs = (TokenLogprob(text, text.encode(), -0.5, top),)
    return Delta(work.request_id, index, text, 1, "stop" if is_last else None, logprobs)


def check_nothing_left(agent: ScriptedAgent) -> None:
    """Assert that every request the agent saw has ended there."""
    assert not agent.open_tickets, list(agent.open_tickets)
    assert agent.num_held == 0
