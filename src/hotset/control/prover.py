"""The prover: an engine of its own, used for one version and ended.

The probe set is scored under the base and under the version, each alone and then beside the other while an answer is
being generated. `registry.fingerprint` judges the numbers; nothing here decides.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from hotset.control.progress import Progress, Report
from hotset.core.base import BaseVersion
from hotset.core.errors import EngineTimeoutError, LoadFailedError, ProofFailedError
from hotset.core.ids import EngineName, RequestId
from hotset.core.messages import AdapterLoad, Delta, EngineFacts, Failed, Finished, Generate, Sampling, Score
from hotset.engines.port import Engine
from hotset.registry.fingerprint import ProbeScores, judge

#: Short and unlike each other, so that some effect shows in at least one; short enough for any context.
PROBES = (
    "The capital of France is Paris, and the capital of Italy is Rome.",
    "Dear customer, thank you for your message. We will look into the matter.",
    '{"name": "Ada", "age": 36, "skills": ["mathematics", "engines"]}',
    "def add(left, right):\n    return left + right\n",
    "SUMMARY: TWO MEETINGS WERE MOVED; ONE WAS CANCELLED.",
    "1 + 1 = 2, 2 + 2 = 4, 4 + 4 = 8, 8 + 8 = 16",
)
_PROMPT = "Question: What is the capital of France?\nAnswer:"
_ANSWER_TOKENS = 16
_TIMEOUT_S = 900.0

#: Makes an engine of its own over a base version and its folder; not yet started.
EngineFactory = Callable[[BaseVersion, Path], Engine]


@dataclass(frozen=True, slots=True)
class Proof:
    """What a successful proof leaves on record."""

    facts: EngineFacts
    #: JSON of a `registry.fingerprint.Fingerprint`.
    fingerprint_json: str


class Prover(Protocol):
    """Something that can prove a version."""

    async def prove(self, base: BaseVersion, base_folder: Path, load: AdapterLoad, report: Report) -> Proof:
        """Run the version on an engine of its own and judge what it does.

        Raises:
            ProofFailedError: the engine can't load it, or its numbers are not finite and stable.
            EngineUnavailableError: no engine came up; nothing is said of the version.
            EngineTimeoutError: it took too long; nothing is said of the version.
        """
        ...


class EngineProver:
    """Proves on an engine that a factory makes: in production, one in a process of its own."""

    def __init__(self, make_engine: EngineFactory, *, timeout_s: float = _TIMEOUT_S) -> None:
        self._make_engine = make_engine
        self._timeout_s = timeout_s

    async def prove(self, base: BaseVersion, base_folder: Path, load: AdapterLoad, report: Report) -> Proof:
        """Run the version on an engine of its own and judge what it does; the engine is ended, come what may.

        Raises:
            ProofFailedError: the engine can't load it, or its numbers are not finite and stable.
            EngineUnavailableError: no engine came up; nothing is said of the version.
            EngineTimeoutError: it took too long; nothing is said of the version.
        """
        engine = self._make_engine(base, base_folder)
        try:
            async with asyncio.timeout(self._timeout_s):
                report(Progress("start_engine", subject=base.name))
                facts = await engine.start()
                report(Progress("load", subject=load.engine_name))
                await _load(engine, load)
                scores = await _measure(engine, load.engine_name, report)
        except TimeoutError as error:
            raise EngineTimeoutError(f"The proof took longer than {self._timeout_s:.0f} s.") from error
        finally:
            await engine.stop()
        report(Progress("judge"))
        fingerprint = judge(scores, facts)
        return Proof(facts, msgspec.json.encode(fingerprint).decode())


async def _load(engine: Engine, load: AdapterLoad) -> None:
    try:
        await engine.load(load)
    except LoadFailedError as error:
        raise ProofFailedError(f"The engine can't load the version: {error.message}") from error


async def _measure(engine: Engine, name: EngineName, report: Report) -> list[ProbeScores]:
    """Score every probe twice under the base and twice under the version."""
    total = 4 * len(PROBES)
    base_alone = await _score(engine, None)
    report(Progress("score", total // 4, total, "texts", "base"))
    version_alone = await _score(engine, name)
    report(Progress("score", total // 2, total, "texts", "version"))
    base_beside, version_beside, _ = await asyncio.gather(
        _score(engine, None), _score(engine, name), _generate(engine, name, report)
    )
    report(Progress("score", total, total, "texts", "both"))
    runs = zip(PROBES, base_alone, base_beside, version_alone, version_beside, strict=True)
    return [
        ProbeScores(text=text, base=(tuple(base_1), tuple(base_2)), version=(tuple(version_1), tuple(version_2)))
        for text, base_1, base_2, version_1, version_2 in runs
    ]


async def _score(engine: Engine, name: EngineName | None) -> list[list[float]]:
    return await engine.score(Score(engine_name=name, texts=PROBES))


async def _generate(engine: Engine, name: EngineName, report: Report) -> None:
    """Generate a short greedy answer; the version must be able to end one."""
    stream = engine.generate(
        Generate(
            request_id=RequestId("prove"),
            engine_name=name,
            cache_salt="prove",
            sampling=Sampling(temperature=0.0, max_tokens=_ANSWER_TOKENS),
            prompts=(_PROMPT,),
        )
    )
    num_tokens = 0
    while events := await stream.events():
        for event in events:
            if isinstance(event, Failed):
                raise ProofFailedError(f"The engine failed to generate under the version: {event.message}")
            if isinstance(event, Delta):
                num_tokens += event.num_tokens
                report(Progress("generate", num_tokens, _ANSWER_TOKENS, "tokens"))
            if isinstance(event, Finished):
                return
