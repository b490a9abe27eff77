"""The next token of every row of a step, and the log-probabilities that were asked for.

Order: log-probabilities of the raw distribution; repetition, then frequency and presence penalties; temperature;
min_p; top_k; top_p; one draw. Greedy rows take the largest penalised logit. A row draws from its own generator,
so what a seed gives does not depend on who else is in the batch.
Source: OpenAI API reference (frequency and presence penalties count the answer so far); CTRL (arXiv 1909.05858) for
the repetition penalty, over prompt and answer; min_p: arXiv 2407.01082.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from hotset.core.messages import Sampling

#: Below this temperature the distribution is a point for float32 anyway.
_TEMPERATURE_MIN = 1e-5
#: Finite float32, with room for the other penalties.
_LOGIT_MAX = 1e38
#: Likeliest tokens that are sorted first; rows whose top_p reaches further are sorted whole.
_NUCLEUS_GUESS = 256


@dataclass(slots=True)
class SamplingState:
    """How one choice samples, with what its next draw depends on."""

    sampling: Sampling
    random: random.Random
    #: Distinct tokens of the prompt; kept only where the repetition penalty is on.
    prompt_tokens: frozenset[int] = frozenset()
    #: Tokens of the answer; kept only where a penalty is on.
    counts: Counter[int] = field(default_factory=Counter[int])

    @classmethod
    def start(cls, sampling: Sampling, prompt: Sequence[int], index: int, engine_seed: int) -> "SamplingState":
        """Return the state before the first token of choice `index`."""
        seed = engine_seed if sampling.seed is None else sampling.seed
        prompt_tokens = frozenset(prompt) if sampling.repetition_penalty != 1.0 else frozenset[int]()
        return cls(sampling, random.Random(f"{seed}/{index}"), prompt_tokens)  # noqa: S311 -- not a secret

    @property
    def has_penalty(self) -> bool:
        """Whether earlier tokens change the next one's odds."""
        wanted = self.sampling
        return bool(wanted.presence_penalty or wanted.frequency_penalty or wanted.repetition_penalty != 1.0)

    def note(self, token: int) -> None:
        """Count a sampled token."""
        if self.has_penalty:
            self.counts[token] += 1


@dataclass(frozen=True, slots=True)
class RowLogprobs:
    """Natural-log probabilities of one sampled token and of the likeliest ones."""

    logprob: float
    top_ids: list[int]
    top_logprobs: list[float]


@dataclass(frozen=True, slots=True)
class Sampled:
    """One row's outcome; `token` is None where the row's logits were not finite."""

    token: int | None
    logprobs: RowLogprobs | None = None


def sample(logits: torch.Tensor, states: Sequence[SamplingState]) -> list[Sampled]:
    """Choose a token for each row.

    Args:
        logits: float32 [num_rows, vocab_size]; changed in place.
        states: One a row.
    """
    # A sum is finite only if every logit is (they are far too small to overflow it), and is one pass.
    finite: list[bool] = torch.isfinite(logits.sum(dim=-1)).tolist()
    if not all(finite):
        logits[~torch.tensor(finite)] = 0.0
    logged = [row for row, state in enumerate(states) if state.sampling.logprobs is not None]
    raw = torch.log_softmax(logits[logged], dim=-1) if logged else None
    _penalise(logits, states)
    tokens: list[int] = logits.argmax(dim=-1).tolist()
    drawn = [row for row, state in enumerate(states) if state.sampling.temperature > 0]
    if drawn:
        for row, token in zip(drawn, _draw(logits[drawn], [states[row] for row in drawn]), strict=True):
            tokens[row] = token
    logprobs: dict[int, RowLogprobs] = {}
    if raw is not None:
        for position, row in enumerate(logged):
            logprobs[row] = _read_logprobs(raw[position], tokens[row], states[row].sampling.logprobs or 0)
    return [Sampled(token, logprobs.get(row)) if finite[row] else Sampled(None) for row, token in enumerate(tokens)]


def _read_logprobs(row: torch.Tensor, token: int, num_top: int) -> RowLogprobs:
    values, ids = torch.topk(row, min(num_top, len(row)))
    return RowLogprobs(float(row[token]), ids.tolist(), values.tolist())


