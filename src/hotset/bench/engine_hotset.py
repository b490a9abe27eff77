"""The Hotset side of the engine bench: the embedded engine in its own process, spoken to as an agent does.

``python -m hotset.bench.engine_hotset`` speaks `engine_batch` lines. Adapters are verified before they are
loaded, as everywhere.
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from hotset.bench.engine_batch import Batch, BatchTime, SideAdapter, SideReady, SideSetup, speak
from hotset.core.base import BaseVersion
from hotset.core.clock import SystemClock
from hotset.core.errors import EngineFailedError
from hotset.core.ids import AdapterId, BaseName, EngineName, RequestId, Route, TenantId, engine_name
from hotset.core.messages import AdapterLoad, EngineFacts, Failed, Finished, Generate, Sampling
from hotset.engines.hosted import HostedEngine
from hotset.engines.wire import EngineSpec
from hotset.registry.verify import VerifyPolicy, verify
from hotset.storage.base_files import read_base_folder
from hotset.storage.folder import open_artifact

_DTYPE = "bfloat16"
_MODEL_LEN_MAX = 2048


class EmbeddedSide:
    """One engine with every adapter of the bench in a slot."""

    def __init__(self, setup: SideSetup) -> None:
        self._setup = setup
        folder = Path(setup.base_folder)
        self._base = read_base_folder(folder, BaseName("bench"), ())
        self._clock = SystemClock()
        self._names: dict[str, EngineName] = {}
        self._num_requests = 0
        self._engine = HostedEngine(
            EngineSpec(
                kind="embedded",
                base=self._base,
                base_folder=str(folder.resolve()),
                num_slots=len(setup.adapters),
                rank_max=setup.rank_max,
                dtype=_DTYPE,
                model_len_max=_MODEL_LEN_MAX,
                num_sequences_max=setup.num_sequences_max,
                num_threads=setup.num_threads,
            )
        )

    async def start(self) -> EngineFacts:
        """Start the engine and load every adapter."""
        facts = await self._engine.start()
        for adapter in self._setup.adapters:
            load = verified_load(self._base, adapter, self._setup.rank_max)
            await self._engine.load(load)
            self._names[adapter.name] = load.engine_name
        return facts

    async def answer(self, batch: Batch) -> BatchTime:
        """Run one batch.

        Raises:
            EngineFailedError: a row failed, or ended before its last token.
        """
        begun_at = self._clock.monotonic_s()
        rows = zip(batch.prompts, batch.adapters, strict=True)
        counts = await asyncio.gather(*(self._complete(prompt, name, batch.new_tokens) for prompt, name in rows))
        seconds = self._clock.monotonic_s() - begun_at
        if any(count != batch.new_tokens for count in counts):
            raise EngineFailedError(f"{counts} tokens were generated, {batch.new_tokens} a row were asked for")
        return BatchTime(seconds=seconds, num_tokens=sum(counts))

    async def _complete(self, prompt: tuple[int, ...], adapter: str | None, new_tokens: int) -> int:
        self._num_requests += 1
        stream = self._engine.generate(
            Generate(
                request_id=RequestId(f"bench-{self._num_requests}"),
                engine_name=None if adapter is None else self._names[adapter],
                cache_salt="bench",
                sampling=Sampling(temperature=0.0, max_tokens=new_tokens, ignore_eos=True),
                prompts=(prompt,),
            )
        )
        while events := await stream.events():
            match events[-1]:
                case Finished(_, _, completion_tokens):
                    return completion_tokens
                case Failed(_, code, message):
                    raise EngineFailedError(f"a row failed: {code}: {message}")
                case _:
                    pass
        raise EngineFailedError("a row's events ended early")


def verified_load(base: BaseVersion, adapter: SideAdapter, rank_max: int) -> AdapterLoad:
    """Return what the engine needs to load an adapter's folder, once it is verified.

    Raises:
        VersionRefusedError: the adapter does not fit the base.
    """
    policy = VerifyPolicy(rank_max=rank_max, dtype=_DTYPE, overrides=frozenset(("other_base",)))
    with open_artifact(Path(adapter.folder)) as artifact:
        verified = verify(artifact, base, policy)
    route = Route(base.digest, AdapterId(TenantId("bench"), adapter.name), 1, verified.digest)
    name = engine_name(route)
    assert name is not None
    return AdapterLoad(
        engine_name=name,
        folder=adapter.folder,
        files={entry.name: entry.digest for entry in verified.manifest.files},
        modules=verified.manifest.modules,
    )


def start(setup: SideSetup) -> tuple[SideReady, Callable[[Batch], BatchTime]]:
    """Start the engine and return what answers a batch."""
    loop = asyncio.new_event_loop()  # ends with the process, and the engine with it
    side = EmbeddedSide(setup)
    facts = loop.run_until_complete(side.start())
    version = f"{facts.engine}, {facts.dtype}, {facts.hardware_class}"
    return SideReady(version=version), lambda batch: loop.run_until_complete(side.answer(batch))


if __name__ == "__main__":
    sys.exit(speak(start))
