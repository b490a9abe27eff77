"""The fake engine's steps: who is in them, what they bring, how long they take."""

import pytest

from hotset.core.ids import RequestId
from hotset.core.messages import Delta, EngineEvent, Failed, Finished, Started
from hotset.engines.fake.adapter_tiers import AdapterKey
from hotset.engines.fake.loop import EngineLoop
from hotset.engines.fake.profiles import PROFILES
from tests.support.fake_engines import Folders, ask, fake_loop

PLAIN = PROFILES["plain"].timing


def register(loop: EngineLoop, folders: Folders, *names: str) -> list[AdapterKey]:
    return [loop.tiers.add(name, folders.weights[name], loop.in_use()) for name in names]


def run_out(loop: EngineLoop) -> list[EngineEvent]:
    events: list[EngineEvent] = []
    while loop.has_work():
        events += loop.step().events
    return events


def ended(events: list[EngineEvent]) -> list[str]:
    return [event.request_id for event in events if isinstance(event, Finished)]


def text_of(events: list[EngineEvent], request: str) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta) and event.request_id == request)


def test_a_request_starts_brings_a_token_a_step_and_ends() -> None:
    loop = fake_loop(Folders())
    assert loop.add(ask("r", max_tokens=2), None) == [Started(RequestId("r"), 4)]
    first, second = loop.step().events, loop.step().events
    assert [type(event) for event in first + second] == [Delta, Delta, Finished]
    assert isinstance(second[0], Delta)
    assert second[0].finish_reason == "length"
    assert not loop.has_work()
    assert loop.kv_blocks_used == 0


def test_a_step_takes_longer_with_every_sequence_adapter_and_prompt_token() -> None:
    folders = Folders(a=1, b=1)
    loop = fake_loop(folders)
    a, b = register(loop, folders, "a", "b")
    loop.add(ask("r"), None)
    assert loop.step().seconds == pytest.approx(PLAIN.step_s + PLAIN.sequence_s + 4 * PLAIN.prompt_token_s)
    loop.add(ask("s"), a)
    loop.add(ask("t"), b)
    loop.step()  # loads both
    steady_s = PLAIN.step_s + 3 * PLAIN.sequence_s + PLAIN.first_adapter_s + PLAIN.adapter_s
    assert loop.step().seconds == pytest.approx(steady_s)


def test_a_load_stops_the_whole_loop_longer_from_disk_than_from_host_memory() -> None:
    folders = Folders(a=10, b=10, c=10)
    loop = fake_loop(folders, num_slots=1, num_host=2)
    a, b, c = register(loop, folders, "a", "b", "c")  # of three, two have host copies
    assert loop.tiers.in_host() == [b, c]
    seconds = {}
    for key in (c, b, a):
        loop.add(ask("r", max_tokens=1), key)
        seconds[key] = loop.step().seconds
    assert seconds[b] == pytest.approx(seconds[c])
    assert seconds[a] - seconds[b] == pytest.approx(PLAIN.of_read(10 << 20))
    assert seconds[b] > PLAIN.of_load(10 << 20, "host")


def test_what_was_used_last_stays_when_more_adapters_are_asked_for_than_there_are_slots() -> None:
    folders = Folders(a=1, b=1, c=1)
    loop = fake_loop(folders)
    a, b = register(loop, folders, "a", "b")
    for key in (a, b, a):
        loop.add(ask("r"), key)
        run_out(loop)
    (c,) = register(loop, folders, "c")
    assert loop.tiers.in_host() == [a, c], "the least recent one has no host copy any more"
    loop.add(ask("r"), c)
    run_out(loop)
    assert loop.tiers.in_slots() == [a, c]


def test_a_request_whose_adapter_finds_no_slot_is_passed_over() -> None:
    folders = Folders(a=1, b=1, c=1)
    loop = fake_loop(folders, num_host=3)
    a, b, c = register(loop, folders, "a", "b", "c")
    loop.add(ask("first", max_tokens=9), a)
    loop.add(ask("second", max_tokens=9), b)
    loop.add(ask("starved", max_tokens=1), c)
    loop.add(ask("overtakes", max_tokens=1), a)
    assert ended(run_out(loop)) == ["overtakes", "first", "second", "starved"]


