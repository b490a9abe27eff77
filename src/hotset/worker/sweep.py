"""Measures, before an engine serves, how many tokens a second it makes with how many distinct adapters in a full batch.

The adapters are made here, all zeros: what they cost is measured, not what they say. They answer no request of anybody,
and are out of the engine before the first one comes. What was measured is kept beside the local store, and measured
again where the base, the hardware or the engine's settings are others.
"""

import asyncio
import hashlib
import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from hotset.core.base import LINEARS, BaseVersion
from hotset.core.clock import Clock
from hotset.core.ids import Digest, EngineName, RequestId
from hotset.core.messages import AdapterLoad, EngineFacts, Failed, Generate, ModuleSpec, Sampling
from hotset.engines.port import Engine

_log = logging.getLogger(__name__)

_RANK_MAX = 16
_FILE = "adapter_model.safetensors"
_CONFIG = "adapter_config.json"
_ROUND_TOKENS = 8
_PROMPT = (1, 2, 3, 4)


class Sweep:
    """The measurement of one worker, kept in one file."""

    def __init__(self, base: BaseVersion, folder: Path, clock: Clock, *, seconds_max: float) -> None:
        """Prepare.

        Args:
            base: What the engine serves.
            folder: Where results are kept and the adapters are made; nothing else is in it.
            clock: Where time comes from.
            seconds_max: How long all rounds together may take, loads not counted.
        """
        self._base = base
        self._folder = folder
        self._clock = clock
        self._seconds_max = seconds_max

    async def rates(self, engine: Engine, facts: EngineFacts) -> Mapping[int, float]:
        """Return tokens a second by number of distinct adapters, as kept or by measuring now.

        Raises:
            LoadFailedError: the engine does not take the adapters.
            EngineUnavailableError: the engine is gone.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{_key(facts)}.json"
        kept = _read(path)
        if kept is not None:
            return kept
        measured = await self._measure(engine, facts)
        path.write_bytes(msgspec.json.encode(measured))
        _log.info("measured distinct adapters", extra={"base": self._base.name, "reason": json.dumps(measured)})
        return measured

    async def _measure(self, engine: Engine, facts: EngineFacts) -> dict[int, float]:
        most = min(facts.num_slots, facts.num_sequences_max)
        loads = await asyncio.to_thread(self._make, most, min(_RANK_MAX, facts.rank_max))
        try:
            for load in loads:
                await engine.load(load)
            names = [load.engine_name for load in loads]
            numbers = _numbers(most)
            await self._round(engine, names[:1], facts.num_sequences_max)  # the first steps are slower
            return {
                number: await self._rate(engine, names[:number], facts.num_sequences_max, len(numbers))
                for number in numbers
            }
        finally:
            for load in loads:
                await engine.unload(load.engine_name)
            await asyncio.to_thread(shutil.rmtree, self._folder / "adapters", ignore_errors=True)

    async def _rate(self, engine: Engine, names: list[EngineName], num_sequences: int, num_points: int) -> float:
        began_s, num_tokens, taken_s = self._clock.monotonic_s(), 0, 0.0
        while taken_s < self._seconds_max / num_points:
            num_tokens += await self._round(engine, names, num_sequences)
            taken_s = self._clock.monotonic_s() - began_s
        return num_tokens / taken_s

    async def _round(self, engine: Engine, names: list[EngineName], num_sequences: int) -> int:
        """Fill the engine once, adapters in turn; return the tokens that it made."""
        streams = [
            engine.generate(
                Generate(
                    request_id=RequestId(f"sweep-{place}"),
                    engine_name=names[place % len(names)],
                    cache_salt="sweep",
                    prompts=(_PROMPT,),
                    sampling=Sampling(temperature=0.0, max_tokens=_ROUND_TOKENS, ignore_eos=True),
                )
            )
            for place in range(num_sequences)
        ]
        num_tokens = 0
        for stream in streams:
            while events := await stream.events():
                num_tokens += sum(getattr(event, "num_tokens", 0) for event in events)
                if any(isinstance(event, Failed) for event in events):
                    break
        return num_tokens

    def _make(self, count: int, rank: int) -> list[AdapterLoad]:
        """Write an adapter of zeros, in PEFT's layout, under each adapter's name."""
        weights, modules = _zeros(self._base, rank)
        contents = {_FILE: weights, _CONFIG: _config(rank)}
        files = {name: Digest("sha256:" + hashlib.sha256(content).hexdigest()) for name, content in contents.items()}
        loads: list[AdapterLoad] = []
        for place in range(count):
            name = EngineName("hs-" + hashlib.sha256(b"sweep %d" % place).hexdigest()[:32])
            folder = self._folder / "adapters" / name
            folder.mkdir(parents=True, exist_ok=True)
            for file, content in contents.items():
                (folder / file).write_bytes(content)
            loads.append(AdapterLoad(engine_name=name, folder=str(folder), files=files, modules=modules))
        return loads


def _read(path: Path) -> dict[int, float] | None:
    """Return what was kept; None where nothing was, or nothing that can be read: a start may have been cut short."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[int, float])
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _key(facts: EngineFacts) -> str:
    """Name what a measurement holds for: base, hardware, engine and its settings."""
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:32]


def _numbers(most: int) -> list[int]:
    numbers = [1]
    while numbers[-1] < most:
        numbers.append(min(2 * numbers[-1], most))
    return numbers


def _config(rank: int) -> bytes:
    """Return PEFT's configuration of an adapter of every linear, which engines that serve HTTP read by themselves."""
    targets = [linear.rpartition(".")[2] for linear in LINEARS]
    return json.dumps({"peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": targets}).encode()


def _zeros(base: BaseVersion, rank: int) -> tuple[bytes, tuple[ModuleSpec, ...]]:
    """Return a safetensors file with an adapter of every linear, and how it is to be read.

    Source: the safetensors format: a header's length in 8 bytes, the header, the tensors' bytes at its offsets.
    """
    header: dict[str, object] = {}
    modules: list[ModuleSpec] = []
    at = 0
    for layer in range(base.shape.num_layers):
        for linear in LINEARS:
            d_out, d_in = base.shape.linear_shape(linear)
            module = f"model.layers.{layer}.{linear}"
            keys = [f"base_model.model.{module}.lora_{part}.weight" for part in "AB"]
            for key, shape in zip(keys, ([rank, d_in], [d_out, rank]), strict=True):
                size = 4 * shape[0] * shape[1]
                header[key] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
                at += size
            modules.append(
                ModuleSpec(module=module, rank=rank, alpha=rank, scaling=1.0, key_a=keys[0], key_b=keys[1], file=_FILE)
            )
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + bytes(at), tuple(modules)
