"""Names, bounded labels, and the text a scrape gets."""

from typing import get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hotset.core.ids import TenantId
from hotset.core.messages import StepFacts
from hotset.residency.events import Cause
from hotset.telemetry import names
from hotset.telemetry.fleet_numbers import FleetNumbers
from hotset.telemetry.metrics import Metrics
from tests.support.fake_clock import FakeClock


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }


def everything_once(metrics: Metrics) -> None:
    metrics.request_ended("completed", "hot", None)
    metrics.request_ended("refused", "", "model_not_found")
    metrics.request_refused("adapter_cold")
    metrics.page_refused("unauthenticated")
    metrics.tokens_used("acme", 3, 4)
    metrics.first_token("acme", 0.02)
    metrics.per_token("acme", 0.004)
    metrics.predicted(-0.3)
    metrics.step(StepFacts(0.01, 4, 0, 1))
    metrics.step(StepFacts(0.02, 4, 0, 3))
    metrics.queued("hot", 0.001)
    metrics.count_in_flight_by(lambda: 2)
    metrics.lookup("warm")
    metrics.load_done("cold", 12, 0.3)
    metrics.evicted("borrow", "acme")
    metrics.measures.bytes.append(lambda: [("hot", "acme/a@1", 12, 100)])
    metrics.measures.waits.append(lambda: [("loading", "acme/a@1", 0.5)])
    metrics.measures.places.append(lambda: [("smol", "default", 6, 4)])
    metrics.measures.fleet = FleetNumbers
    metrics.log_lines_dropped(2)


def test_every_name_in_the_list_is_shown_and_none_beside_it() -> None:
    metrics = Metrics(FakeClock())
    metrics.apply_tenants([TenantId("acme")])
    everything_once(metrics)
    shown = {family.name for family in text_string_to_metric_families(metrics.text().decode())}
    assert shown == {metric.name for metric in names.METRICS}


@pytest.mark.parametrize("metric", names.METRICS, ids=lambda metric: metric.name)
def test_names_follow_the_house(metric: names.MetricName) -> None:
    assert metric.name.startswith("hotset_")
    assert ":" not in metric.name
    assert metric.help.endswith(".")
    assert list(metric.edges) == sorted(metric.edges)
    assert (metric.kind == "histogram") == bool(metric.edges)


def test_values_are_those_that_were_given() -> None:
    metrics = Metrics(FakeClock())
    metrics.apply_tenants([TenantId("acme")])
    everything_once(metrics)
    shown = samples(metrics)
    assert shown["hotset_requests_total", (("lane", "hot"), ("outcome", "completed"))] == 1
    assert shown["hotset_requests_total", (("lane", "none"), ("outcome", "refused"))] == 1
    assert shown["hotset_request_errors_total", (("code", "unauthenticated"),)] == 1
    assert shown["hotset_requests_refused_total", (("reason", "adapter_cold"),)] == 1
    assert shown["hotset_requests_in_flight", ()] == 2
    assert shown["hotset_tokens_total", (("tenant", "acme"), ("type", "completion"))] == 4
    first, acme = "hotset_time_to_first_token_seconds", ("tenant", "acme")
    assert shown[f"{first}_bucket", (("le", "0.01"), acme)] == 0
    assert shown[f"{first}_bucket", (("le", "0.025"), acme)] == 1
    assert shown[f"{first}_bucket", (("le", "+Inf"), acme)] == 1
    assert shown[f"{first}_sum", (acme,)] == pytest.approx(0.02)
    assert shown["hotset_time_per_output_token_seconds_count", (acme,)] == 1
    assert shown["hotset_first_token_prediction_error_seconds_sum", (("direction", "early"),)] == pytest.approx(0.3)
    assert shown["hotset_batch_efficiency_ratio", ()] == pytest.approx(0.5)
    assert shown["hotset_step_adapters_bucket", (("le", "1.0"),)] == 1
    assert shown["hotset_step_tokens_sum", ()] == 8
    assert shown["hotset_adapter_evictions_total", (("cause", "borrow"), ("victim", "acme"))] == 1
    assert shown["hotset_adapter_largest_bytes", (("adapter", "acme/a@1"), ("tier", "hot"))] == 100
    assert shown["hotset_queue_requests", (("lane", "loading"),)] == 1
    assert shown["hotset_queue_age_seconds", (("lane", "loading"),)] == 0.5
    assert shown["hotset_adapter_queue_age_seconds", (("adapter", "acme/a@1"),)] == 0.5
    assert shown["hotset_pool_saturation_ratio", (("base", "smol"), ("pool", "default"))] == 1.5
    assert shown["hotset_adapter_load_duration_seconds_count", (("rank_class", "16"), ("source_tier", "cold"))] == 1
    assert shown["hotset_worst_tenant_time_to_first_token_seconds", ()] == pytest.approx(0.02, rel=0.01)


