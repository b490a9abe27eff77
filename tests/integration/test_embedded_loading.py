"""Loading and unloading: bytes are checked where they are parsed, slots are empty before and after."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from hotset.core.base import LINEARS
from hotset.core.errors import ConfigError, LoadFailedError
from hotset.core.messages import AdapterLoad
from hotset.engines.embedded.engine import EmbeddedEngine
from tests.support.adapters import Tensors, make_adapter, tiny_base_shape
from tests.support.bases import base_tensors, make_tiny_base
from tests.support.embedded import (
    Driver,
    adapter_load,
    engine_name,
    generate,
    load,
    make_adapters,
    make_engine,
)
from tests.support.safetensors_writer import write_safetensors

_SHAPE = tiny_base_shape()
_PROMPT = (1, 2, 3, 4)
_FILE = "adapter_model.safetensors"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("loading")
    make_tiny_base(root / "base", seed=5)
    make_adapters(root, _SHAPE)
    return root


@pytest.fixture
def engine(folder: Path) -> EmbeddedEngine:
    return make_engine(folder / "base", _SHAPE, num_slots=2)


def changed_module(content: AdapterLoad, **fields: Any) -> AdapterLoad:
    first = msgspec.structs.replace(content.modules[0], **fields)
    return msgspec.structs.replace(content, modules=(first, *content.modules[1:]))


def test_a_load_reports_what_it_did(engine: EmbeddedEngine, folder: Path) -> None:
    report = engine.place(engine.stage(adapter_load(folder / "all", engine_name(1))))
    assert report.num_modules == 14
    per_rank = sum(sum(_SHAPE.linear_shape(linear)) for linear in LINEARS) * _SHAPE.num_layers
    assert report.slot_bytes == 8 * per_rank * 4  # float32
    assert 0 <= report.stall_seconds <= report.seconds
    assert engine.inventory().loaded == (engine_name(1),)
    engine.check()


def test_placing_again_is_a_no_op(engine: EmbeddedEngine, folder: Path) -> None:
    staged = engine.stage(adapter_load(folder / "all", engine_name(1)))
    engine.place(staged)
    engine.place(staged)
    assert engine.inventory().loaded == (engine_name(1),)
    engine.check()


def test_no_free_slot(engine: EmbeddedEngine, folder: Path) -> None:
    for number, name in enumerate(("all", "some"), start=1):
        load(engine, folder / name, engine_name(number))
    with pytest.raises(LoadFailedError, match="slots"):
        load(engine, folder / "one", engine_name(3))
    engine.unload(engine_name(1))
    load(engine, folder / "one", engine_name(3))
    assert engine.inventory().loaded == (engine_name(2), engine_name(3))
    engine.check()


def test_unload_refuses_while_in_use_and_is_harmless_otherwise(engine: EmbeddedEngine, folder: Path) -> None:
    engine.unload(engine_name(1))
    load(engine, folder / "all", engine_name(1))
    driver = Driver(engine)
    driver.add(generate("a", engine_name(1), prompts=(_PROMPT,)))
    with pytest.raises(LoadFailedError, match="not ended"):
        engine.unload(engine_name(1))
    driver.step()
    with pytest.raises(LoadFailedError, match="not ended"):
        engine.unload(engine_name(1))
    driver.run()
    engine.unload(engine_name(1))
    assert engine.inventory().loaded == ()
    engine.check()


def test_loads_change_nothing_for_those_who_run(engine: EmbeddedEngine, folder: Path) -> None:
    load(engine, folder / "all", engine_name(1))
    driver = Driver(engine)
    undisturbed = driver.run([generate("a", engine_name(1), prompts=(_PROMPT,))])[0]
    disturbed = driver.add(generate("b", engine_name(1), prompts=(_PROMPT,)))
    for turn in range(6):
        driver.step()
        if turn % 2:
            engine.unload(engine_name(2))
        else:
            load(engine, folder / "some", engine_name(2))
    driver.run()
    assert disturbed.tokens == undisturbed.tokens


_BAD_LOADS: dict[str, Callable[[AdapterLoad], AdapterLoad]] = {
    "another digest": lambda load: msgspec.structs.replace(load, files={_FILE: "sha256:" + "0" * 64}),
    "a file that is not the version's": lambda load: msgspec.structs.replace(load, files={}),
    "no module": lambda load: msgspec.structs.replace(load, modules=()),
    "a layer that is not there": lambda load: changed_module(load, module="model.layers.7.self_attn.q_proj"),
    "a linear that is not there": lambda load: changed_module(load, module="model.layers.0.self_attn.x_proj"),
    "a module elsewhere": lambda load: changed_module(load, module="encoder.layers.0.self_attn.q_proj"),
    "a tensor that is not there": lambda load: changed_module(load, key_a="nothing"),
    "halves the wrong way round": lambda load: changed_module(
        load, key_a=load.modules[0].key_b, key_b=load.modules[0].key_a
    ),
    "another rank": lambda load: changed_module(load, rank=4),
    "a rank over the slot's": lambda load: changed_module(load, rank=17),
    "a scaling that overflows": lambda load: changed_module(load, scaling=1e39),
    "a folder that is not there": lambda load: msgspec.structs.replace(load, folder=load.folder + "-gone"),
    "a file outside the folder": lambda load: msgspec.structs.replace(
        changed_module(load, file="../all/" + _FILE), files={"../all/" + _FILE: load.files[_FILE]}
    ),
}


@pytest.mark.parametrize("case", list(_BAD_LOADS))
def test_bad_loads_are_refused_and_leave_nothing(engine: EmbeddedEngine, folder: Path, case: str) -> None:
    with pytest.raises(LoadFailedError):
        engine.stage(_BAD_LOADS[case](adapter_load(folder / "all", engine_name(1))))
    assert engine.inventory().loaded == ()
    engine.check()


def test_links_are_not_followed(engine: EmbeddedEngine, folder: Path, tmp_path: Path) -> None:
    content = adapter_load(folder / "all", engine_name(1))
    (tmp_path / _FILE).symlink_to(folder / "all" / _FILE)
    with pytest.raises(LoadFailedError, match="can't be read"):
        engine.stage(msgspec.structs.replace(content, folder=str(tmp_path)))


def test_a_file_that_is_no_safetensors(engine: EmbeddedEngine, folder: Path, tmp_path: Path) -> None:
    content = adapter_load(folder / "all", engine_name(1))
    (tmp_path / _FILE).write_bytes(b"\xff" * 64)
    digest = "sha256:" + hashlib.sha256(b"\xff" * 64).hexdigest()
    with pytest.raises(LoadFailedError, match="safetensors"):
        engine.stage(msgspec.structs.replace(content, folder=str(tmp_path), files={_FILE: digest}))


def _poison(tensors: Tensors) -> None:
    next(iter(tensors.values()))[0, 0] = np.nan


def test_values_that_are_not_finite(engine: EmbeddedEngine, tmp_path: Path) -> None:
    make_adapter(tmp_path / "nan", _SHAPE, rank=4, edit=_poison)
    with pytest.raises(LoadFailedError, match="finite"):
        engine.stage(adapter_load(tmp_path / "nan", engine_name(1)))


def test_a_base_that_changed_is_refused(tmp_path: Path) -> None:
    base = make_tiny_base(tmp_path / "base")
    registered = make_engine(base, _SHAPE)._settings
    write_safetensors(base / "model.safetensors", base_tensors(_SHAPE, seed=6))
    with pytest.raises(ConfigError, match=r"model\.safetensors is not the one"):
        EmbeddedEngine(registered)
    (base / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match="can't be read"):
        EmbeddedEngine(registered)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda tensors: tensors.pop("model.norm.weight"), r"hold no model\.norm\.weight"),
        (lambda tensors: tensors.pop("lm_head.weight"), r"no lm_head\.weight"),
        (lambda tensors: tensors.update(extra=np.zeros(3, dtype=np.float32)), "such as extra"),
        (
            lambda tensors: tensors.update({"model.norm.weight": np.zeros(3, dtype=np.float32)}),
            "has shape",
        ),
        (
            lambda tensors: tensors.update({"model.layers.0.self_attn.q_proj.bias": np.zeros(64, dtype=np.float32)}),
            "only some",
        ),
    ],
)
def test_weights_that_are_not_the_architecture_s(
    tmp_path: Path, edit: Callable[[Tensors], object], message: str
) -> None:
    base = make_tiny_base(tmp_path / "base")
    tensors = base_tensors(_SHAPE)
    edit(tensors)
    write_safetensors(base / "model.safetensors", tensors)
    with pytest.raises(ConfigError, match=message):
        make_engine(base, _SHAPE)


def test_limits_that_cannot_be_met(folder: Path) -> None:
    with pytest.raises(ConfigError, match="model_len_max"):
        make_engine(folder / "base", _SHAPE, model_len_max=2000)
    with pytest.raises(ConfigError, match="kv_bytes_max"):
        make_engine(folder / "base", _SHAPE, kv_blocks=0, kv_bytes_max=10)
    assert make_engine(folder / "base", _SHAPE, kv_blocks=10).facts.model_len_max == 40
    assert make_engine(folder / "base", _SHAPE, kv_blocks=0, kv_bytes_max=1 << 22).facts.model_len_max == 1024
