"""Whatever bytes are uploaded, the registry either understands them whole or refuses them with a reason."""

import json
import math
import re
import string
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hotset.core.errors import VersionRefusedError
from hotset.core.messages import ModuleSpec
from hotset.core.versions import FileEntry, Manifest
from hotset.registry.artifact import Artifact
from hotset.registry.json_strict import parse_object
from hotset.registry.patterns import PatternBudget
from hotset.registry.peft_rules import RULES
from hotset.registry.refusals import Refusal
from hotset.registry.safetensors_header import DTYPE_BYTES, parse_header
from hotset.registry.tensor_names import read_name
from hotset.registry.verify import VerifyPolicy, verify
from hotset.registry.weights import decode, peak_magnitude
from tests.support.adapters import tiny_base_shape, tiny_base_version
from tests.support.bad_adapters import CONFIG, WEIGHTS, adapter_files
from tests.support.fake_clock import FakeClock
from tests.support.safetensors_writer import encode, pack, safetensors_bytes

REASONS = {reason.value for reason in Refusal}
GOOD = adapter_files()
BASE = tiny_base_version()
POLICY = VerifyPolicy(rank_max=16)


def reason_of(action: Callable[[], object]) -> str:
    """Return why the action is refused, or an empty text."""
    try:
        action()
    except VersionRefusedError as error:
        return error.reason
    return ""


def verdict(**changed: bytes) -> str:
    """Return why the good adapter is refused with its configuration or weights replaced."""
    files = {CONFIG: changed.get("config", GOOD[CONFIG]), WEIGHTS: changed.get("weights", GOOD[WEIGHTS])}
    return reason_of(lambda: verify(Artifact.of(files), BASE, POLICY, clock=FakeClock()))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
sizes = st.integers(-1, 40) | st.integers(0, 1 << 70)
entries = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from([*DTYPE_BYTES, "F4", ""]) | json_values,
        "shape": st.lists(sizes, max_size=4) | json_values,
        "data_offsets": st.lists(sizes, min_size=2, max_size=2) | json_values,
    },
)
headers = st.dictionaries(st.text(max_size=6) | st.just("__metadata__"), entries | json_values, max_size=4)


def check_parsed_or_refused(content: bytes) -> None:
    reason = reason_of(lambda: parse_header(memoryview(content), "w.safetensors"))
    if reason:
        assert reason in ("safetensors_invalid", "json_invalid")
        return
    ends = [8 + int.from_bytes(content[:8], "little")]
    for tensor in parse_header(memoryview(content), "w.safetensors").values():
        assert tensor.start == ends[-1]
        assert tensor.end - tensor.start == math.prod(tensor.shape) * DTYPE_BYTES[tensor.dtype]
        ends.append(tensor.end)
    assert ends[-1] == len(content)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_safetensors_file_or_refused(content: bytes) -> None:
    check_parsed_or_refused(content)


@given(headers, st.binary(max_size=64))
def test_any_header_is_borne_out_or_refused(header: dict[str, Any], body: bytes) -> None:
    check_parsed_or_refused(pack(header, body))


@given(st.integers(0, len(GOOD[WEIGHTS]) - 1), st.integers(0, 255))
def test_a_changed_byte_never_gets_out_of_hand(position: int, value: int) -> None:
    weights = bytearray(GOOD[WEIGHTS])
    weights[position] = value

    assert verdict(weights=bytes(weights)) in {"", *REASONS}


@given(st.integers(0, len(GOOD[WEIGHTS]) - 1))
@example(len(GOOD[WEIGHTS]) - 1)
def test_no_cut_file_is_admitted(length: int) -> None:
    assert verdict(weights=GOOD[WEIGHTS][:length]) in ("safetensors_invalid", "json_invalid")


@given(st.sampled_from(sorted(RULES)), json_values)
def test_any_value_of_any_setting_is_served_or_refused(setting: str, value: Any) -> None:
    config = {**json.loads(GOOD[CONFIG]), setting: value}

    assert verdict(config=json.dumps(config).encode()) in {"", *REASONS}


