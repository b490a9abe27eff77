"""Greedy tokens of the embedded engine in float32 equal transformers and PEFT, whatever shares the batch."""

import random
from pathlib import Path

import pytest

from hotset.core.base import BaseShape
from hotset.core.ids import EngineName
from hotset.engines.embedded.engine import EmbeddedEngine
from tests.support.adapters import tiny_base_shape
from tests.support.bases import make_tiny_base
from tests.support.embedded import (
    GREEDY,
    Answer,
    Driver,
    Reference,
    engine_name,
    generate,
    load,
    make_adapters,
    make_engine,
    randomise_norms,
)

#: PEFT still asks transformers for a property that transformers deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")

_LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_CONFIGS = {
    "llama": {},
    "mistral": {"sliding_window": None},
    "qwen2": {"use_sliding_window": False},
    "qwen3": {"use_sliding_window": False},
    "llama-llama3-rope": {"rope_scaling": _LLAMA3_ROPE},
    "llama-linear-rope": {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
}


class Setting:
    """One tiny base with three adapters, and the reference's answers."""

    def __init__(self, folder: Path, family: str, **config: object) -> None:
        self.shape: BaseShape = tiny_base_shape(family=family)
        self.base = make_tiny_base(folder / "base", shape=self.shape, seed=5, **config)
        randomise_norms(self.base, self.shape)
        self.adapters: list[Path | None] = [None, *make_adapters(folder, self.shape)]
        self.reference = Reference(self.base)
        chance = random.Random(11)
        self.prompts = [tuple(chance.randrange(256) for _ in range(length)) for length in (1, 7, 20, 45)]
        self._expected: dict[tuple[int, int], list[int]] = {}

    def expected(self, prompt: int, adapter: int) -> list[int]:
        if (prompt, adapter) not in self._expected:
            self._expected[prompt, adapter] = self.reference.continuation(
                self.prompts[prompt], self.adapters[adapter], GREEDY.max_tokens or 0
            )
        return self._expected[prompt, adapter]

    def engine(self) -> EmbeddedEngine:
        engine = make_engine(self.base, self.shape)
        for number, adapter in enumerate(self.adapters):
            if adapter is not None:
                load(engine, adapter, engine_name(number))
        return engine

    def wrong(self, driver: Driver, pairs: list[tuple[int, int]], label: str = "r") -> list[tuple[int, int]]:
        """Generate for (prompt, adapter) pairs together and return those whose answer is not the reference's."""
        requests = [
            generate(f"{label}{position}", name_of(adapter), prompts=(self.prompts[prompt],))
            for position, (prompt, adapter) in enumerate(pairs)
        ]
        answers = zip(pairs, driver.run(requests), strict=True)
        return [
            (prompt, adapter) for (prompt, adapter), answer in answers if not self._is_right(prompt, adapter, answer)
        ]

    def _is_right(self, prompt: int, adapter: int, answer: Answer) -> bool:
        continuation = answer.tokens[0][len(self.prompts[prompt]) :]
        is_whole = answer.finished is not None and answer.finished.completion_tokens == GREEDY.max_tokens
        return is_whole and continuation == self.expected(prompt, adapter)


def name_of(adapter: int) -> EngineName | None:
    return engine_name(adapter) if adapter else None


@pytest.fixture(scope="module", params=list(_CONFIGS))
def setting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Setting:
    name: str = request.param
    return Setting(tmp_path_factory.mktemp(name), name.split("-")[0], **_CONFIGS[name])


def test_alone(setting: Setting) -> None:
    driver = Driver(setting.engine())
    for adapter in range(4):
        for prompt in range(4):
            assert setting.wrong(driver, [(prompt, adapter)], f"a{adapter}p{prompt}-") == []


def test_together(setting: Setting) -> None:
    pairs = [(prompt, adapter) for prompt in range(4) for adapter in range(4)]
    random.Random(3).shuffle(pairs)
    assert setting.wrong(Driver(setting.engine()), pairs) == []


def test_after_unload_and_reload_in_another_order(setting: Setting) -> None:
    engine = setting.engine()
    for number in (1, 2, 3):
        engine.unload(engine_name(number))
        engine.check()
    for number in (3, 1, 2):
        adapter = setting.adapters[number]
        assert adapter is not None
        load(engine, adapter, engine_name(number))
    assert setting.wrong(Driver(engine), [(prompt, adapter) for prompt in (1, 3) for adapter in range(4)]) == []


@pytest.mark.parametrize("seed", [0, 1])
def test_after_random_loads_unloads_and_aborts(setting: Setting, seed: int) -> None:
    chance = random.Random(seed)
    engine = setting.engine()
    driver = Driver(engine)
    for number in range(200):
        adapter = chance.randrange(1, 4)
        match chance.choice(("add", "step", "step", "step", "abort", "toggle")):
            case "add" if engine_name(adapter) in engine.inventory().loaded and len(engine.inventory().running) < 12:
                driver.add(generate(f"{number}", engine_name(adapter), prompts=(setting.prompts[adapter],), n=2))
            case "abort" if engine.inventory().running:
                engine.abort(chance.choice(engine.inventory().running))
            case "toggle":
                _toggle(engine, setting, adapter)
            case _:
                driver.step()
        engine.check()
    for request_id in engine.inventory().running:
        engine.abort(request_id)
    for adapter in range(1, 4):
        if engine_name(adapter) not in engine.inventory().loaded:
            _toggle(engine, setting, adapter)
    assert setting.wrong(driver, [(prompt, adapter) for prompt in range(4) for adapter in range(4)], "last") == []
    assert engine.inventory().kv_blocks_used == 0


def _toggle(engine: EmbeddedEngine, setting: Setting, adapter: int) -> None:
    """Unload an adapter that no request uses, or load one that is not there."""
    in_use = {sequence.engine_name for sequence in engine._choices}
    name = engine_name(adapter)
    if name not in engine.inventory().loaded:
        folder = setting.adapters[adapter]
        assert folder is not None
        load(engine, folder, name)
    elif name not in in_use:
        engine.unload(name)


def test_while_sequences_are_preempted(setting: Setting) -> None:
    """A cache that holds only a few sequences gives the same tokens, later."""
    engine = make_engine(setting.base, setting.shape, kv_blocks=40, step_tokens_max=16)
    for number, adapter in enumerate(setting.adapters):
        if adapter is not None:
            load(engine, adapter, engine_name(number))
    assert setting.wrong(Driver(engine), [(prompt, adapter) for prompt in range(4) for adapter in range(4)]) == []
