"""What counts of a block's clients: who gets no first token is not left out."""

import asyncio
import random
from collections.abc import Callable, Mapping

from hotset.bench.asking import Answer
from hotset.bench.crowd import BlockTaken, Crowd, Habits
from hotset.bench.virtual_time import VirtualClock, run_virtual
from hotset.core.ids import TenantId

QUICK, SLOW, UNWANTED, GREEDY = (TenantId(name) for name in ("quick", "slow", "unwanted", "greedy"))


class ScriptedAsker:
    """Answers each tenant with one token after its time; one without a time is turned away."""

    def __init__(self, waits_s: Mapping[TenantId, float]) -> None:
        self._waits_s = waits_s

    async def ask(
        self,
        tenant: TenantId,
        model: str,
        chance: random.Random,
        /,
        *,
        prompt_tokens: int,
        new_tokens: int,
        budget_ms: int | None = None,
        on_tokens: Callable[[int], None] = lambda _: None,
    ) -> Answer:
        if tenant not in self._waits_s:
            return Answer(0.0, code="queue_full", is_refused=True)
        await asyncio.sleep(self._waits_s[tenant])
        on_tokens(1)
        return Answer(0.0, first_token_s=self._waits_s[tenant], num_tokens=1)


def block_of(*victims: TenantId, seconds: float = 10.0) -> BlockTaken:
    clock = VirtualClock()
    asker = ScriptedAsker({QUICK: 0.1, SLOW: 1000.0, GREEDY: 0.5})
    crowd = Crowd(asker, clock, Habits(victim_rate=2.0, in_flight=2), GREEDY)
    hot = {victim: ["adapter"] for victim in victims}
    return run_virtual(clock, crowd.block(hot, ["adapter"], seed=1, warmup_s=2.0, seconds=seconds))


def test_first_tokens_count_as_they_come_and_tokens_of_all() -> None:
    taken = block_of(QUICK)
    assert 0.099 < taken.first_token_p95_s < 0.101
    assert taken.num_tokens >= len(taken.first_token_s) - 1 + 2 * 19
    assert (taken.num_refused, taken.seconds) == (0, 10.0)


def test_a_victim_that_waits_to_the_end_of_the_block_has_waited_so_long() -> None:
    alone, beside = block_of(SLOW), block_of(QUICK, SLOW)
    assert 8.0 < alone.first_token_p95_s <= 12.0, "some asked in the warm-up"
    assert beside.first_token_p95_s > 8.0, "the quick tenant does not hide it"


def test_a_victim_that_is_turned_away_counts_as_the_whole_block() -> None:
    taken = block_of(QUICK, UNWANTED)
    assert taken.num_refused > 5
    assert taken.first_token_p95_s == 10.0
