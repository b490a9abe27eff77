"""Asks an engine what the watchdog wants to know, beside whatever else runs in it.

The probe is one short request of the bare base, of nobody's account and in no queue of ours: the engine steps it with
what it has. A version's own probe is one pass over a few words.
"""

import asyncio
import math

from hotset.core.ids import EngineName, RequestId
from hotset.core.messages import EngineEvent, Failed, Generate, Sampling, Score
from hotset.engines.port import Engine, EngineStream
from hotset.worker.readings import NUM_TOKENS, Baseline, Reading, baseline_of, read

_TEXT = "One, two, three, four, five,"
_VERSION_TEXT = "One, two, three"
#: Requests beside each other when a fresh engine is measured.
_NUM_BESIDE = 3


class Probe:
    """Of one engine; requests are numbered, so that no two have one id."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._num_asked = 0
        #: The aborts of requests that were not waited for.
        self._aborting: set[asyncio.Task[None]] = set()

    async def baseline(self) -> Baseline | None:
        """Measure a fresh engine: one answer alone, and some beside each other; None where it is not sound."""
        alone = await self.ask()
        beside = await asyncio.gather(*(self.ask() for _ in range(_NUM_BESIDE)))
        return baseline_of([alone, *beside])

    async def ask(self) -> Reading | Failed:
        """Ask the base; cancelled, nothing of it is left in the engine, once that answers."""
        stream = self._engine.generate(self._request())
        try:
            return read(await _all_of(stream))
        except asyncio.CancelledError:
            aborting = asyncio.create_task(stream.abort())
            self._aborting.add(aborting)
            aborting.add_done_callback(self._aborting.discard)
            raise

    async def is_finite(self, name: EngineName) -> bool:
        """Whether a loaded version's numbers are numbers.

        Raises:
            EngineUnavailableError: the engine is gone.
            HotsetError: the engine does not score it.
        """
        scores = await self._engine.score(Score(engine_name=name, texts=(_VERSION_TEXT,)))
        return all(math.isfinite(each) for text in scores for each in text)

    def _request(self) -> Generate:
        self._num_asked += 1
        return Generate(
            request_id=RequestId(f"watchdog-{self._num_asked}"),
            engine_name=None,
            cache_salt="watchdog",
            prompts=(_TEXT,),
            sampling=Sampling(temperature=0.0, max_tokens=NUM_TOKENS, logprobs=2, ignore_eos=True),
        )


async def _all_of(stream: EngineStream) -> list[EngineEvent]:
    events: list[EngineEvent] = []
    while ready := await stream.events():
        events += ready
    return events
