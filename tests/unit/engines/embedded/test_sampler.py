"""The sampler against plain-Python arithmetic, one row at a time."""

import math
import random
from collections import Counter
from typing import Any

import pytest
import torch

from hotset.core.messages import Sampling
from hotset.engines.embedded.sampler import SamplingState, sample

_VOCAB = 12


def make_logits(rows: int = 1, seed: int = 0, vocab: int = _VOCAB) -> torch.Tensor:
    return torch.randn((rows, vocab), generator=torch.Generator().manual_seed(seed)) * 2


def start(index: int = 0, prompt: tuple[int, ...] = (), **fields: Any) -> SamplingState:
    return SamplingState.start(Sampling(**fields), prompt, index, engine_seed=99)


def softmax(values: list[float]) -> list[float]:
    largest = max(values)
    weights = [math.exp(value - largest) for value in values]
    return [weight / sum(weights) for weight in weights]


def expected_distribution(logits: list[float], sampling: Sampling) -> list[float]:
    """Probabilities after temperature, min_p, top_k and top_p, in that order."""
    values = [value / sampling.temperature for value in logits]
    floor = max(softmax(values)) * sampling.min_p
    values = [v if p >= floor else -math.inf for v, p in zip(values, softmax(values), strict=True)]
    order = sorted(range(len(values)), key=lambda token: -values[token])
    if sampling.top_k:
        order = order[: sampling.top_k]
    kept = softmax([values[token] for token in order])
    chosen: list[int] = []
    total = 0.0
    for token, probability in zip(order, kept, strict=True):
        if total >= sampling.top_p:
            break
        chosen.append(token)
        total += probability
    return softmax([values[token] if token in chosen else -math.inf for token in range(len(values))])


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 1.0},
        {"temperature": 0.5},
        {"temperature": 2.0, "top_k": 3},
        {"temperature": 1.0, "top_p": 0.7},
        {"temperature": 1.3, "min_p": 0.2},
        {"temperature": 1.0, "top_k": 5, "top_p": 0.6, "min_p": 0.05},
        {"temperature": 1.0, "top_p": 1e-9},
        {"temperature": 1.0, "top_k": 1},
    ],
)
def test_draws_follow_the_distribution(fields: dict[str, Any]) -> None:
    logits = make_logits()
    count = 4000
    states = [start(index, **fields) for index in range(count)]
    drawn = Counter(sampled.token for sampled in sample(logits.repeat(count, 1), states))
    wanted = expected_distribution(logits[0].tolist(), Sampling(**fields))
    for token, probability in enumerate(wanted):
        spread = math.sqrt(probability * (1 - probability) / count)
        assert abs(drawn[token] / count - probability) <= 4 * spread + 1e-12, token


def test_a_wide_nucleus_is_sorted_whole() -> None:
    """With a flat distribution over many tokens the first guess of the nucleus is too small."""
    logits = torch.zeros((1, 5000))
    states = [start(index, temperature=1.0, top_p=0.9) for index in range(400)]
    drawn = {sampled.token for sampled in sample(logits.repeat(400, 1), states)}
    assert len(drawn) > 300


def test_greedy_takes_the_largest() -> None:
    logits = make_logits(5)
    expected = logits.argmax(dim=-1).tolist()
    assert [sampled.token for sampled in sample(logits, [start(temperature=0.0)] * 5)] == expected


def test_a_tiny_temperature_is_greedy_and_finite() -> None:
    logits = make_logits() * 1e6
    assert sample(logits.clone(), [start(temperature=1e-30)])[0].token == int(logits.argmax())


def test_a_seed_gives_the_same_whoever_is_in_the_batch() -> None:
    rows = [make_logits(seed=number) for number in range(6)]
    alone, together = start(seed=7), start(seed=7)
    mates = [start(seed=number) for number in range(3)]
    first = [sample(row.clone(), [alone])[0].token for row in rows]
    second: list[int | None] = []
    for row in rows:
        batch = torch.cat((make_logits(2, seed=50), row, make_logits(1, seed=51)))
        second.append(sample(batch, [mates[0], mates[1], together, mates[2]])[2].token)
    assert first == second


def test_choices_of_one_seed_differ() -> None:
    streams = [
        [sample(torch.zeros((1, 1000)), [state])[0].token for _ in range(5)]
        for state in (start(0, seed=7), start(1, seed=7), start(0, seed=8))
    ]
    assert len({tuple(stream) for stream in streams}) == 3