def test_an_observation_on_an_edge_belongs_to_the_bucket_it_closes() -> None:
    metrics = Metrics(FakeClock())
    metrics.first_token("acme", 0.01)
    name = "hotset_time_to_first_token_seconds_bucket"
    assert samples(metrics)[name, (("le", "0.01"), ("tenant", "other"))] == 1


def test_junk_grows_no_series() -> None:
    metrics = Metrics(FakeClock(), tenants_max=2)
    metrics.apply_tenants([TenantId("acme"), TenantId("globex"), TenantId("initech")])
    everything_once(metrics)
    before = len(samples(metrics))
    for number in range(10_000):
        metrics.tokens_used(f"tenant-{number}", 1, 1)
        metrics.request_ended("refused", "", f"code-{number}")
        metrics.request_refused(f"code-{number}")
        metrics.lookup(f"tier-{number}")
        metrics.evicted(f"cause-{number}", f"tenant-{number}")
        metrics.first_token(f"tenant-{number}", 0.1)
        metrics.per_token(f"tenant-{number}", 0.1)
        metrics.load_done("cold", number, 0.1)
    shown = samples(metrics)
    assert len(shown) - before < 400
    assert shown["hotset_tokens_total", (("tenant", "other"), ("type", "prompt"))] == 10_000
    assert not any("initech" in str(labels) for _, labels in shown)


def test_a_tenant_that_leaves_takes_its_series_with_it() -> None:
    metrics = Metrics(FakeClock())
    metrics.apply_tenants([TenantId("acme"), TenantId("globex")])
    metrics.tokens_used("acme", 1, 1)
    metrics.tokens_used("globex", 1, 1)
    metrics.apply_tenants([TenantId("globex")])
    assert {dict(labels).get("tenant") for name, labels in samples(metrics) if name == "hotset_tokens_total"} == {
        "globex"
    }


def test_the_worst_time_to_first_token_is_that_of_the_slowest_tenant_in_the_last_minute() -> None:
    clock = FakeClock()
    metrics = Metrics(clock)
    metrics.apply_tenants([TenantId("acme"), TenantId("globex")])
    name = ("hotset_worst_tenant_time_to_first_token_seconds", ())
    for number in range(100):
        metrics.first_token("acme", 9.0 if number < 4 else 0.1)  # the slowest twentieth does not count
    assert samples(metrics)[name] == pytest.approx(0.1, rel=0.011)
    metrics.first_token("globex", 3.0)
    assert samples(metrics)[name] == pytest.approx(3.0, rel=0.011)
    clock.advance(59)
    metrics.first_token("globex", 1.0)
    assert samples(metrics)[name] == pytest.approx(3.0, rel=0.011)
    clock.advance(6)  # times leave the minute by slices of five seconds
    assert samples(metrics)[name] == pytest.approx(1.0, rel=0.011)
    clock.advance(66)
    assert samples(metrics)[name] == 0.0


def test_a_tenant_called_as_a_cause_leaves_alone() -> None:
    metrics = Metrics(FakeClock())
    metrics.apply_tenants([TenantId("own"), TenantId("acme")])
    metrics.evicted("own", "acme")
    metrics.evicted("borrow", "own")
    metrics.apply_tenants([TenantId("acme")])
    shown = {labels: value for (name, labels), value in samples(metrics).items() if "evictions" in name}
    assert shown == {(("cause", "own"), ("victim", "acme")): 1}


