"""Runs the embedded engine over tiny bases, and transformers with PEFT beside it as the reference."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import PeftModel
from safetensors import safe_open
from transformers import AutoModelForCausalLM

from hotset.core.base import BaseShape, BaseVersion
from hotset.core.ids import Digest, EngineName, RequestId
from hotset.core.messages import (
    AdapterLoad,
    Delta,
    EngineEvent,
    Failed,
    Finished,
    Generate,
    ModuleSpec,
    Sampling,
    Started,
)
from hotset.engines.embedded.engine import EmbeddedEngine
from hotset.engines.embedded.settings import EmbeddedSettings
from tests.support.adapters import PREFIX, make_adapter, tiny_base_version
from tests.support.bases import base_tensors
from tests.support.safetensors_writer import write_safetensors

GREEDY = Sampling(temperature=0.0, max_tokens=12, ignore_eos=True)


def engine_name(number: int) -> EngineName:
    """Return a well-formed engine name."""
    return EngineName(f"hs-{number:032x}")


def base_version(folder: Path, shape: BaseShape) -> BaseVersion:
    """Return the base version of a folder, its files digested."""
    files = {path.name: digest_of(path) for path in sorted(folder.iterdir())}
    unfiled = tiny_base_version(shape)
    return BaseVersion(
        name=unfiled.name,
        digest=unfiled.digest,
        synonyms=unfiled.synonyms,
        shape=shape,
        tokenizer=unfiled.tokenizer,
        files=files,
    )


def digest_of(path: Path) -> Digest:
    """Return a file's digest."""
    return Digest(f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}")


def make_engine(folder: Path, shape: BaseShape, **settings: Any) -> EmbeddedEngine:
    """Return a small float32 engine over a base folder; `settings` replace its settings."""
    chosen: dict[str, Any] = {
        "dtype": "float32",
        "num_slots": 4,
        "rank_max": 16,
        "kv_blocks": 256,
        "block_size": 4,
        "step_tokens_max": 32,
        "num_sequences_max": 16,
        "num_threads": 1,
    }
    base = base_version(folder, shape)
    return EmbeddedEngine(EmbeddedSettings(base_folder=str(folder), base=base, **{**chosen, **settings}))


def adapter_load(folder: Path, name: EngineName) -> AdapterLoad:
    """Return what an agent would send for a PEFT folder that `make_adapter` wrote."""
    config = json.loads((folder / "adapter_config.json").read_text())
    file = "adapter_model.safetensors"
    with safe_open(folder / file, framework="np") as tensors:
        keys = [key for key in tensors.keys() if key.endswith("lora_A.weight")]  # noqa: SIM118
        ranks = {key: tensors.get_slice(key).get_shape()[0] for key in keys}
    modules = tuple(
        ModuleSpec(
            module=key.removeprefix(PREFIX).removesuffix(".lora_A.weight"),
            rank=rank,
            alpha=config["lora_alpha"],
            scaling=config["lora_alpha"] / rank,
            key_a=key,
            key_b=key.replace("lora_A", "lora_B"),
            file=file,
        )
        for key, rank in sorted(ranks.items())
    )
    files = {path.name: digest_of(path) for path in sorted(folder.iterdir())}
    return AdapterLoad(engine_name=name, folder=str(folder), files=files, modules=modules)


def load(engine: EmbeddedEngine, folder: Path, name: EngineName) -> None:
    """Stage and place a PEFT folder."""
    engine.place(engine.stage(adapter_load(folder, name)))


def generate(request_id: str, name: EngineName | None = None, sampling: Sampling = GREEDY, **fields: Any) -> Generate:
    """Return a request."""
    return Generate(request_id=RequestId(request_id), engine_name=name, cache_salt="", sampling=sampling, **fields)