@given(
    st.text(min_size=1, max_size=12).filter(lambda name: name not in RULES),
    json_values.filter(lambda value: value is not None),
)
def test_no_unknown_setting_is_let_through(setting: str, value: Any) -> None:
    config = {**json.loads(GOOD[CONFIG]), setting: value}

    assert verdict(config=json.dumps(config).encode()) in ("setting_unknown", "json_invalid")


@given(st.dictionaries(st.text(max_size=6), json_values, max_size=4))
def test_json_objects_survive(value: dict[str, Any]) -> None:
    assert parse_object(json.dumps(value).encode(), "x.json") == value


atoms = st.sampled_from(
    [
        *"amodel01_.q-*+?|()^$",
        r"\.",
        r"\d",
        r"\w",
        r"\b",
        "(?:",
        "(?=",
        "(?!",
        "[a-q]",
        "[^.]",
        "{2}",
        "{1,}",
        "{,2}",
        ".*",
    ]
)
PATHS = ("model.layers.0.q", "model", "a.b", "model.layers.10.q-q", "q", "0", "a-")


@settings(deadline=None)
@given(st.lists(atoms, min_size=1, max_size=8).map("".join))
def test_patterns_mean_what_they_meant_in_training(pattern: str) -> None:
    budget = PatternBudget(FakeClock(), seconds=1.0)
    reason = reason_of(lambda: budget.full(pattern, "x"))
    if reason:
        assert reason == "pattern_invalid"
        return
    whole, suffix = budget.full(pattern, "x"), budget.suffix(pattern, "x")
    for path in PATHS:
        assert whole(path) == (re.fullmatch(pattern, path) is not None)
        assert suffix(path) == (re.match(rf"(.*\.)?({pattern})$", path) is not None)


@given(st.text(string.ascii_lowercase + "._0123456789AB", max_size=60))
def test_any_tensor_name_is_a_half_or_refused(name: str) -> None:
    reason = reason_of(lambda: read_name(name, tiny_base_shape()))
    assert reason in {"", *REASONS}
    if not reason:
        module, half = read_name(name, tiny_base_shape())
        assert name.endswith((f"{module}.lora_{half}.weight", f"{module}.lora_{half}.default.weight"))


@given(
    st.lists(st.floats(width=32), min_size=1, max_size=20),
    st.sampled_from(["F32", "F16", "BF16"]),
)
def test_the_peak_is_the_largest_stored_magnitude(values: list[float], dtype: str) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        array = np.array(values, np.float32)
        content = memoryview(safetensors_bytes({"t": array}, dtype=dtype))
        stored = decode(encode(array, dtype), dtype)
    peak = peak_magnitude(content, parse_header(content, "w")["t"])
    expected = float(np.abs(stored).max())
    assert peak == expected or (math.isnan(peak) and math.isnan(expected))


specs = st.builds(
    ModuleSpec,
    module=st.text(max_size=8),
    rank=st.integers(1, 64),
    alpha=st.floats(allow_nan=False, allow_infinity=False),
    scaling=st.floats(allow_nan=False, allow_infinity=False),
    key_a=st.text(max_size=8),
    key_b=st.text(max_size=8),
    file=st.text(max_size=8),
)
manifests = st.builds(
    Manifest,
    files=st.lists(
        st.builds(FileEntry, name=st.text(max_size=8), digest=st.text(max_size=8), size_bytes=st.integers(0, 1 << 40)),
        max_size=3,
    ).map(tuple),
    modules=st.lists(specs, max_size=3).map(tuple),
    rank_max=st.integers(1, 64),
    overrides=st.lists(st.text(max_size=8), max_size=2).map(tuple),
    warnings=st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), max_size=2).map(tuple),
)


@given(manifests)
def test_manifests_survive_encoding(manifest: Manifest) -> None:
    assert msgspec.json.decode(msgspec.json.encode(manifest), type=Manifest) == manifest
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(manifest), type=Manifest) == manifest
