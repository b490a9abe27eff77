"""Makes request streams to replay: who asks which adapter when. Pure; each maker takes its own randomness.

- *ServeGen* (arXiv 2505.09999): each client is a tenant; in each window of ten minutes it sends as many
  requests as its scaled rate says, with gaps of its fitted family and shape, rescaled to fill the window.
  *Damped* takes the square root of every rate first, which flattens the mix.
- *Arena*: the trace of 27 tenants as it is, one adapter a tenant.
- *Locality*: mostly repeats of what was just asked, else a draw from a Zipf law. Adapter traffic of an image
  service was reported like that: eight slots of LRU hit 83 % where its eight top adapters bring 25 %.
"""

import itertools
import math
import random
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hotset.bench.traces import QUANTILES, WINDOW_S, ArenaLine, RateWindow, TokenLengths
from hotset.core.errors import ConfigError

_WINDOWS_AN_HOUR = 6
#: A workload is held in memory whole.
_REQUESTS_MAX = 5_000_000
#: A gap of a smaller shape could leave the range of floats; one gap then fills the window at either shape.
_WEIBULL_SHAPE_MIN = 0.01
#: Tokens of a request where no lengths are known.
_INPUT_TOKENS, _OUTPUT_TOKENS = 256, 128


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a workload."""

    at_s: float
    tenant: str
    adapter: str
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests in order of arrival."""

    name: str
    requests: tuple[Request, ...]

    @property
    def num_adapters(self) -> int:
        """Distinct adapters asked for."""
        return len({request.adapter for request in self.requests})

    def top_share(self, count: int) -> float:
        """Return the share of all requests that the `count` most popular adapters get."""
        popular = Counter(request.adapter for request in self.requests).most_common(count)
        return sum(number for _, number in popular) / len(self.requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServegenShape:
    """Which part of ServeGen's rates to replay, and how."""

    #: Pools whose clients are mixed, each pool with an equal share of the requests before damping.
    pools: tuple[str, ...] = ("m-small", "m-mid", "m-large")
    #: Hours from the start of the pools' recordings.
    start_h: float = 0.0
    hours: float = 2.0
    #: Mean requests a second over the whole span, of all clients together.
    rate: float = 20.0
    #: Take the square root of every rate before scaling.
    is_damped: bool = False
    adapters_per_tenant: int = 1
    #: Exponent of the Zipf law by which a tenant's requests go to its adapters.
    adapter_skew: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalityShape:
    """The locality mix.

    `repeat_share` and `num_recent` are fitted: with 8 slots, LRU hits 83 % and Belady 86 % of 15,000 requests
    over 874 adapters, where the reported log of that size had 83 % and 87 %. Any `num_recent` up to 8 gives
    LRU about the same; the smaller ones come closer to Belady's figure.
    """

    num_requests: int = 15_000
    num_adapters: int = 874
    num_tenants: int = 100
    #: Probability that a request repeats an adapter of the last `num_recent` requests.
    repeat_share: float = 0.82
    num_recent: int = 4
    #: Exponent of the popularity law of all other requests.
    skew: float = 0.8
    #: Mean requests a second, Poisson.
    rate: float = 20.0


def servegen(
    windows: Sequence[RateWindow],
    shape: ServegenShape,
    rng: random.Random,
    lengths: Mapping[tuple[str, str], TokenLengths] | None = None,
) -> Workload:
    """Draw a ServeGen workload.

    Args:
        windows: Rates of at least the pools asked for.
        shape: Which part, and how.
        rng: The randomness; the same state gives the same workload.
        lengths: Token lengths by (pool, client); a client without any draws as its pool's mean client.

    Raises:
        ConfigError: as `scaled_rates`.
    """
    chosen = scaled_rates(windows, shape)
    split = _zipf_weights(shape.adapters_per_tenant, shape.adapter_skew)
    by_client, requests = _lengths_by_client([window for window, _ in chosen], lengths or {}), list[Request]()
    for window, rate in chosen:
        tenant = f"{window.pool}-{window.client}"
        adapters = [f"{tenant}/{number}" for number in range(shape.adapters_per_tenant)]
        tokens = by_client[window.pool, window.client]
        for at_s in _arrivals(window, rate, rng):
            adapter = adapters[0] if len(adapters) == 1 else rng.choices(adapters, cum_weights=split)[0]
            input_tokens, output_tokens = _draw(tokens.input_tokens, rng), _draw(tokens.output_tokens, rng)
            requests.append(Request(at_s, tenant, adapter, input_tokens, output_tokens))
    requests.sort(key=lambda request: (request.at_s, request.adapter))
    return Workload("servegen-damped" if shape.is_damped else "servegen", tuple(requests))


def scaled_rates(windows: Sequence[RateWindow], shape: ServegenShape) -> list[tuple[RateWindow, float]]:
    """Return the windows of the span, each with the requests a second to replay.

    Over the whole span the rates average `shape.rate`, all clients together.

    Raises:
        ConfigError: no pool is named, one has no traffic in the span, or there would be too many requests.
    """
    if not shape.pools:
        raise ConfigError("No pool of ServeGen is named.")
    num_windows = max(1, round(shape.hours * _WINDOWS_AN_HOUR))
    if (count := shape.rate * num_windows * WINDOW_S) > _REQUESTS_MAX:
        raise ConfigError(f"{count:,.0f} requests are too many to replay; at most {_REQUESTS_MAX:,}.")
    first_s = math.floor(shape.start_h * _WINDOWS_AN_HOUR) * WINDOW_S
    span = [
        window
        for window in windows
        if window.pool in shape.pools and first_s <= window.start_s < first_s + num_windows * WINDOW_S
    ]
    totals = {pool: sum(window.rate for window in span if window.pool == pool) for pool in shape.pools}
    if idle := [pool for pool, total in totals.items() if not total]:
        raise ConfigError(f"{', '.join(idle)} has no traffic within {shape.hours:g} h from hour {shape.start_h:g}.")
    weights = [window.rate / totals[window.pool] for window in span]
    if shape.is_damped:
        weights = [math.sqrt(weight) for weight in weights]
    scale = shape.rate * num_windows / sum(weights)
    return [(window, weight * scale) for window, weight in zip(span, weights, strict=True)]


def arena(lines: Sequence[ArenaLine]) -> Workload:
    """Return the trace of 27 tenants as it is, one adapter a tenant."""
    return Workload(
        "arena-27",
        tuple(
            Request(
                line.at_s, f"tenant-{line.tenant}", f"tenant-{line.tenant}/0", line.input_tokens, line.output_tokens
            )
            for line in lines
        ),
    )


def locality(shape: LocalityShape, rng: random.Random) -> Workload:
    """Draw a locality mix; adapters are dealt to tenants in order of popularity.

    Args:
        shape: Its parameters.
        rng: The randomness; the same state gives the same workload.
    """
    popularity = _zipf_weights(shape.num_adapters, shape.skew)
    recent, requests, at_s = deque[int](maxlen=shape.num_recent), list[Request](), 0.0
    for _ in range(shape.num_requests):
        at_s += rng.expovariate(shape.rate)
        if recent and rng.random() < shape.repeat_share:
            number = rng.choice(recent)
        else:
            number = bisect_left(popularity, rng.random() * popularity[-1])
        recent.append(number)
        adapter = f"adapter-{number}"
        requests.append(Request(at_s, f"tenant-{number % shape.num_tenants}", adapter, _INPUT_TOKENS, _OUTPUT_TOKENS))
    return Workload("locality", tuple(requests))


def _zipf_weights(count: int, skew: float) -> list[float]:
    """Return the cumulative weights of `count` ranks."""
    return list(itertools.accumulate(rank**-skew for rank in range(1, count + 1)))


def _arrivals(window: RateWindow, rate: float, rng: random.Random) -> list[float]:
    """Draw one client's arrivals in one window.

    The gaps fill the window exactly, so they lie on a circle; its start is drawn too. Without that, every
    client would have an arrival on every boundary, all at once.
    """
    count = int(rate * WINDOW_S + rng.random())  # rounds at random, so that rare clients keep their rate
    if not count:
        return []
    if window.gap_family == "G":
        gaps = [rng.gammavariate(window.gap_shape, 1.0) for _ in range(count)]
    else:
        gaps = [rng.weibullvariate(1.0, max(window.gap_shape, _WEIBULL_SHAPE_MIN)) for _ in range(count)]
    total = sum(gaps)
    if total == 0:  # a shape near 0 underflows: one burst is what it means
        gaps, total = [0.0] * count, 1.0
    first = rng.random() * WINDOW_S
    return [window.start_s + (first + passed / total * WINDOW_S) % WINDOW_S for passed in itertools.accumulate(gaps)]


def _lengths_by_client(
    windows: Sequence[RateWindow], lengths: Mapping[tuple[str, str], TokenLengths]
) -> dict[tuple[str, str], TokenLengths]:
    unknown = TokenLengths((float(_INPUT_TOKENS),) * len(QUANTILES), (float(_OUTPUT_TOKENS),) * len(QUANTILES))
    means: dict[str, TokenLengths] = {}
    for pool in sorted({window.pool for window in windows}):
        known = [tokens for (of_pool, _), tokens in lengths.items() if of_pool == pool]
        means[pool] = _mean_client(known) if known else unknown
    return {
        (window.pool, window.client): lengths.get((window.pool, window.client), means[window.pool])
        for window in windows
    }


def _mean_client(known: Sequence[TokenLengths]) -> TokenLengths:
    def mean(columns: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
        return tuple(sum(column) / len(column) for column in zip(*columns, strict=True))

    return TokenLengths(mean([one.input_tokens for one in known]), mean([one.output_tokens for one in known]))


def _draw(quantiles: Sequence[float], rng: random.Random) -> int:
    """Draw a length by straight lines between quantiles; below the first one, the first one; at least 1 token."""
    share = rng.random()
    above = bisect_left(QUANTILES, share)
    if above == 0:
        return max(1, round(quantiles[0]))
    low, high = QUANTILES[above - 1], QUANTILES[above]
    part = (share - low) / (high - low)
    return max(1, round(quantiles[above - 1] + part * (quantiles[above] - quantiles[above - 1])))
