"""Questions to several holders: who answers is heard, who does not is named."""

import asyncio
from typing import Any, cast

from hotset.control.asking import Questions, Replies, ask_all
from hotset.core.on_call import Activity
from hotset.links.holder_messages import ActivityTold, AskActivity
from hotset.links.link import Link
from hotset.links.peers import Peer

G1, G2, W1 = Peer("gateway", "g1"), Peer("gateway", "g2"), Peer("worker", "w1")


class Line:
    """The link to a holder that answers, or keeps silent."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.is_open = is_open
        self.asked: list[AskActivity] = []

    def send(self, message: AskActivity) -> None:
        self.asked.append(message)


def line(*, is_open: bool = True) -> tuple[Line, Questions]:
    made = Line(is_open=is_open)
    return made, Questions(cast("Link[Any]", made))


def answered(number: int, in_flight: int) -> ActivityTold:
    return ActivityTold(number, Activity(in_flight=in_flight))


def unreached(replies: Replies) -> dict[str, str]:
    return {each.name: each.reason for each in replies.unreached}


def test_all_who_answer_are_heard_and_a_silent_one_is_named() -> None:
    async def story() -> Replies:
        (one, first), (two, second) = line(), line()
        asking = asyncio.create_task(ask_all({G1: first, G2: second}, AskActivity, timeout_s=0.05))
        await asyncio.sleep(0)
        first.heard(answered(one.asked[0].number, 3))
        first.heard(answered(one.asked[0].number, 9))  # repeated
        second.heard(answered(two.asked[0].number + 1, 4))  # of a question that nobody asked
        return await asking

    replies = asyncio.run(story())
    assert replies.told == {G1: answered(1, 3)}
    assert unreached(replies) == {"g2": "did not answer within 0.05 s"}


def test_a_link_that_is_not_open_or_ends_is_named_at_once() -> None:
    async def story() -> Replies:
        (_, closed), (_, ends) = line(is_open=False), line()
        asking = asyncio.create_task(ask_all({G1: closed, W1: ends}, AskActivity, timeout_s=60.0))
        await asyncio.sleep(0)
        ends.end()
        return await asking

    assert unreached(asyncio.run(story())) == {"g1": "its link ended", "w1": "its link ended"}


def test_nobody_is_waited_for_once_it_is_enough() -> None:
    async def story() -> Replies:
        (one, first), (_, second) = line(), line()
        asking = asyncio.create_task(
            ask_all({G1: first, G2: second}, AskActivity, timeout_s=60.0, is_enough=lambda told: any(told))
        )
        await asyncio.sleep(0)
        first.heard(answered(one.asked[0].number, 3))
        return await asking

    assert list(asyncio.run(story()).told) == [G1]


def test_without_anybody_there_is_no_answer() -> None:
    assert asyncio.run(ask_all({}, AskActivity, timeout_s=1.0)) == Replies()
