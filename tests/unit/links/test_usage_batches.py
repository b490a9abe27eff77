"""Batches of usage: each is told until control has it, and counts once."""

from hotset.core.ids import TenantId
from hotset.core.usage import Usage, UsageBatch, UsageSums
from hotset.links.usage_outbox import Batches

ACME = TenantId("acme")


def used(requests: int) -> list[Usage]:
    return [Usage(tenant=ACME, adapter="acme/a", requests=requests)]


def numbers(batches: list[UsageBatch]) -> list[tuple[str, int, int]]:
    return [(each.stream, each.number, sum(usage.requests for usage in each.usages)) for each in batches]


def test_what_was_told_never_changes_and_what_was_not_grows_within_its_hour() -> None:
    batches = Batches("s")
    batches.add(used(1), 0)
    batches.add(used(2), 0)
    assert numbers(batches.to_tell()) == [("s", 1, 3)]
    batches.add(used(4), 0)
    batches.add(used(8), 3600)
    batches.add(used(16), 3600)
    assert numbers(batches.to_tell()) == [("s", 2, 4), ("s", 3, 24)]
    assert batches.to_tell() == []
    assert numbers(batches.waiting) == [("s", 1, 3), ("s", 2, 4), ("s", 3, 24)]


def test_a_new_link_is_told_all_that_is_not_kept_under_the_same_numbers() -> None:
    batches = Batches("s")
    for requests in (1, 2):
        batches.add(used(requests), 0)
        batches.to_tell()
    batches.kept("s", 1)
    batches.forget_told()
    batches.add(used(4), 0)
    assert numbers(batches.to_tell()) == [("s", 2, 2), ("s", 3, 4)]
    batches.kept("other", 9)
    batches.kept("s", 3)
    assert batches.waiting == []
    batches.add(used(5), 0)
    assert numbers(batches.to_tell()) == [("s", 4, 5)]


def test_what_an_earlier_start_left_keeps_its_stream_and_its_number() -> None:
    left = [UsageBatch("before", 7, 0, used(1))]
    batches = Batches("now", left)
    batches.add(used(2), 0)
    assert numbers(batches.to_tell()) == [("before", 7, 1), ("now", 1, 2)]
    batches.kept("before", 7)
    assert numbers(batches.waiting) == [("now", 1, 2)]


def test_control_keeps_some_while_more_is_told() -> None:
    batches = Batches("s")
    batches.add(used(1), 0)
    batches.to_tell()
    batches.add(used(2), 0)
    batches.kept("s", 1)
    assert numbers(batches.to_tell()) == [("s", 2, 2)]


def test_what_is_put_back_is_counted_once_more() -> None:
    sums = UsageSums()
    sums.of(ACME, "acme/a").requests += 2
    taken = sums.take()
    assert sums.take() == []
    sums.of(ACME, "acme/a").prompt_tokens += 5
    sums.put_back(taken)
    assert sums.take() == [Usage(tenant=ACME, adapter="acme/a", requests=2, prompt_tokens=5)]
