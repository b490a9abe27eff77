"""How the embedded engine answers requests: parameters, text, limits, aborts, and what it says of itself."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from hotset.core.errors import ContextLengthExceededError, LoadFailedError
from hotset.core.ids import RequestId
from hotset.core.messages import Message, Sampling, Score
from hotset.engines.embedded.engine import EmbeddedEngine
from tests.support.adapters import tiny_base_shape
from tests.support.bases import make_tiny_base, tiny_tokenizer
from tests.support.embedded import GREEDY, Driver, Reference, engine_name, generate, load, make_adapters, make_engine

pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
_SHAPE = tiny_base_shape()
_PROMPT = tuple(range(40, 60))
_ALTERNATING = (
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}{{ m['content'] }}{% endfor %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("embedded")
    make_tiny_base(root / "base", seed=5)
    make_adapters(root, _SHAPE)
    return root


@pytest.fixture(scope="module")
def shared_engine(folder: Path) -> EmbeddedEngine:
    engine = make_engine(folder / "base", _SHAPE)
    load(engine, folder / "all", engine_name(1))
    load(engine, folder / "some", engine_name(2))
    return engine


@pytest.fixture
def driver(shared_engine: EmbeddedEngine) -> Iterator[Driver]:
    """A driver whose engine must be empty again at the end."""
    yield Driver(shared_engine)
    inventory = shared_engine.inventory()
    assert inventory.running == ()
    assert inventory.kv_blocks_used == 0
    assert shared_engine.cache.is_clear(range(inventory.kv_blocks_total + 1)), "what requests left was erased"


def test_facts(shared_engine: EmbeddedEngine) -> None:
    facts = shared_engine.facts
    assert facts.dtype == "float32"
    assert facts.hardware_class.startswith("cpu-")
    assert (facts.num_slots, facts.rank_max, facts.num_sequences_max) == (4, 16, 16)
    assert facts.model_len_max == 1024


def test_a_request_starts_streams_and_finishes(driver: Driver) -> None:
    answer = driver.run([generate("a", prompts=(_PROMPT,))])[0]
    assert answer.started
    assert answer.finished is not None
    assert (answer.finished.prompt_tokens, answer.finished.completion_tokens) == (20, 12)
    assert sum(delta.num_tokens for delta in answer.deltas) == 12
    assert answer.reason() == "length"


def test_several_prompts_and_samples_are_counted_and_numbered(driver: Driver) -> None:
    answer = driver.run([generate("a", prompts=(_PROMPT, "the hen"), n=2)])[0]
    assert answer.finished is not None
    assert answer.finished.prompt_tokens == 20 + len(tiny_tokenizer().encode("the hen").ids)
    assert answer.finished.completion_tokens == 48
    assert [answer.reason(index) for index in range(4)] == ["length"] * 4
    assert answer.text(0) == answer.text(1) != answer.text(2) == answer.text(3)


def test_seeds_reproduce_beside_other_requests(driver: Driver) -> None:
    sampling = Sampling(temperature=1.0, seed=3, max_tokens=10, ignore_eos=True)
    alone = driver.run([generate("a", None, sampling, prompts=(_PROMPT,), n=3)])[0]
    noise = [generate(f"n{number}", None, Sampling(max_tokens=6), prompts=(_PROMPT,)) for number in range(5)]
    together = driver.run([*noise, generate("b", None, sampling, prompts=(_PROMPT,), n=3)])[-1]
    assert together.tokens == alone.tokens
    assert len({tuple(tokens) for tokens in alone.tokens.values()}) == 3


def test_a_chat_is_rendered_with_the_base_s_template(driver: Driver) -> None:
    messages = (Message(role="system", content="be brief"), Message(role="user", content="héllo"))
    answer = driver.run([generate("a", messages=messages)])[0]
    rendered = "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nhéllo<|im_end|>\n<|im_start|>assistant\n"
    expected = tiny_tokenizer().encode(rendered, add_special_tokens=False).ids
    assert answer.tokens[0][: len(expected)] == expected


def test_the_end_token_stops_and_is_not_shown(folder: Path, driver: Driver) -> None:
    reference = driver.run([generate("a", prompts=(_PROMPT,))])[0]
    continuation = reference.tokens[0][20:]
    end = next(token for token in continuation if token < 256)
    settings = folder / "base" / "generation_config.json"
    settings.write_text(json.dumps({"eos_token_id": [end, 264]}))
    try:
        engine = make_engine(folder / "base", _SHAPE)
    finally:
        settings.unlink()
    sampling = Sampling(temperature=0.0, max_tokens=12)
    answer = Driver(engine).run([generate("a", None, sampling, prompts=(_PROMPT,))])[0]
    assert answer.reason() == "stop"
    assert answer.tokens[0][20:] == continuation[: continuation.index(end) + 1]
    assert answer.finished is not None
    assert answer.finished.completion_tokens == continuation.index(end) + 1
    ignoring = Driver(engine).run([generate("b", prompts=(_PROMPT,))])[0]
    assert ignoring.tokens[0][20:] == continuation


def test_stop_strings_end_the_text_before_them(driver: Driver) -> None:
    sampling = Sampling(temperature=1.2, seed=5, max_tokens=60, ignore_eos=True)
    whole = driver.run([generate("a", None, sampling, prompts=(_PROMPT,))])[0].text()
    stop = whole[5:9]
    stopping = Sampling(temperature=1.2, seed=5, max_tokens=60, ignore_eos=True, stop=("never there", stop))
    answer = driver.run([generate("b", None, stopping, prompts=(_PROMPT,))])[0]
    assert answer.text() == whole[: whole.index(stop)]
    assert answer.reason() == "stop"


def test_text_is_whole_characters_at_every_delta(driver: Driver) -> None:
    sampling = Sampling(temperature=1.5, seed=1, max_tokens=100, logprobs=0, ignore_eos=True)
    answer = driver.run([generate("a", None, sampling, prompts=(_PROMPT,))])[0]
    tokens = [each.content for delta in answer.deltas for each in delta.logprobs or ()]
    content = b"".join(token for token in tokens if token[:2] != b"<|")
    whole = content.decode(errors="replace")
    assert answer.text() in (whole, whole.removesuffix("�"))


def test_logprobs_are_the_reference_s(folder: Path, driver: Driver) -> None:
    sampling = Sampling(temperature=0.0, max_tokens=5, logprobs=3, frequency_penalty=1.5, ignore_eos=True)
    answer = driver.run([generate("a", engine_name(1), sampling, prompts=(_PROMPT,))])[0]
    logits = Reference(folder / "base").logits(answer.tokens[0], folder / "all")
    expected = torch.log_softmax(logits, dim=-1)
    for position, delta in enumerate(answer.deltas):
        assert delta.logprobs is not None
        row = expected[19 + position]
        assert delta.logprobs[0].logprob == pytest.approx(float(row[answer.tokens[0][20 + position]]), abs=1e-3)
        assert [top.logprob for top in delta.logprobs[0].top] == pytest.approx(row.topk(3).values.tolist(), abs=1e-3)


def test_penalties_reach_the_whole_answer(driver: Driver) -> None:
    plain = driver.run(
        [generate("a", None, Sampling(temperature=0, max_tokens=80, ignore_eos=True), prompts=(_PROMPT,))]
    )
    strong = Sampling(temperature=0, max_tokens=80, ignore_eos=True, frequency_penalty=2, presence_penalty=2)
    penalised = driver.run([generate("b", None, strong, prompts=(_PROMPT,))])
    assert len(set(penalised[0].tokens[0][20:])) > len(set(plain[0].tokens[0][20:]))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"min_p": 1.5}, "min_p"),
        ({"presence_penalty": 3.0}, "presence_penalty"),
        ({"frequency_penalty": -3.0}, "frequency_penalty"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": -1}, "logprobs"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stop": ("",)}, "stop"),
        ({"stop": ("a", "b", "c", "d", "e")}, "stop"),
    ],
)
def test_parameters_out_of_range_fail_the_request(driver: Driver, fields: dict[str, Any], param: str) -> None:
    answer = driver.add(generate("a", None, Sampling(**fields), prompts=(_PROMPT,)))
    assert answer.failed is not None
    assert (answer.failed.code, answer.failed.param) == ("invalid_request", param)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "messages"),
        ({"messages": ()}, "messages"),
        ({"messages": (Message(role="user", content="a"),), "prompts": ("a",)}, "messages"),
        ({"prompts": ()}, "prompt"),
        ({"prompts": ("",)}, "prompt"),
        ({"prompts": ((),)}, "prompt"),
        ({"prompts": ((1, 320),)}, "prompt"),
        ({"prompts": ((-1,),)}, "prompt"),
        ({"prompts": ("\ud800",)}, "prompt"),
        ({"prompts": ("a",), "n": 0}, "n"),
        ({"prompts": ("a",), "n": 17}, "n"),
    ],
)
def test_malformed_requests_fail_alone(driver: Driver, fields: dict[str, Any], param: str) -> None:
    answer = driver.add(generate("a", **fields))
    assert answer.failed is not None
    assert (answer.failed.code, answer.failed.param) == ("invalid_request", param)
    assert driver.run([generate("b", prompts=(_PROMPT,))])[0].finished is not None


def test_a_name_that_is_not_loaded_never_means_the_base(driver: Driver) -> None:
    answer = driver.add(generate("a", engine_name(77), prompts=(_PROMPT,)))
    assert answer.failed is not None
    assert answer.failed.code == "load_failed"


def test_one_id_cannot_run_twice(driver: Driver) -> None:
    driver.add(generate("a", prompts=(_PROMPT,)))
    again = driver.engine.add(generate("a", prompts=(_PROMPT,)))
    assert [event.code for event in again] == ["invalid_request"]
    driver.run()


@pytest.mark.parametrize(
    ("prompt", "max_tokens"),
    [((65,) * 1024, None), ((65,) * 1000, 25), ((65,) * 2000, 1), ("a" * 100_000, 1), ("é" * 1024, None)],
)
def test_what_does_not_fit_the_context_fails(driver: Driver, prompt: Any, max_tokens: int | None) -> None:
    answer = driver.add(generate("a", None, Sampling(max_tokens=max_tokens), prompts=(prompt,)))
    assert answer.failed is not None
    assert answer.failed.code == "context_length_exceeded"


def test_the_last_token_of_the_context_is_served(driver: Driver) -> None:
    long = tuple(random.Random(2).randrange(256) for _ in range(1020))
    answer = driver.run([generate("a", None, Sampling(temperature=0, ignore_eos=True), prompts=(long,))])[0]
    assert answer.reason() == "length"
    assert len(answer.tokens[0]) == 1024


def test_a_full_queue_refuses_and_serves_what_it_has(folder: Path) -> None:
    engine = make_engine(folder / "base", _SHAPE, num_waiting_max=3, num_sequences_max=1)
    driver = Driver(engine)
    accepted = [driver.add(generate(f"{number}", prompts=(_PROMPT,))) for number in range(3)]
    refused = driver.add(generate("late", prompts=(_PROMPT,)))
    assert refused.failed is not None
    assert refused.failed.code == "too_many_requests"
    driver.run()
    assert all(answer.finished for answer in accepted)


@pytest.mark.parametrize("num_steps", [0, 1, 2, 4])
def test_abort_frees_everything_at_once(folder: Path, driver: Driver, num_steps: int) -> None:
    long = _PROMPT * 3
    answer = driver.add(generate("a", engine_name(1), prompts=(long, _PROMPT), n=2))
    other = driver.add(generate("b", engine_name(2), prompts=(_PROMPT,)))
    for _ in range(num_steps):
        driver.step()
    driver.engine.abort(RequestId("a"))
    driver.engine.abort(RequestId("a"))
    assert driver.engine.inventory().running == ("b",)
    driver.engine.check()
    driver.engine.unload(engine_name(1))
    driver.run()
    load(driver.engine, folder / "all", engine_name(1))
    assert answer.finished is None
    assert other.finished is not None


def test_a_template_that_refuses_fails_the_request(tmp_path: Path) -> None:
    base = make_tiny_base(tmp_path / "base")
    settings = json.loads((base / "tokenizer_config.json").read_text())
    settings["chat_template"] = _ALTERNATING
    (base / "tokenizer_config.json").write_text(json.dumps(settings))
    driver = Driver(make_engine(base, _SHAPE))
    twice = (Message(role="user", content="a"), Message(role="user", content="b"))
    answer = driver.add(generate("a", messages=twice))
    assert answer.failed is not None
    assert (answer.failed.code, answer.failed.param) == ("invalid_request", "messages")
    assert "roles must alternate" in answer.failed.message
    assert driver.run([generate("b", messages=twice[:1])])[0].finished is not None


def test_a_base_without_a_template_says_so(tmp_path: Path) -> None:
    base = make_tiny_base(tmp_path / "base")
    settings = json.loads((base / "tokenizer_config.json").read_text())
    del settings["chat_template"]
    (base / "tokenizer_config.json").write_text(json.dumps(settings))
    answer = Driver(make_engine(base, _SHAPE)).add(generate("a", messages=(Message(role="user", content="a"),)))
    assert answer.failed is not None
    assert (answer.failed.code, answer.failed.param) == ("invalid_request", "messages")


def test_scores_are_the_reference_s(folder: Path, shared_engine: EmbeddedEngine) -> None:
    text = "the hen and the rest, " * 20
    ids = tiny_tokenizer().encode(text).ids
    reference = Reference(folder / "base")
    for name, adapter in ((None, None), (engine_name(1), folder / "all"), (engine_name(2), folder / "some")):
        scores, short, empty = shared_engine.score(Score(engine_name=name, texts=(text, "a", "")))
        logprobs = torch.log_softmax(reference.logits(ids, adapter), dim=-1)
        expected = [float(logprobs[position, ids[position + 1]]) for position in range(len(ids) - 1)]
        assert scores == pytest.approx(expected, abs=1e-3)
        assert short == empty == []


def test_scoring_what_cannot_be_scored(shared_engine: EmbeddedEngine) -> None:
    with pytest.raises(LoadFailedError):
        shared_engine.score(Score(engine_name=engine_name(77), texts=("a",)))
    with pytest.raises(ContextLengthExceededError):
        shared_engine.score(Score(engine_name=None, texts=("a!" * 1024,)))


def test_bfloat16_answers_like_float32_at_first(folder: Path) -> None:
    """Half precision drifts after a while; the first likeliest token of a clear case does not."""
    answers = []
    for dtype in ("float32", "bfloat16"):
        engine = make_engine(folder / "base", _SHAPE, dtype=dtype)
        load(engine, folder / "all", engine_name(1))
        requests = [generate("a", prompts=(_PROMPT,)), generate("b", engine_name(1), prompts=(_PROMPT,))]
        answers.append([answer.tokens[0][20] for answer in Driver(engine).run(requests)])
    assert answers[0] == answers[1]
    assert GREEDY.max_tokens == 12
