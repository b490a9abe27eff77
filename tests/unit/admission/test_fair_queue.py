"""The fair queue: order, lifting, charges, places, and VTC's bound on random traffic."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotset.admission.fair_queue import FairQueue
from hotset.core.ids import EngineName, RequestId, TenantId

ACME, GLOBEX, INITECH = (TenantId(name) for name in ("acme", "globex", "initech"))


class Line:
    """A queue that is checked after every step."""

    def __init__(self, sequences_max: int = 1) -> None:
        self.queue = FairQueue(sequences_max=sequences_max)

    def enter(self, *requests: str, tenant: TenantId = ACME, input_tokens: int = 10, num_sequences: int = 1) -> None:
        for request in requests:
            self.queue.enter(RequestId(request), tenant, input_tokens=input_tokens, num_sequences=num_sequences)
            self.queue.check()

    def start(self) -> list[str]:
        started = self.queue.start()
        self.queue.check()
        return list(started)

    def leave(self, request: str) -> list[str]:
        self.queue.leave(RequestId(request))
        self.queue.check()
        return self.start()


def test_one_tenants_requests_go_in_order_of_arrival() -> None:
    line = Line()
    line.enter("a", "b", "c")
    assert line.start() == ["a"]
    assert line.start() == []
    assert line.leave("a") == ["b"]
    assert (line.queue.num_running, line.queue.num_waiting) == (1, 1)


def test_the_tenant_that_was_served_least_goes_next() -> None:
    line = Line()
    line.enter("a1", "a2", "a3")
    assert line.start() == ["a1"]
    line.enter("g1", "g2", tenant=GLOBEX)
    line.queue.served(RequestId("a1"), output_tokens=5)
    assert line.leave("a1") == ["g1"]
    line.queue.served(RequestId("g1"), output_tokens=50)
    assert line.leave("g1") == ["a2"]
    assert line.leave("a2") == ["a3"]
    assert line.leave("a3") == ["g2"]


def test_ties_break_by_tenant() -> None:
    line = Line()
    line.enter("g", tenant=GLOBEX)
    line.enter("a", tenant=ACME)
    assert line.start() == ["a"]


def test_output_counts_twice_and_the_prompt_once() -> None:
    line = Line()
    line.enter("a", input_tokens=7)
    line.start()
    line.queue.served(RequestId("a"), output_tokens=3)
    assert line.queue.counter(ACME) == 7 + 2 * 3


def test_the_prompts_true_length_replaces_the_estimate_once() -> None:
    line = Line()
    line.enter("a", input_tokens=7)
    line.start()
    line.queue.served(RequestId("a"), input_tokens=20)
    line.queue.served(RequestId("a"), input_tokens=20)
    assert line.queue.counter(ACME) == 20


def test_nothing_is_charged_for_what_does_not_run() -> None:
    line = Line()
    line.enter("a", "b")
    line.start()
    line.queue.served(RequestId("b"), output_tokens=5)
    line.queue.served(RequestId("unknown"), output_tokens=5)
    assert line.queue.counter(ACME) == 10


def test_idling_saves_nothing_up() -> None:
    line = Line()
    line.enter("g1", tenant=GLOBEX)
    line.start()
    line.queue.served(RequestId("g1"), output_tokens=1000)
    line.enter("g2", "g3", tenant=GLOBEX)
    line.enter("a1", "a2", tenant=ACME)
    assert line.queue.counter(ACME) == line.queue.counter(GLOBEX)


def test_who_waited_elsewhere_is_lifted_to_where_the_lowest_was_when_it_came() -> None:
    """What others are served while a load is under way is made up for; what they were served before is not."""
    line = Line()
    line.enter("g1", "g2", "g3", tenant=GLOBEX)
    line.start()
    line.queue.served(RequestId("g1"), output_tokens=10)
    lowest = line.queue.lowest()
    assert lowest == line.queue.counter(GLOBEX) == 30
    line.queue.served(RequestId("g1"), output_tokens=1000)
    line.queue.enter(RequestId("a1"), ACME, input_tokens=10, lowest=lowest)
    assert line.queue.counter(ACME) == 30
    assert line.leave("g1") == ["a1"]


def test_who_finds_the_queue_empty_starts_where_the_last_one_left_it() -> None:
    line = Line()
    line.enter("g1", tenant=GLOBEX, input_tokens=100)
    assert line.start() == ["g1"]
    line.leave("g1")
    line.enter("g2", tenant=GLOBEX)
    line.start()
    line.leave("g2")
    line.enter("a1", tenant=ACME)
    assert line.queue.counter(ACME) == 100


def test_a_request_takes_as_many_places_as_it_has_sequences_and_nobody_overtakes_it() -> None:
    line = Line(sequences_max=4)
    line.enter("a", num_sequences=3)
    line.enter("b", num_sequences=2)
    line.enter("c", num_sequences=1)
    assert line.start() == ["a"]
    assert line.leave("a") == ["b", "c"]


def test_a_request_of_more_sequences_than_there_are_goes_alone() -> None:
    line = Line(sequences_max=2)
    line.enter("a", num_sequences=5)
    line.enter("b")
    assert line.start() == ["a"]
    assert line.leave("a") == ["b"]


def test_a_waiting_request_may_leave_and_unknown_ones_are_ignored() -> None:
    line = Line()
    line.enter("a", "b", "c")
    line.start()
    assert line.leave("b") == []
    assert line.leave("nobody") == []
    assert line.leave("a") == ["c"]
    assert RequestId("b") not in line.queue
    assert RequestId("c") in line.queue


def test_clearing_forgets_requests_and_keeps_what_was_served() -> None:
    line = Line()
    line.enter("a", "b")
    line.start()
    line.queue.clear()
    line.queue.check()
    assert (line.queue.num_running, line.queue.num_waiting, line.queue.counter(ACME)) == (0, 0, 10)


def test_entering_twice_stops_at_the_assertion() -> None:
    line = Line()
    line.enter("a")
    with pytest.raises(AssertionError, match="entered twice"):
        line.enter("a")


@pytest.mark.parametrize("seed", range(20))
def test_two_tenants_that_always_wait_are_served_alike(seed: int) -> None:
    """VTC, theorem 4.4: the difference in service is bounded by 2 max(w_p L_input, w_q M), whatever they send."""
    chance = random.Random(seed)
    places, input_max, output_max = chance.randrange(1, 9), 300, 200
    queue, number = FairQueue(sequences_max=places), 0
    left: dict[RequestId, int] = {}
    served = {ACME: 0.0, GLOBEX: 0.0, INITECH: 0.0}
    sizes: dict[RequestId, tuple[TenantId, int]] = {}

    def top_up(tenant: TenantId, depth: int) -> None:
        nonlocal number
        while sum(sizes[request][0] == tenant for request in sizes if request not in left) < depth:
            number += 1
            request, tokens = RequestId(f"{tenant}-{number}"), chance.randrange(1, input_max)
            sizes[request] = (tenant, tokens)
            queue.enter(request, tenant, input_tokens=tokens)

    bound = 2 * max(1 * input_max, 2 * places * (input_max + output_max))
    for _ in range(3000):
        top_up(ACME, 1)
        top_up(GLOBEX, 20)
        if chance.random() < 0.02:
            top_up(INITECH, 3)
        for request in queue.start():
            tenant, tokens = sizes[request]
            left[request] = chance.randrange(1, output_max) if tenant == ACME else chance.randrange(1, 20)
            served[tenant] += tokens
        for request in list(left):
            queue.served(request, output_tokens=1)
            served[sizes[request][0]] += 2
            left[request] -= 1
            if not left[request]:
                queue.leave(request)
                del left[request], sizes[request]
        queue.check()
        assert abs(served[ACME] - served[GLOBEX]) <= bound
    assert min(served[ACME], served[GLOBEX]) > 5000


def bounded(adapters_max: int | None = 2, sequences_max: int = 4) -> FairQueue:
    return FairQueue(sequences_max=sequences_max, adapters_max=adapters_max)


def wait(queue: FairQueue, *requests: str, tenant: str = "acme") -> list[str]:
    """Let requests wait, each named by its adapter and a number (``base1`` for the bare base); return who started."""
    for request in requests:
        adapter = None if request.startswith("base") else EngineName(request[0])
        queue.enter(RequestId(request), TenantId(tenant), input_tokens=1, adapter=adapter)
    started = queue.start()
    queue.check()
    return list(started)


def end(queue: FairQueue, *requests: str) -> list[str]:
    for request in requests:
        queue.leave(RequestId(request))
    started = queue.start()
    queue.check()
    return list(started)


def test_no_more_distinct_adapters_run_than_pay_and_those_that_are_in_go_first() -> None:
    queue = bounded()
    assert wait(queue, "a1", "b1", "c1", "a2", "base1") == ["a1", "b1", "a2", "base1"]
    assert not queue.has_place(1, EngineName("d"))
    assert end(queue, "b1") == ["c1"]


def test_an_adapter_waits_for_one_fill_of_the_engine_at_most() -> None:
    queue = bounded(adapters_max=1, sequences_max=3)
    assert wait(queue, "a0", "b0", *(f"a{number}" for number in range(1, 9))) == ["a0", "a1", "a2"]
    assert end(queue, "a0") == ["a3"]  # the third that goes before b0
    assert end(queue, "a1") == []
    assert end(queue, "a2") == []
    assert end(queue, "a3") == ["b0"]
    assert end(queue, "b0") == ["a4", "a5", "a6"]


def test_who_waits_alone_finds_nobody_overtook_it_yet() -> None:
    queue = bounded(adapters_max=1, sequences_max=2)
    wait(queue, "a1", "b1", "a2", "a3", "a4")
    end(queue, "a1")
    end(queue, "b1")  # gave up
    assert end(queue, "a2", "a3") == ["a4"]
    assert wait(queue, "b2", "a5") == ["a5"]


def test_without_a_bound_every_adapter_goes() -> None:
    queue = bounded(None)
    assert wait(queue, "a1", "b1", "c1", "d1") == ["a1", "b1", "c1", "d1"]
    assert not queue.has_place(1, EngineName("a"))
    queue.clear()
    assert queue.has_place(1, EngineName("a"))
    queue.check()


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from(["acme", "globex"])), max_size=40), st.data())
def test_with_a_bound_everybody_is_served_in_the_end(asked: list[tuple[str, str]], choices: st.DataObject) -> None:
    queue, running = bounded(adapters_max=2, sequences_max=3), list[str]()
    for number, (adapter, tenant) in enumerate(asked):
        running += wait(queue, f"{adapter}{number}", tenant=tenant)
    num_served = 0
    while running:
        done = running.pop(choices.draw(st.integers(0, len(running) - 1)))
        num_served += 1
        running += end(queue, done)
    assert (num_served, queue.num_waiting) == (len(asked), 0)
