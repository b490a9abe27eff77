import itertools
import random
from collections import Counter
from dataclasses import replace

import pytest

from hotset.bench.traces import QUANTILES, WINDOW_S, ArenaLine, RateWindow, TokenLengths
from hotset.bench.workloads import (
    LocalityShape,
    Request,
    ServegenShape,
    Workload,
    arena,
    locality,
    scaled_rates,
    servegen,
)
from hotset.core.errors import ConfigError


def window(client: str, rate: float, *, pool: str = "p", start_s: float = 0.0, family: str = "G") -> RateWindow:
    return RateWindow(pool, client, start_s, rate, family, 0.5)  # type: ignore[arg-type]


ONE_WINDOW = ServegenShape(pools=("p",), hours=1 / 6, rate=10.0)
CLIENTS = [window("a", 9.0), window("b", 1.0, family="W")]


def rates_of(windows: list[RateWindow], shape: ServegenShape) -> dict[str, float]:
    return {one.client: rate for one, rate in scaled_rates(windows, shape)}


def test_rates_are_scaled_to_the_total_and_keep_their_ratios() -> None:
    assert rates_of(CLIENTS, ONE_WINDOW) == pytest.approx({"a": 9.0, "b": 1.0})
    assert rates_of(CLIENTS, replace(ONE_WINDOW, rate=2.0)) == pytest.approx({"a": 1.8, "b": 0.2})


def test_damped_rates_go_by_the_square_root() -> None:
    assert rates_of(CLIENTS, replace(ONE_WINDOW, is_damped=True)) == pytest.approx({"a": 7.5, "b": 2.5})


def test_the_total_is_a_mean_over_the_span_quiet_windows_too() -> None:
    shape = ServegenShape(pools=("p",), hours=0.5, rate=10.0)
    windows = [window("a", 1.0), window("a", 2.0, start_s=2 * WINDOW_S)]
    assert [rate for _, rate in scaled_rates(windows, shape)] == pytest.approx([10.0, 20.0])


def test_each_pool_brings_the_same_share() -> None:
    windows = [window("a", 100.0), window("b", 3.0, pool="q"), window("c", 1.0, pool="q")]
    assert rates_of(windows, replace(ONE_WINDOW, pools=("p", "q"))) == pytest.approx({"a": 5.0, "b": 3.75, "c": 1.25})


def test_only_the_span_and_the_pools_named_are_replayed() -> None:
    windows = [window("a", 1.0), window("b", 1.0, start_s=WINDOW_S), window("c", 1.0, pool="q", start_s=WINDOW_S)]
    assert set(rates_of(windows, replace(ONE_WINDOW, start_h=1 / 6))) == {"b"}


def test_a_span_without_traffic_no_pool_and_too_many_requests_are_refused() -> None:
    with pytest.raises(ConfigError, match="q has no traffic within"):
        scaled_rates(CLIENTS, replace(ONE_WINDOW, pools=("p", "q")))
    with pytest.raises(ConfigError, match="No pool"):
        scaled_rates(CLIENTS, replace(ONE_WINDOW, pools=()))
    with pytest.raises(ConfigError, match=r"6,000,000 requests are too many"):
        scaled_rates(CLIENTS, replace(ONE_WINDOW, rate=1e4))


def test_servegen_sends_as_many_requests_as_the_rates_say_within_the_window() -> None:
    made = servegen(CLIENTS, ONE_WINDOW, random.Random(1))
    count = Counter(request.adapter for request in made.requests)
    assert count["p-a/0"] == pytest.approx(5400, abs=1)
    assert count["p-b/0"] == pytest.approx(600, abs=1)
    times = [request.at_s for request in made.requests]
    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] < WINDOW_S
    assert {request.tenant for request in made.requests} == {"p-a", "p-b"}


def test_rare_clients_keep_their_rate_on_average() -> None:
    rare = [window(str(number), 1.0) for number in range(2000)]
    made = servegen(rare, replace(ONE_WINDOW, rate=1.0), random.Random(2))
    assert len(made.requests) == pytest.approx(600, abs=60)