def test_every_cause_of_an_eviction_is_shown_by_its_name() -> None:
    metrics = Metrics(FakeClock())
    causes = get_args(Cause)
    for cause in causes:
        metrics.evicted(cause, "")
    shown = {dict(labels)["cause"] for name, labels in samples(metrics) if name == "hotset_adapter_evictions_total"}
    assert shown == set(causes)
    assert all(cause in names.EVICTIONS.help for cause in causes)


def test_resident_bytes_are_summed_over_all_that_measure_and_what_is_gone_is_nought() -> None:
    metrics = Metrics(FakeClock())
    first = [("hot", "a@1", 8, 10), ("hot", "b@1", 5, 1), ("warm", "c@1", 200, 3), ("warm", "d@1", None, 4)]
    metrics.measures.bytes.append(lambda: first)
    metrics.measures.bytes.append(lambda: [("hot", "e@1", 16, 7)])

    def resident() -> dict[tuple[str, str], float]:
        return {
            (dict(labels)["tier"], dict(labels)["rank"]): value
            for (name, labels), value in samples(metrics).items()
            if name == "hotset_adapter_resident_bytes"
        }

    assert resident() == {("hot", "8"): 11, ("hot", "16"): 7, ("warm", "other"): 7}
    first[:] = [("warm", "a@1", 8, 5)]
    assert resident() == {("hot", "8"): 0, ("hot", "16"): 7, ("warm", "other"): 0, ("warm", "8"): 5}


def test_slots_are_summed_by_class_of_rank_and_what_is_gone_is_nought() -> None:
    metrics = Metrics(FakeClock())
    engines = [(64, 100), (16, 10), (64, 5)]
    metrics.measures.slots.append(lambda: engines)

    def slots() -> dict[str, float]:
        found = samples(metrics).items()
        return {dict(labels)["rank_class"]: value for (name, labels), value in found if name == "hotset_slot_bytes"}

    assert slots() == {"64": 105, "16": 10}
    engines[:] = [(16, 10)]
    assert slots() == {"64": 0, "16": 10}


def test_files_that_left_a_store_are_counted_by_cause_and_victim() -> None:
    metrics = Metrics(FakeClock())
    metrics.apply_tenants([TenantId("acme")])
    for victim in ("acme", "stranger"):
        metrics.store_evicted("borrow", victim)
    shown = samples(metrics)
    assert shown["hotset_store_evictions_total", (("cause", "borrow"), ("victim", "acme"))] == 1
    assert shown["hotset_store_evictions_total", (("cause", "borrow"), ("victim", "other"))] == 1
    metrics.apply_tenants([])
    assert ("hotset_store_evictions_total", (("cause", "borrow"), ("victim", "acme"))) not in samples(metrics)


def test_only_the_ten_largest_versions_of_a_tier_and_the_ten_oldest_waits_have_names() -> None:
    metrics = Metrics(FakeClock())
    metrics.measures.bytes.append(
        lambda: [(tier, f"acme/{number}@1", 8, number) for tier in ("hot", "warm") for number in range(50)]
    )
    metrics.measures.waits.append(lambda: [("loading", f"acme/{number}@1", float(number)) for number in range(50)])
    metrics.measures.waits.append(lambda: [("hot", "", 99.0)])
    shown = samples(metrics)
    largest = {labels: value for (name, labels), value in shown.items() if name == "hotset_adapter_largest_bytes"}
    assert len(largest) == 20
    assert min(largest.values()) == 40
    ages = sorted(value for (name, _), value in shown.items() if name == "hotset_adapter_queue_age_seconds")
    assert ages == [float(number) for number in range(40, 50)]
    assert shown["hotset_queue_age_seconds", (("lane", "hot"),)] == 99.0
    assert shown["hotset_queue_requests", (("lane", "loading"),)] == 50


def test_rank_classes_cover_every_rank() -> None:
    assert [names.rank_class(rank) for rank in (1, 8, 9, 128, 129)] == ["8", "8", "16", "128", "other"]