def _penalise(logits: torch.Tensor, states: Sequence[SamplingState]) -> None:
    for row, state in enumerate(states):
        if not state.has_penalty:
            continue
        wanted = state.sampling
        values = logits[row]
        if wanted.repetition_penalty != 1.0:
            seen = torch.tensor(sorted(state.prompt_tokens.union(state.counts)), dtype=torch.int64)
            seen_values = values[seen]
            penalised = torch.where(
                seen_values > 0, seen_values / wanted.repetition_penalty, seen_values * wanted.repetition_penalty
            )
            # A penalty under 1 enlarges; two infinities in one row would leave nothing to draw from.
            values[seen] = penalised.clamp(-_LOGIT_MAX, _LOGIT_MAX)
        if state.counts:
            ids = torch.tensor(list(state.counts))
            counts = torch.tensor(list(state.counts.values()), dtype=torch.float32)
            values[ids] -= wanted.frequency_penalty * counts + wanted.presence_penalty


def _draw(logits: torch.Tensor, states: Sequence[SamplingState]) -> list[int]:
    wanted = [state.sampling for state in states]
    temperatures = torch.tensor([[max(each.temperature, _TEMPERATURE_MIN)] for each in wanted])
    # The largest becomes 0 before the division, so that no temperature overflows.
    logits = (logits - logits.amax(dim=-1, keepdim=True)) / temperatures
    if any(each.min_p > 0 for each in wanted):
        floors = torch.tensor([[each.min_p] for each in wanted]).log()
        logits = logits.masked_fill(logits < floors, float("-inf"))
    narrowed = [row for row, each in enumerate(wanted) if each.top_k > 0 or each.top_p < 1.0]
    if narrowed:
        logits[narrowed] = _narrow(logits[narrowed], [wanted[row] for row in narrowed])
    cumulative = torch.softmax(logits, dim=-1).double().cumsum(dim=-1)
    points = torch.tensor([[state.random.random()] for state in states], dtype=torch.float64)
    points *= cumulative[:, -1:]
    tokens = torch.searchsorted(cumulative, points, right=True)
    # Rounding can put a point on the very end; the last token that has any probability is the right one then.
    lasts = torch.searchsorted(cumulative, cumulative[:, -1:].contiguous())
    return torch.minimum(tokens, lasts)[:, 0].tolist()


def _narrow(logits: torch.Tensor, wanted: Sequence[Sampling]) -> torch.Tensor:
    """Return logits with -inf outside each row's top_k and top_p."""
    vocab_size = logits.shape[1]
    guess = min(vocab_size, max(_NUCLEUS_GUESS, *(each.top_k for each in wanted)))
    kept, is_enough = _keep(logits, wanted, guess)
    if not is_enough:
        kept, _ = _keep(logits, wanted, vocab_size)
    return kept


def _keep(logits: torch.Tensor, wanted: Sequence[Sampling], count: int) -> tuple[torch.Tensor, bool]:
    """Narrow by the `count` likeliest tokens; say whether they were enough to tell."""
    values, ids = torch.topk(logits, count, sorted=True)
    ranks = torch.arange(count)
    limits = torch.tensor([[each.top_k if each.top_k > 0 else logits.shape[1]] for each in wanted])
    inside = ranks < limits
    totals = torch.where(
        limits < logits.shape[1],
        values.masked_fill(~inside, float("-inf")).logsumexp(dim=-1, keepdim=True),
        logits.logsumexp(dim=-1, keepdim=True),
    )
    probabilities = (values - totals).exp().masked_fill(~inside, 0.0)
    cumulative = probabilities.cumsum(dim=-1)
    shares = torch.tensor([[each.top_p] for each in wanted])
    # A token stays while those before it have not yet reached top_p; the first always does, also where top_p is so
    # small that float32 makes it 0.
    inside &= (cumulative - probabilities < shares) & torch.isfinite(values)
    inside[:, 0] = True
    is_open = (limits[:, 0] > count) & (cumulative[:, -1] < shares[:, 0])
    result = torch.full_like(logits, float("-inf"))
    result.scatter_(1, ids, values.masked_fill(~inside, float("-inf")))
    return result, count == logits.shape[1] or not bool(is_open.any())