def test_the_base_takes_a_slot_with_sglang_and_none_with_the_others() -> None:
    """SGLang 0.5.23, `srt/lora/mem_pool.py`: base-only traffic counts as one of `max_loras_per_batch`."""
    for profile, overlap in (("plain", True), ("vllm", True), ("sglang", False)):
        folders = Folders(a=1)
        loop = fake_loop(folders, profile, num_slots=1)
        (a,) = register(loop, folders, "a")
        loop.add(ask("base", max_tokens=5), None)
        loop.add(ask("adapter", max_tokens=1), a)
        order = ended(run_out(loop))
        assert order == (["adapter", "base"] if overlap else ["base", "adapter"])


def test_a_prompt_is_read_in_pieces_before_its_first_token() -> None:
    loop = fake_loop(Folders(), step_tokens_max=3)
    loop.add(ask("r", max_tokens=1, prompt="a b c d e f g"), None)
    assert [len(loop.step().events) for _ in range(3)] == [0, 0, 2]


def test_what_does_not_fit_waits_and_what_never_fits_fails() -> None:
    block_bytes = (1 << 30) // fake_loop(Folders(), kv_bytes_max=1 << 30).kv_blocks_total
    loop = fake_loop(Folders(), kv_bytes_max=2 * block_bytes, num_waiting_max=3)
    assert loop.kv_blocks_total == 2
    for name in "rst":
        loop.add(ask(name, max_tokens=12), None)
    (refused,) = loop.add(ask("u"), None)
    assert isinstance(refused, Failed)
    assert refused.code == "too_many_requests"
    loop.step()
    assert loop.kv_blocks_used == 2
    assert ended(run_out(loop)) == ["r", "s", "t"]
    (refused,) = loop.add(ask("long", max_tokens=100_000), None)
    assert isinstance(refused, Failed)
    assert refused.code == "context_length_exceeded"


def test_sequences_are_bounded() -> None:
    loop = fake_loop(Folders(), num_sequences_max=2)
    for name in "rst":
        loop.add(ask(name, max_tokens=1), None)
    assert ended(loop.step().events) == ["r", "s"]
    assert ended(loop.step().events) == ["t"]


def test_an_aborted_request_brings_nothing_more() -> None:
    loop = fake_loop(Folders(), num_sequences_max=1)
    loop.add(ask("r"), None)
    loop.add(ask("s"), None)
    loop.step()
    loop.abort(RequestId("r"))
    loop.abort(RequestId("s"))
    loop.abort(RequestId("nobody"))
    assert not loop.has_work()
    assert loop.requests() == ()


def test_an_answer_follows_from_the_adapters_bytes_and_the_prompt() -> None:
    folders = Folders(a=1, b=1)
    loop = fake_loop(folders)
    a, b = register(loop, folders, "a", "b")
    asked = {"base": None, "a": a, "b": b}
    for name, key in asked.items():
        loop.add(ask(name), key)
    loop.add(ask("other", prompt="z"), a)
    events = run_out(loop)
    texts = {name: text_of(events, name) for name in (*asked, "other")}
    assert len(set(texts.values())) == 4
    assert texts["a"] == loop.answerer.text(folders.weights["a"].mark, "a b c d", 3)
    assert texts["base"] == loop.answerer.text("", "a b c d", 3)


def test_weights_loaded_in_place_take_over_in_the_middle_of_an_answer() -> None:
    """Seen on vLLM 0.32.0: `load_inplace` during a stream."""
    folders = Folders(a=1, b=1)
    loop = fake_loop(folders)
    (a,) = register(loop, folders, "a")
    loop.add(ask("r", max_tokens=2), a)
    loop.step()
    loop.tiers.replace(a, "b", folders.weights["b"])
    last = loop.step().events[0]
    assert isinstance(last, Delta)
    assert last.text == loop.answerer.token(folders.weights["b"].mark, "a b c d", 1)


def test_a_folder_that_is_gone_is_missed_only_when_the_adapter_comes_back() -> None:
    """vLLM 0.33.0, seen on 0.32.0: the path is read again inside the step, which is the engine's fatal path."""
    folders = Folders(a=1, b=1)
    loop = fake_loop(folders, num_slots=1)
    a, b = register(loop, folders, "a", "b")
    del folders.weights["a"], folders.weights["b"]
    loop.add(ask("r"), b)
    run_out(loop)
    loop.add(ask("s"), a)
    with pytest.raises(FileNotFoundError):
        loop.step()
    assert folders.num_reads == 1