def test_gaps_are_as_uneven_as_their_shape_says() -> None:
    def unevenness(gap_shape: float) -> float:
        one = RateWindow("p", "a", 0.0, 1.0, "G", gap_shape)
        times = [request.at_s for request in servegen([one], ONE_WINDOW, random.Random(3)).requests]
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        mean = sum(gaps) / len(gaps)
        return (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5 / mean

    assert unevenness(1.0) == pytest.approx(1.0, abs=0.1)  # Gamma: one over the root of the shape
    assert unevenness(0.25) == pytest.approx(2.0, abs=0.2)


@pytest.mark.parametrize("family", ["G", "W"])
def test_a_shape_near_zero_is_one_burst_and_no_overflow(family: str) -> None:
    one = RateWindow("p", "a", 0.0, 1.0, family, 1e-6)  # type: ignore[arg-type]
    times = [request.at_s for request in servegen([one], ONE_WINDOW, random.Random(4)).requests]
    assert len(times) == 6000
    assert Counter(round(at_s) for at_s in times).most_common(1)[0][1] > 1000


def test_gaps_that_are_all_zero_are_one_burst() -> None:
    one = RateWindow("p", "a", WINDOW_S, 1.0, "G", 1e-6)
    made = servegen([one], replace(ONE_WINDOW, start_h=1 / 6, rate=0.01), random.Random(4))
    times = {request.at_s for request in made.requests}
    assert len(made.requests) == 6
    assert len(times) == 1
    assert WINDOW_S <= times.pop() < 2 * WINDOW_S


def test_the_same_seed_gives_the_same_workload_and_another_seed_another() -> None:
    def draw(seed: int) -> Workload:
        return servegen(CLIENTS, ONE_WINDOW, random.Random(seed))

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    assert locality(LocalityShape(), random.Random(1)) == locality(LocalityShape(), random.Random(1))
    assert locality(LocalityShape(), random.Random(1)) != locality(LocalityShape(), random.Random(2))


def test_a_tenant_of_several_adapters_asks_them_by_zipf() -> None:
    shape = replace(ONE_WINDOW, adapters_per_tenant=2, adapter_skew=1.0)
    count = Counter(request.adapter for request in servegen(CLIENTS[:1], shape, random.Random(5)).requests)
    assert set(count) == {"p-a/0", "p-a/1"}
    assert count["p-a/0"] / count["p-a/1"] == pytest.approx(2.0, rel=0.1)


def test_lengths_follow_the_client_and_else_the_mean_client_of_its_pool() -> None:
    rising = tuple(100.0 + 10 * number for number in range(len(QUANTILES)))
    flat, zero = (7.0,) * len(QUANTILES), (0.0,) * len(QUANTILES)
    lengths = {("p", "a"): TokenLengths(rising, flat), ("p", "c"): TokenLengths(rising, zero)}
    made = servegen(CLIENTS, ONE_WINDOW, random.Random(6), lengths)
    inputs = [request.input_tokens for request in made.requests]
    assert (min(inputs), max(inputs)) == pytest.approx((100, 200), abs=2)
    assert sorted(inputs)[len(inputs) // 2] == pytest.approx(140, abs=2)
    outputs = {request.tenant: request.output_tokens for request in made.requests}
    assert outputs == {"p-a": 7, "p-b": 4}  # 3.5 rounds to even


def test_a_length_is_never_below_one_token() -> None:
    none = TokenLengths((0.0,) * len(QUANTILES), (0.0,) * len(QUANTILES))
    made = servegen(CLIENTS, ONE_WINDOW, random.Random(7), {("p", "a"): none})
    assert {(request.input_tokens, request.output_tokens) for request in made.requests} == {(1, 1)}


def test_the_arena_is_replayed_as_it_is() -> None:
    made = arena([ArenaLine(0.5, "3", 10, 20), ArenaLine(0.7, "0", 1, 2)])
    assert made.requests == (
        Request(0.5, "tenant-3", "tenant-3/0", 10, 20),
        Request(0.7, "tenant-0", "tenant-0/0", 1, 2),
    )


def test_the_locality_mix_repeats_what_was_just_asked() -> None:
    asked = [request.adapter for request in locality(LocalityShape(repeat_share=1.0), random.Random(8)).requests]
    assert len(set(asked)) == 1
    shape = LocalityShape(repeat_share=0.9, num_recent=1, num_adapters=100_000, skew=0.0)
    asked = [request.adapter for request in locality(shape, random.Random(8)).requests]
    repeats = sum(one == following for one, following in itertools.pairwise(asked))
    assert repeats / len(asked) == pytest.approx(0.9, abs=0.01)


def test_the_rest_of_the_locality_mix_follows_zipf_and_a_tenant_keeps_its_adapters() -> None:
    shape = LocalityShape(repeat_share=0.0, num_adapters=4, num_tenants=2, skew=1.0)
    made = locality(shape, random.Random(9))
    assert made.top_share(1) == pytest.approx(12 / 25, abs=0.02)
    assert made.top_share(4) == 1.0
    assert made.num_adapters == 4
    assert {(request.adapter, request.tenant) for request in made.requests} == {
        ("adapter-0", "tenant-0"),
        ("adapter-1", "tenant-1"),
        ("adapter-2", "tenant-0"),
        ("adapter-3", "tenant-1"),
    }
    assert made.requests[-1].at_s == pytest.approx(15_000 / 20, rel=0.05)
