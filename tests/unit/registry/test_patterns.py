"""Patterns from an upload mean what they mean in training, and can't hold the registry up."""

import re

import pytest

from hotset.core.clock import SystemClock
from hotset.core.errors import VersionRefusedError
from hotset.registry.patterns import PatternBudget, check_pattern
from tests.support.fake_clock import FakeClock

PATHS = [f"model.layers.{n}.{p}" for n in range(12) for p in ("self_attn.q_proj", "mlp.up_proj")] + ["lm_head", "model"]


PORTABLE = [
    r".*\.layers\.0\..*\.(q|v)_proj",
    r"(?:.*?(?:language|text).*?(?:self_attn|mlp).*?(?:q_proj).*?)|(?:\bmodel\.layers\.[\d]{1,}\.(?:self_attn|mlp)\.(?:(?:q_proj|up_proj)))",
    r"model\.layers\.(1[0-1]|[0-9])\.self_attn\.[qkv]_proj",
    r"(?!.*mlp).*q_proj",
    r"(?<=model\.).*",
    r"^model.*$",
    r".*(?P<part>up|down)_proj",
    r"[^.]+\.layers\.\d{2}\..+",
    r"lm_head|model",
    "",
    r".*up_proj?",
]


@pytest.mark.parametrize("pattern", PORTABLE)
def test_matching_agrees_with_the_engine_of_training(pattern: str) -> None:
    budget = PatternBudget(FakeClock())
    whole, suffix = budget.full(pattern, "target_modules"), budget.suffix(pattern, "rank_pattern")

    assert [whole(path) for path in PATHS] == [re.fullmatch(pattern, path) is not None for path in PATHS]
    # How PEFT composes it.
    assert [suffix(path) for path in PATHS] == [re.match(rf"(.*\.)?({pattern})$", path) is not None for path in PATHS]


@pytest.mark.parametrize(
    "pattern",
    [
        "(?i)q_proj",
        "(?:q_proj){e<=1}",
        r"\p{L}+",
        "(?R)",
        r"(a)\1",
        "[[:alpha:]]+",
        "[a&&b]",
        "[a||b]",
        "[a--b]",
        "a{}",
        "(",
        ")(",
        "*q",
        "a**",
        "(?<=a+)b",
        "q" * 1025,
        "é",
        "(?#comment)",
        "(?>a)",
        "x{999}{999}",
    ],
)
def test_what_engines_read_differently_is_refused(pattern: str) -> None:
    with pytest.raises(VersionRefusedError) as caught:
        check_pattern(pattern, "target_modules")
        PatternBudget(FakeClock()).full(pattern, "target_modules")("model")

    assert caught.value.reason == "pattern_invalid"
    assert caught.value.param == "target_modules"


@pytest.mark.parametrize("pattern", [r"(?:[a-z]|[a-z.]|[_0-9])+[A-Z]", r"(?:.*?)*[A-Z]", r"(?:(?:.|.)+)+[A-Z]"])
def test_catastrophic_backtracking_ends_with_the_budget(pattern: str) -> None:
    clock = SystemClock()
    start = clock.monotonic_s()
    matches = PatternBudget(clock, seconds=0.2).full(pattern, "target_modules")

    with pytest.raises(VersionRefusedError) as caught:
        matches("model.layers.0.self_attn.q_proj" * 3)

    assert caught.value.reason == "pattern_too_slow"
    assert clock.monotonic_s() - start < 10


def test_the_budget_is_shared_by_all_patterns() -> None:
    clock = FakeClock()
    budget = PatternBudget(clock, seconds=1.0)
    first, second = budget.full(".*q_proj", "target_modules"), budget.suffix(".*up", "rank_pattern")
    assert first("a.q_proj")

    clock.advance(1.0)

    for matches in (first, second):
        with pytest.raises(VersionRefusedError, match="takes too long"):
            matches("a.q_proj")


def test_a_plain_name_needs_no_budget() -> None:
    clock = FakeClock()
    budget = PatternBudget(clock, seconds=1.0)
    clock.advance(5)

    matches = budget.suffix("self_attn.q_proj", "rank_pattern")

    assert matches("model.layers.0.self_attn.q_proj")
    assert not matches("model.layers.0.xself_attn.q_proj")
    assert matches("model.layers.0.self_attnxq_proj"), "a dot stands for any character, as in training"
