"""Each kind of bad adapter is refused for its own reason, in a moment, with words that name the fault."""

import re

import pytest

from hotset.core.errors import VersionRefusedError
from hotset.registry.artifact import Artifact
from hotset.registry.refusals import Refusal
from hotset.registry.verify import VerifyPolicy, verify
from tests.support.adapters import tiny_base_version
from tests.support.bad_adapters import BAD_ADAPTERS, RANK_MAX, BadAdapter

BASE = tiny_base_version()
POLICY = VerifyPolicy(rank_max=RANK_MAX)

#: How a message says what to do.
ADVICE = re.compile(
    r"(?:[.:;,] |\(|^|or )"
    r"(?:Add|Copy|Leave|List|Save|Serve|Set|Split|Target|Train|Write|Remove|correct|check|save)\b|expected"
)
#: Reasons that only a folder, a base or a clock can give; each names the test that raises it.
RAISED_ELSEWHERE = {
    Refusal.FILE_LINK: "tests/integration/test_folder.py",
    Refusal.FOLDER_UNREADABLE: "tests/integration/test_folder.py",
    Refusal.TOO_MANY_FILES: "tests/integration/test_folder.py",
    Refusal.PATTERN_TOO_SLOW: "tests/unit/registry/test_patterns.py",
    Refusal.BASE_UNSUPPORTED: "tests/unit/registry/test_base_reader.py",
    Refusal.BASE_INVALID: "tests/unit/registry/test_base_reader.py",
}


@pytest.mark.parametrize("bad", BAD_ADAPTERS, ids=lambda bad: bad.name)
def test_a_bad_adapter_is_refused_for_its_reason(bad: BadAdapter) -> None:
    with pytest.raises(VersionRefusedError) as caught:
        verify(Artifact.of(bad.files, bad.ignored), BASE, POLICY)

    assert caught.value.reason == bad.refusal.value, caught.value.message
    assert 20 < len(caught.value.message) < 700
    assert ADVICE.search(caught.value.message), caught.value.message
    assert caught.value.param is None or len(caught.value.param) <= 120


def test_every_reason_has_a_test_that_raises_it() -> None:
    raised_here = {bad.refusal for bad in BAD_ADAPTERS}

    assert raised_here.isdisjoint(RAISED_ELSEWHERE)
    assert raised_here | RAISED_ELSEWHERE.keys() == set(Refusal)


def test_reasons_are_stable_words() -> None:
    assert all(reason.value == reason.name.lower() for reason in Refusal)


def test_names_are_unique() -> None:
    assert len({bad.name for bad in BAD_ADAPTERS}) == len(BAD_ADAPTERS)
