"""Engines that go wrong once a certain version is loaded, or were never right."""

import math
from dataclasses import dataclass, field

import msgspec

from hotset.core.errors import EngineFailedError
from hotset.core.ids import EngineName
from hotset.core.messages import AdapterLoad, Failed, Generate, LoadReport, Score
from hotset.engines.event_stream import EventStream
from hotset.engines.hosted import HostedEngine
from hotset.engines.wire import EngineSpec


@dataclass
class Wrongs:
    """What is wrong with the engines that are made; a test changes it as it goes on."""

    #: Versions after whose load the base answers in their place, as on engines that mix rows up.
    mixing: set[EngineName] = field(default_factory=set[EngineName])
    #: Versions whose scores are no numbers.
    not_finite: set[EngineName] = field(default_factory=set[EngineName])
    #: Whether a fresh engine already answers otherwise than the first one did.
    is_sick: bool = False
    #: Requests of the base still to come whose step fails.
    num_failing: int = 0
    num_engines: int = 0
    #: Versions in the order in which engines loaded them, with the number of the engine.
    loads: list[tuple[int, EngineName]] = field(default_factory=list[tuple[int, EngineName]])


class WrongEngine(HostedEngine):
    """An instant engine in a process of its own, of which this process sees what is wrong."""

    def __init__(self, spec: EngineSpec, wrongs: Wrongs) -> None:
        super().__init__(spec, start_timeout_s=60)
        self._wrongs = wrongs
        wrongs.num_engines += 1
        self._number = wrongs.num_engines
        self._is_sick = wrongs.is_sick
        self._mixed: EngineName | None = None

    async def load(self, load: AdapterLoad) -> LoadReport:
        report = await super().load(load)
        self._wrongs.loads.append((self._number, load.engine_name))
        if load.engine_name in self._wrongs.mixing:
            self._mixed = load.engine_name
        return report

    def generate(self, request: Generate) -> EventStream:
        if request.engine_name is None and self._mixed is not None:
            request = msgspec.structs.replace(request, engine_name=self._mixed)
        if request.engine_name is None and self._wrongs.num_failing:
            self._wrongs.num_failing -= 1
            stream = EventStream(self, request.request_id)
            stream.push(Failed(request.request_id, EngineFailedError.code, "the step failed"))
            return stream
        if self._is_sick:
            sampling = msgspec.structs.replace(request.sampling, max_tokens=1)
            request = msgspec.structs.replace(request, sampling=sampling)
        return super().generate(request)

    async def score(self, score: Score) -> list[list[float]]:
        scores = await super().score(score)
        return [[math.nan] * len(each) for each in scores] if score.engine_name in self._wrongs.not_finite else scores
