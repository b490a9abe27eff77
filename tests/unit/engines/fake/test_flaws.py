"""What the fake engine's loop gets wrong where it is to, and what SGLang does beside its steps."""

import pytest

from hotset.core.errors import LoadFailedError
from hotset.core.messages import Delta
from hotset.engines.fake.adapter_tiers import AdapterKey
from hotset.engines.fake.loop import EngineLoop
from hotset.engines.fake.profiles import PROFILES
from tests.support.fake_engines import Folders, ask, fake_loop

PLAIN = PROFILES["plain"].timing


def registered(folders: Folders, loop: EngineLoop, *names: str) -> list[AdapterKey]:
    return [loop.tiers.add(name, folders.weights[name], loop.in_use()) for name in names]


def step_texts(loop: EngineLoop) -> dict[str, str]:
    return {event.request_id: event.text for event in loop.step().events if isinstance(event, Delta)}


def test_rows_of_the_base_go_astray_only_beside_adapters_and_only_where_they_are_to() -> None:
    for strays in (False, True):
        folders = Folders(a=1, b=1)
        loop = fake_loop(folders)
        loop.flaws.base_rows_stray = strays
        a, b = registered(folders, loop, "a", "b")
        loop.add(ask("base", max_tokens=9), None)
        alone = step_texts(loop)["base"]
        assert alone == loop.answerer.token("", "a b c d", 0)
        loop.add(ask("a"), a)
        loop.add(ask("b"), b)
        mark = folders.weights["b"].mark if strays else ""
        assert step_texts(loop)["base"] == loop.answerer.token(mark, "a b c d", 1)


def test_nan_spreads_from_the_first_request_for_its_adapter_on() -> None:
    folders = Folders(a=1)
    loop = fake_loop(folders)
    (a,) = registered(folders, loop, "a")
    loop.flaws.nan_adapters.add(a)
    loop.add(ask("before", max_tokens=1), None)
    assert step_texts(loop)["before"]
    loop.add(ask("r", max_tokens=1), a)
    loop.step()
    loop.add(ask("after", max_tokens=1), None)
    assert step_texts(loop) == {"after": ""}


def test_what_was_loaded_in_place_is_read_again_for_each_of_its_steps() -> None:
    folders = Folders(a=3)
    loop = fake_loop(folders)
    (a,) = registered(folders, loop, "a")
    loop.add(ask("r", max_tokens=9), a)
    loop.step()
    steady_s = loop.step().seconds
    loop.flaws.loaded_in_place.add(a)
    assert loop.step().seconds - steady_s == pytest.approx(PLAIN.of_read(3 << 20))
    assert folders.num_reads == 1


def test_a_pinned_slot_is_never_taken_and_pins_in_all_of_them_are_fatal() -> None:
    folders = Folders(a=1, b=1, c=1)
    loop = fake_loop(folders, num_host=3)
    a, b, c = registered(folders, loop, "a", "b", "c")
    for key in (a, b):
        loop.tiers.bring(key, ())
    loop.tiers.pin(a)
    loop.tiers.bring(c, ())
    assert loop.tiers.in_slots() == [a, c]
    loop.tiers.pin(c)
    loop.add(ask("r"), b)
    with pytest.raises(LoadFailedError, match="pinned"):
        loop.step()


def test_a_copy_beside_the_steps_holds_up_its_own_requests_alone() -> None:
    """SGLang 0.5.23, `srt/lora/lora_overlap_loader.py`: host to slot; what comes from disk stops the loop as ever."""
    folders = Folders(a=200)
    loop = fake_loop(folders, num_slots=1, overlaps_copies=True)
    (a,) = registered(folders, loop, "a")
    loop.add(ask("base", max_tokens=99), None)
    loop.step()
    steady_s = loop.step().seconds
    copy_s = PLAIN.of_load(200 << 20, "host")
    loop.add(ask("r", max_tokens=1), a)
    waited_s = 0.0
    while "r" not in (texts := step_texts(loop)):
        assert "base" in texts
        waited_s += steady_s
    assert waited_s == pytest.approx(copy_s, abs=2 * steady_s)


def test_a_copy_that_nothing_runs_beside_takes_its_time() -> None:
    folders = Folders(a=200)
    loop = fake_loop(folders, num_slots=1, overlaps_copies=True)
    (a,) = registered(folders, loop, "a")
    loop.add(ask("r", max_tokens=1), a)
    taken = loop.step()
    assert (taken.events, taken.seconds) == ([], pytest.approx(PLAIN.of_load(200 << 20, "host")))
    assert "r" in step_texts(loop)
