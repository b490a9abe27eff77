"""What one adapter does to its own rows reaches nobody else's, not even as a NaN left in memory."""

from pathlib import Path

import numpy as np
import pytest

from hotset.core.messages import Generate
from tests.support.adapters import Tensors, make_adapter, tiny_base_shape
from tests.support.bases import make_tiny_base
from tests.support.embedded import ALL_LINEARS, Driver, engine_name, generate, load, make_adapters, make_engine

_SHAPE = tiny_base_shape()
_PROMPTS = tuple(tuple(range(start, start + 9)) for start in (10, 60, 110))


def _blow_up(tensors: Tensors) -> None:
    """Finite weights whose product is not."""
    for name, values in tensors.items():
        tensors[name] = np.full_like(values, 1e30)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("isolation")
    make_tiny_base(root / "base", seed=5)
    make_adapters(root, _SHAPE)
    make_adapter(root / "bad", _SHAPE, rank=4, targets=ALL_LINEARS, edit=_blow_up)
    # The same ranks and targets with small values: batches with it take exactly the same kernels.
    make_adapter(root / "good", _SHAPE, rank=4, targets=ALL_LINEARS, std=0.01)
    return root


def make_driver(folder: Path, second: str) -> Driver:
    engine = make_engine(folder / "base", _SHAPE, num_slots=3, kv_blocks=48)
    for number, name in enumerate(("all", second, "some"), start=1):
        load(engine, folder / name, engine_name(number))
    return Driver(engine)


def requests(label: str) -> list[Generate]:
    names = [None, engine_name(1), engine_name(3)]
    return [generate(f"{label}{n}", name, prompts=_PROMPTS) for n, name in enumerate(names)]


def test_a_row_that_overflows_fails_alone_and_leaves_nothing(folder: Path) -> None:
    calm, stormy = make_driver(folder, "good"), make_driver(folder, "bad")
    for turn in range(3):
        bad = generate(f"bad{turn}", engine_name(2), prompts=_PROMPTS)
        expected = calm.run([bad, *requests(f"{turn}-")])
        found = stormy.run([bad, *requests(f"{turn}-")])
        assert found[0].failed is not None
        assert found[0].failed.code == "engine_failed"
        assert [answer.tokens for answer in found[1:]] == [answer.tokens for answer in expected[1:]]
        assert all(answer.finished for answer in found[1:])
        assert stormy.engine.cache.is_clear(range(49))


def test_the_base_s_logits_beside_an_overflow_are_the_same_bits(folder: Path) -> None:
    """Log-probabilities come out of the whole model, so equal ones mean that no number changed on the way."""
    logprobs = []
    for second in ("good", "bad"):
        driver = make_driver(folder, second)
        sampling = generate("x", prompts=_PROMPTS[:1]).sampling
        logged = type(sampling)(temperature=0.0, max_tokens=8, ignore_eos=True, logprobs=5)
        answers = driver.run(
            [
                generate("base", None, logged, prompts=_PROMPTS),
                generate("beside", engine_name(2), logged, prompts=_PROMPTS[:1]),
            ]
        )
        first = next(delta for delta in answers[0].deltas if delta.index == 0)
        logprobs.append(first.logprobs)
        assert (answers[1].failed is not None) == (second == "bad")
    assert logprobs[0] == logprobs[1]


def test_a_sibling_choice_of_a_failed_one_frees_its_blocks(folder: Path) -> None:
    driver = make_driver(folder, "bad")
    driver.run([generate("bad", engine_name(2), prompts=_PROMPTS, n=4)])
    assert driver.engine.inventory().running == ()
    assert driver.engine.inventory().kv_blocks_used == 0
    driver.engine.unload(engine_name(2))
    driver.engine.check()