def test_without_a_seed_the_engine_s_own_is_used() -> None:
    first, second = start(), SamplingState.start(Sampling(), (), 0, engine_seed=100)
    flat = torch.zeros((1, 10000))
    assert sample(flat.clone(), [first])[0].token != sample(flat.clone(), [second])[0].token


@pytest.mark.parametrize("seed", range(5))
def test_penalties_match_the_plain_formula(seed: int) -> None:
    chance = random.Random(seed)
    logits = make_logits(seed=seed)
    fields = {
        "temperature": 0.0,
        "presence_penalty": chance.uniform(-2, 2),
        "frequency_penalty": chance.uniform(-2, 2),
        "repetition_penalty": chance.uniform(0.5, 2),
        "logprobs": 0,
    }
    prompt = tuple(chance.choices(range(_VOCAB), k=4))
    answer = chance.choices(range(_VOCAB), k=6)
    state = start(prompt=prompt, **fields)
    for token in answer:
        state.note(token)
    expected: list[float] = []
    for token, value in enumerate(logits[0].tolist()):
        if token in prompt or token in answer:
            penalty = fields["repetition_penalty"]
            value = value / penalty if value > 0 else value * penalty
        value -= answer.count(token) * fields["frequency_penalty"]
        value -= (token in answer) * fields["presence_penalty"]
        expected.append(value)
    penalised = logits.clone()
    assert sample(penalised, [state])[0].token == max(range(_VOCAB), key=lambda token: expected[token])
    assert penalised[0].tolist() == pytest.approx(expected, abs=1e-5)


def test_penalties_touch_their_own_row_only() -> None:
    logits = make_logits(2)
    before = logits[1].clone()
    state = start(temperature=0.0, presence_penalty=2.0)
    state.note(3)
    sample(logits, [state, start(temperature=0.0)])
    assert torch.equal(logits[1], before)


def test_logprobs_are_of_the_raw_distribution() -> None:
    logits = make_logits(2)
    raw = torch.log_softmax(logits, dim=-1)
    state = start(temperature=0.0, frequency_penalty=2.0, logprobs=3)
    state.note(int(logits[1].argmax()))
    plain, penalised = sample(logits.clone(), [start(temperature=0.0), state])
    assert plain.logprobs is None
    assert penalised.token is not None
    assert penalised.logprobs is not None
    assert penalised.logprobs.logprob == pytest.approx(float(raw[1, penalised.token]))
    assert penalised.logprobs.top_ids == raw[1].topk(3).indices.tolist()
    assert penalised.logprobs.top_logprobs == pytest.approx(raw[1].topk(3).values.tolist())


def test_logprobs_of_no_alternatives() -> None:
    sampled = sample(make_logits(), [start(temperature=0.0, logprobs=0)])[0]
    assert sampled.logprobs is not None
    assert sampled.logprobs.top_ids == []


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_that_is_not_finite_fails_alone(bad: float, temperature: float) -> None:
    logits = make_logits(3)
    expected = sample(logits[:1].clone(), [start(seed=1, temperature=temperature)])[0].token
    logits[1, 4] = bad
    states = [start(seed=1, temperature=temperature, top_p=1.0, logprobs=2) for _ in range(3)]
    first, failed, last = sample(logits, states)
    assert first.token == expected
    assert failed.token is None
    assert last.token is not None


@pytest.mark.parametrize("top_p", [1e-300, 5e-324, 1e-46])
def test_a_top_p_that_float32_can_not_hold_keeps_the_likeliest(top_p: float) -> None:
    """Where nothing is kept there is nothing to draw from, and an id past the vocabulary ends the engine."""
    logits = make_logits(rows=2)
    states = [start(temperature=2.0, top_p=top_p), start(temperature=2.0, top_p=top_p, top_k=3, min_p=0.5)]
    assert [sampled.token for sampled in sample(logits.clone(), states)] == logits.argmax(dim=-1).tolist()


@pytest.mark.parametrize("fields", [{}, {"top_p": 0.5}, {"min_p": 0.1}, {"presence_penalty": -2.0}])
def test_a_penalty_that_enlarges_huge_logits_stays_in_the_vocabulary(fields: dict[str, Any]) -> None:
    logits = torch.full((2, _VOCAB), -1e37)
    logits[:, :2] = torch.tensor([3e37, 3e37])
    neighbour = make_logits()[0]
    logits[1] = neighbour
    state = start(temperature=1.0, repetition_penalty=0.01, prompt=(0, 1), **fields)
    state.note(0)
    huge, beside = sample(logits, [state, start(temperature=0.0)])
    assert huge.token in {0, 1}
    assert beside.token == int(neighbour.argmax())
