"""The prover measures, ends its engine whatever happens, and blames the version only for what the version did."""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from hotset.control.progress import Progress
from hotset.control.prover import PROBES, EngineProver
from hotset.core.base import BaseVersion
from hotset.core.errors import (
    EngineTimeoutError,
    EngineUnavailableError,
    HotsetError,
    LoadFailedError,
    ProofFailedError,
)
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
from hotset.registry.fingerprint import Fingerprint
from tests.support.adapters import tiny_base_version

NAME = EngineName("hs-" + "a" * 32)
LOAD = AdapterLoad(engine_name=NAME, folder="/nowhere", files={}, modules=())
BASE = tiny_base_version()


@dataclass
class Stream:
    batches: list[list[EngineEvent]]

    async def events(self) -> list[EngineEvent]:
        return self.batches.pop(0) if self.batches else []

    def watch(self, watcher: Callable[[Sequence[EngineEvent]], None]) -> None:
        raise AssertionError("a proof reads its stream")

    async def abort(self) -> None:
        self.batches.clear()


@dataclass
class MeasuredEngine:
    """Answers by the book, but for what a test bends."""

    start_fails: HotsetError | None = None
    load_fails: HotsetError | None = None
    generate_fails: bool = False
    never_starts: bool = False
    version_score: Callable[[int], float] = lambda _run: -1.0
    calls: list[str] = field(default_factory=list)
    runs: int = 0
    scored: list[Score] = field(default_factory=list)
    is_stopped: bool = False

    async def start(self) -> EngineFacts:
        self.calls.append("start")
        if self.never_starts:
            await asyncio.Event().wait()
        if self.start_fails:
            raise self.start_fails
        return EngineFacts(
            engine="measured 1",
            base=BASE.digest,
            dtype="float32",
            hardware_class="none",
            num_slots=1,
            rank_max=8,
            model_len_max=512,
            num_sequences_max=4,
        )

    async def load(self, load: AdapterLoad) -> LoadReport:
        self.calls.append("load")
        if self.load_fails:
            raise self.load_fails
        return LoadReport(seconds=0.0, stall_seconds=0.0, num_modules=len(load.modules), slot_bytes=0)

    async def unload(self, name: EngineName) -> None:
        raise AssertionError(f"{name} goes with its engine")

    async def inventory(self) -> Inventory:
        raise AssertionError("not asked for")

    def generate(self, request: Generate) -> Stream:
        self.calls.append("generate")
        assert (request.engine_name, request.sampling.temperature) == (NAME, 0.0)
        started = Started(request.request_id, 5)
        if self.generate_fails:
            return Stream([[started, Failed(request_id=request.request_id, code="engine_failed", message="NaN")]])
        delta = Delta(request.request_id, 0, "Paris", 1, "stop")
        return Stream([[started, delta], [Finished(request.request_id, 5, 1)]])

    async def abort(self, request_id: RequestId) -> None:
        raise AssertionError(f"{request_id} ends by itself")

    async def score(self, score: Score) -> list[list[float]]:
        self.calls.append(f"score {score.engine_name or 'base'}")
        if score.engine_name is None:
            return [[-2.0, -2.0] for _ in score.texts]
        self.runs += 1
        return [[self.version_score(self.runs)] * 2 for _ in score.texts]

    async def stop(self) -> None:
        self.is_stopped = True


def prove(engine: MeasuredEngine, *, timeout_s: float = 60.0) -> tuple[Fingerprint, list[Progress]]:
    seen: list[Progress] = []

    def make(base: BaseVersion, folder: Path) -> MeasuredEngine:
        assert (base, folder) == (BASE, Path("/models/tiny"))
        return engine

    prover = EngineProver(make, timeout_s=timeout_s)
    proof = asyncio.run(prover.prove(BASE, Path("/models/tiny"), LOAD, seen.append))
    assert proof.facts.engine == "measured 1"
    return msgspec.json.decode(proof.fingerprint_json, type=Fingerprint), seen


def test_a_sound_version_is_measured_twice_alone_and_beside_the_base() -> None:
    engine = MeasuredEngine()
    fingerprint, seen = prove(engine)
    assert (fingerprint.distance, fingerprint.is_provable) == (1.0, True)
    assert fingerprint.text in PROBES
    assert engine.calls[:4] == ["start", "load", "score base", f"score {NAME}"]
    assert sorted(engine.calls[4:]) == ["generate", "score base", f"score {NAME}"]
    assert engine.is_stopped
    assert [progress.phase for progress in seen] == [
        "start_engine",
        "load",
        "score",
        "score",
        "generate",
        "score",
        "judge",
    ]


def test_a_version_without_effect_is_proved_and_says_so() -> None:
    fingerprint, _ = prove(MeasuredEngine(version_score=lambda _run: -2.0))
    assert not fingerprint.is_provable


@pytest.mark.parametrize(
    "bent",
    [
        MeasuredEngine(version_score=lambda _run: math.nan),
        MeasuredEngine(version_score=lambda _run: -math.inf),
        MeasuredEngine(version_score=lambda run: -1.0 * run),
        MeasuredEngine(load_fails=LoadFailedError("rank 64 of 8")),
        MeasuredEngine(generate_fails=True),
    ],
    ids=["nan", "infinite", "unstable", "load", "generate"],
)
def test_what_the_version_did_fails_the_proof(bent: MeasuredEngine) -> None:
    with pytest.raises(ProofFailedError):
        prove(bent)
    assert bent.is_stopped


def test_an_engine_that_is_not_there_fails_nothing_but_itself() -> None:
    engine = MeasuredEngine(start_fails=EngineUnavailableError("no memory"))
    with pytest.raises(EngineUnavailableError):
        prove(engine)
    assert engine.is_stopped


def test_a_proof_has_an_end() -> None:
    engine = MeasuredEngine(never_starts=True)
    with pytest.raises(EngineTimeoutError):
        prove(engine, timeout_s=0.001)
    assert engine.is_stopped


def test_probes_are_short_and_distinct() -> None:
    assert len(set(PROBES)) == len(PROBES)
    assert all(10 < len(text) < 100 and len(text.split()) > 2 for text in PROBES)