@dataclass
class Answer:
    """What came back for one request."""

    started: bool = False
    finished: Finished | None = None
    failed: Failed | None = None
    deltas: list[Delta] = field(default_factory=list)
    #: Prompt and answer of each choice.
    tokens: dict[int, list[int]] = field(default_factory=dict)

    def text(self, index: int = 0) -> str:
        """Return one choice's text."""
        return "".join(delta.text for delta in self.deltas if delta.index == index)

    def reason(self, index: int = 0) -> str | None:
        """Return why a choice ended."""
        reasons = [delta.finish_reason for delta in self.deltas if delta.index == index and delta.finish_reason]
        assert len(reasons) <= 1
        return reasons[0] if reasons else None


class Driver:
    """Steps an engine to the end of its work, checking every invariant after each step."""

    def __init__(self, engine: EmbeddedEngine) -> None:
        self.engine = engine
        self.answers: dict[str, Answer] = {}

    def add(self, request: Generate) -> Answer:
        """Queue a request."""
        answer = self.answers[request.request_id] = Answer()
        self._take(self.engine.add(request))
        for choice in self.engine._requests.get(request.request_id, []):
            answer.tokens[choice.sequence.index] = choice.sequence.tokens
        return answer

    def step(self) -> None:
        """Advance once."""
        self._take(self.engine.step())
        self.engine.check()

    def run(self, requests: Iterable[Generate] = ()) -> list[Answer]:
        """Queue requests and step until nothing is left to do; return their answers."""
        answers = [self.add(request) for request in requests]
        while self.engine.has_work():
            self.step()
        return answers

    def _take(self, events: Sequence[EngineEvent]) -> None:
        for event in events:
            answer = self.answers[event.request_id]
            assert answer.finished is None, "an event followed the last one"
            assert answer.failed is None, "an event followed the last one"
            match event:
                case Started():
                    assert not answer.deltas
                    answer.started = True
                case Delta():
                    answer.deltas.append(event)
                case Finished():
                    answer.finished = event
                case Failed():
                    answer.failed = event


class Reference:
    """transformers and PEFT in float32, one adapter at a time, greedy, without a cache."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._models: dict[Path | None, Any] = {}

    def continuation(self, prompt: Sequence[int], adapter: Path | None, count: int) -> list[int]:
        """Return the `count` likeliest next tokens, one after the other."""
        tokens = list(prompt)
        for _ in range(count):
            logits = self.logits(tokens, adapter)[-1]
            best = torch.topk(logits, 2)
            assert best.values[0] - best.values[1] > 1e-4, "a near tie: choose another seed"
            tokens.append(int(best.indices[0]))
        return tokens[len(prompt) :]

    @torch.inference_mode()
    def logits(self, tokens: Sequence[int], adapter: Path | None) -> torch.Tensor:
        """Return logits [num_tokens, vocab_size]."""
        return self._model(adapter)(torch.tensor([list(tokens)])).logits[0]

    def _model(self, adapter: Path | None) -> Any:
        if adapter not in self._models:
            model = AutoModelForCausalLM.from_pretrained(self._folder, dtype=torch.float32)
            if adapter is not None:
                model = PeftModel.from_pretrained(model, str(adapter))
            self._models[adapter] = model.eval()
        return self._models[adapter]


def randomise_norms(folder: Path, shape: BaseShape, *, seed: int = 9) -> None:
    """Give a base that `make_tiny_base` wrote norm weights that differ from one another and from 1."""
    random = np.random.default_rng(seed)
    tensors = base_tensors(shape, seed=5)
    for name, values in tensors.items():
        if "norm" in name:
            tensors[name] = random.uniform(0.5, 1.5, values.shape).astype(np.float32)
    write_safetensors(folder / "model.safetensors", tensors)


ALL_LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def make_adapters(folder: Path, shape: BaseShape) -> list[Path]:
    """Write three adapters of different ranks and targets."""
    return [
        make_adapter(folder / "all", shape, rank=8, alpha=16, targets=ALL_LINEARS, std=0.15, seed=1),
        make_adapter(folder / "some", shape, rank=5, alpha=7, targets=("q_proj", "down_proj"), std=0.3, seed=2),
        make_adapter(
            folder / "one",
            shape,
            rank=16,
            alpha=8,
            targets=("o_proj", "up_proj"),
            layers=(1,),
            std=0.3,
            seed=3,
            config={"layers_to_transform": [1]},
        ),
    ]
