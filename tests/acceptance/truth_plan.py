"""Which request goes where and when in `fleet_truth`: all of it drawn beforehand, the same for the same seed."""

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hotset.bench.traces import RATES_FILE, WINDOW_S, RateWindow, read_rates
from hotset.bench.workloads import LocalityShape, ServegenShape, locality, scaled_rates, servegen
from tests.acceptance.truth_world import TENANTS, Model, World

_BASE_SHARE, _SHARED_SHARE, _FOREIGN_SHARE, _STREAM_SHARE = 0.08, 0.25, 0.02, 0.5
#: First-token budgets of requests, in milliseconds; None is none.
_BUDGETS_MS = (None, None, None, 2000, 2000, 60)


@dataclass(frozen=True)
class Planned:
    """One request."""

    at_s: float
    model: Model
    prompt: int
    gateway: str
    is_stream: bool
    budget_ms: int | None
    #: Whether it asks for what it may not call.
    is_foreign: bool = False


@dataclass(frozen=True)
class PlanShape:
    """How much, and of what."""

    minutes: float
    #: Requests a second.
    rate: float
    num_prompts: int
    gateways: tuple[str, ...]
    #: Folder of the traces; None draws the locality mix instead.
    traces: Path | None


def plan(world: World, shape: PlanShape, rng: random.Random) -> list[Planned]:
    """Draw all requests: arrivals and popularity as in ServeGen, the rest evenly.

    Raises:
        ConfigError: the traces can't be read.
    """
    count = len(world.adapters)
    arrivals = _locality(shape, count, rng) if shape.traces is None else _servegen(shape, shape.traces, count, rng)
    return [_request(world, shape, at_s, number, rng) for at_s, number in arrivals]


def _request(world: World, shape: PlanShape, at_s: float, number: int, rng: random.Random) -> Planned:
    models = world.models_of(number)
    is_foreign = rng.random() < _FOREIGN_SHARE
    if is_foreign:
        model = world.foreign_model(number)
    elif rng.random() < _BASE_SHARE:
        model = world.base_model(rng.choice(TENANTS), rng.choice(list(world.bases)))
    else:
        model = models[-1] if rng.random() < _SHARED_SHARE else models[0]
    return Planned(
        at_s=at_s,
        model=model,
        prompt=rng.randrange(shape.num_prompts),
        gateway=rng.choice(shape.gateways),
        is_stream=rng.random() < _STREAM_SHARE,
        budget_ms=rng.choice(_BUDGETS_MS),
        is_foreign=is_foreign,
    )


def _servegen(shape: PlanShape, traces: Path, count: int, rng: random.Random) -> list[tuple[float, int]]:
    """Return arrivals and adapters: the busiest clients of the span are the adapters, in the order of their rates."""
    num_windows = math.ceil(shape.minutes * 60 / WINDOW_S)
    part = ServegenShape(hours=num_windows * WINDOW_S / 3600, rate=shape.rate)
    windows = read_rates(traces / RATES_FILE, part.pools)
    clients = _busiest(scaled_rates(windows, part), count)
    number_of = {f"{pool}-{client}": number for number, (pool, client) in enumerate(clients)}
    chosen = [window for window in windows if (window.pool, window.client) in clients]
    requests = servegen(chosen, part, rng).requests
    return [(r.at_s, number_of[r.tenant]) for r in requests if r.at_s < shape.minutes * 60]


def _busiest(rates: Sequence[tuple[RateWindow, float]], count: int) -> list[tuple[str, str]]:
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for window, rate in rates:
        sums[window.pool, window.client] += rate
    return sorted(sums, key=lambda client: (-sums[client], client))[:count]


def _locality(shape: PlanShape, count: int, rng: random.Random) -> list[tuple[float, int]]:
    num_requests = round(shape.minutes * 60 * shape.rate)
    mix = LocalityShape(num_requests=num_requests, num_adapters=count, num_tenants=count, rate=shape.rate)
    return [(request.at_s, int(request.adapter.rpartition("-")[2])) for request in locality(mix, rng).requests]
