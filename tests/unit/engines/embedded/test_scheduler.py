"""Steps advance everyone they can, within the token budget and the blocks there are."""

import random
from typing import Any

import pytest

from hotset.core.ids import RequestId
from hotset.engines.embedded.block_allocator import BlockAllocator
from hotset.engines.embedded.scheduler import Scheduler, Sequence, StepPlan

_BLOCK_SIZE = 4


def make_scheduler(*, num_blocks: int = 64, **settings: Any) -> tuple[Scheduler, BlockAllocator]:
    allocator = BlockAllocator(num_blocks + 1, lambda blocks: None)
    chosen = {"block_size": _BLOCK_SIZE, "step_tokens_max": 8, "num_sequences_max": 4, **settings}
    return Scheduler(allocator, **chosen), allocator


def make_sequence(name: str, prompt_len: int) -> Sequence:
    return Sequence(RequestId(name), 0, None, list(range(prompt_len)), prompt_len=prompt_len)


def run_step(scheduler: Scheduler) -> StepPlan:
    """Plan and carry out one step, sampling a token wherever one is due."""
    plan = scheduler.plan_step()
    scheduler.check()
    scheduler.advance(plan)
    for sequence in plan.decodes:
        sequence.tokens.append(0)
    for chunk in plan.prefills:
        if chunk.sequence.num_pending == 0:
            chunk.sequence.tokens.append(0)
    scheduler.check()
    return plan


def names(sequences: list[Sequence]) -> list[str]:
    return [sequence.request_id for sequence in sequences]


def test_a_prompt_is_computed_in_pieces_of_the_budget() -> None:
    scheduler, _ = make_scheduler()
    scheduler.add([make_sequence("a", 19)])
    sizes = [run_step(scheduler).prefills[0].num_tokens for _ in range(3)]
    assert sizes == [8, 8, 3]
    assert names(run_step(scheduler).decodes) == ["a"]


def test_only_the_piece_that_ends_the_prompt_samples() -> None:
    scheduler, _ = make_scheduler()
    scheduler.add([make_sequence("a", 9)])
    first = scheduler.plan_step()
    assert not first.prefills[0].is_last
    scheduler.advance(first)
    second = scheduler.plan_step()
    assert second.prefills == []
    assert names(second.decodes) == ["a"], "one missing token is a decode, whoever wrote it"


def test_decodes_go_first_and_prompts_share_the_rest() -> None:
    scheduler, _ = make_scheduler()
    scheduler.add([make_sequence("a", 3), make_sequence("b", 4)])
    run_step(scheduler)
    scheduler.add([make_sequence("c", 5), make_sequence("d", 5)])
    plan = run_step(scheduler)
    assert names(plan.decodes) == ["a", "b"]
    assert [(chunk.sequence.request_id, chunk.num_tokens) for chunk in plan.prefills] == [("c", 5), ("d", 1)]


def test_no_more_sequences_than_allowed() -> None:
    scheduler, _ = make_scheduler(num_sequences_max=2, step_tokens_max=100)
    scheduler.add([make_sequence(name, 2) for name in "abc"])
    run_step(scheduler)
    assert scheduler.num_running == 2
    assert scheduler.num_waiting == 1


def test_the_first_in_line_is_not_overtaken() -> None:
    scheduler, _ = make_scheduler(num_blocks=4, step_tokens_max=100)
    scheduler.add([make_sequence("a", 9), make_sequence("b", 9), make_sequence("c", 1)])
    plan = run_step(scheduler)
    assert [chunk.sequence.request_id for chunk in plan.prefills] == ["a"]


def test_the_youngest_makes_room_and_is_computed_again() -> None:
    scheduler, allocator = make_scheduler(num_blocks=5, step_tokens_max=100)
    old, young = make_sequence("old", 8), make_sequence("young", 6)
    scheduler.add([old, young])
    run_step(scheduler)
    assert allocator.num_used == 4
    while scheduler.num_running == 2:
        run_step(scheduler)
    assert scheduler.num_waiting == 1
    assert young.num_computed == 0
    assert young.blocks == []
    answer_so_far = list(young.tokens)
    scheduler.finish(old)
    plan = run_step(scheduler)
    assert plan.prefills[0].sequence is young
    assert plan.prefills[0].num_tokens == len(answer_so_far)
    assert young.tokens[:-1] == answer_so_far


def test_a_sequence_may_have_to_make_room_itself() -> None:
    scheduler, _ = make_scheduler(num_blocks=3, step_tokens_max=100)
    old, young = make_sequence("old", 4), make_sequence("young", 4)
    scheduler.add([old, young])
    first = run_step(scheduler)
    assert len(first.prefills) == 2
    plan = run_step(scheduler)
    assert names(plan.decodes) == ["old"]
    assert names(run_step(scheduler).decodes) == ["old"]
    assert scheduler.num_waiting == 1


def test_removing_a_request_frees_its_blocks_wherever_it_is() -> None:
    scheduler, allocator = make_scheduler(num_sequences_max=1)
    scheduler.add([make_sequence("a", 4), make_sequence("b", 4), make_sequence("c", 4)])
    run_step(scheduler)
    scheduler.remove(RequestId("b"))
    scheduler.remove(RequestId("a"))
    scheduler.remove(RequestId("nobody"))
    assert allocator.num_used == 0
    assert scheduler.num_waiting == 1
    assert [chunk.sequence.request_id for chunk in run_step(scheduler).prefills] == ["c"]


def test_nothing_to_do_is_an_empty_plan() -> None:
    scheduler, _ = make_scheduler()
    assert scheduler.plan_step() == StepPlan([], [])


@pytest.mark.parametrize("seed", range(20))
def test_random_traffic_always_ends_and_leaks_nothing(seed: int) -> None:
    chance = random.Random(seed)
    scheduler, allocator = make_scheduler(num_blocks=16, step_tokens_max=chance.randrange(4, 40))
    limits: dict[Sequence, int] = {}
    num_added = 0
    for turn in range(1000):
        if num_added < 40 and chance.random() < 0.4:
            sequence = make_sequence(f"{turn}", chance.randrange(1, 30))
            limits[sequence] = min(64, sequence.prompt_len + chance.randrange(1, 40))
            scheduler.add([sequence])
            num_added += 1
        if limits and chance.random() < 0.05:
            gone = chance.choice(list(limits))
            scheduler.remove(gone.request_id)
            del limits[gone]
        run_step(scheduler)
        for sequence in [each for each, limit in limits.items() if len(each.tokens) >= limit]:
            if sequence.blocks:
                scheduler.finish(sequence)
                del limits[sequence]
    assert num_added == 40
    assert not limits, "everyone got to the end"
    assert allocator.num_used == 0
