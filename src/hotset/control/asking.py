"""Questions to holders, and their answers: each waits for all who can answer, and says who did not."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hotset.core.on_call import Unreached
from hotset.links.holder_messages import Ask, Told
from hotset.links.link import Link
from hotset.links.peers import Peer


class Questions:
    """What one holder was asked and did not answer yet."""

    def __init__(self, link: Link[Any]) -> None:
        self._link = link
        self._open: dict[int, asyncio.Future[Told]] = {}
        self._last_number = 0

    def ask(self, make: Callable[[int], Ask]) -> "asyncio.Future[Told]":
        """Send a question; return its answer to come, which is cancelled where the link ends before."""
        self._last_number += 1
        answer: asyncio.Future[Told] = asyncio.get_running_loop().create_future()
        self._open[self._last_number] = answer
        answer.add_done_callback(lambda _, number=self._last_number: self._open.pop(number, None))
        self._link.send(make(self._last_number))
        if not self._link.is_open:
            answer.cancel()
        return answer

    def heard(self, told: Told) -> None:
        """Take an answer; one that nobody waits for any more is dropped."""
        answer = self._open.get(told.number)
        if answer is not None and not answer.done():
            answer.set_result(told)

    def end(self) -> None:
        """The link ended: no answer comes any more."""
        for answer in list(self._open.values()):
            answer.cancel()


@dataclass(frozen=True, slots=True)
class Replies:
    """What holders answered, and who did not."""

    told: dict[Peer, Told] = field(default_factory=dict[Peer, Told])
    unreached: list[Unreached] = field(default_factory=list[Unreached])


async def ask_all(
    questions: Mapping[Peer, Questions],
    make: Callable[[int], Ask],
    *,
    timeout_s: float,
    is_enough: Callable[[Iterable[Told]], bool] = lambda _: False,
) -> Replies:
    """Ask holders at once and return what they answered within a time.

    Args:
        questions: Of those who are asked.
        make: Makes the question with a number.
        timeout_s: How long the slowest may take.
        is_enough: Whether these answers make others needless; then nobody is waited for any more.
    """
    asked = {peer: each.ask(make) for peer, each in questions.items()}
    replies = Replies()
    deadline_s = asyncio.get_running_loop().time() + timeout_s
    waiting = set(asked.values())
    while waiting:
        left_s = deadline_s - asyncio.get_running_loop().time()
        done, waiting = await asyncio.wait(waiting, timeout=max(0.0, left_s), return_when=asyncio.FIRST_COMPLETED)
        answered = [each.result() for each in asked.values() if each.done() and not each.cancelled()]
        if not done or is_enough(answered):
            break
    for peer, answer in asked.items():
        if answer.done() and not answer.cancelled():
            replies.told[peer] = answer.result()
        else:
            reason = "its link ended" if answer.cancelled() else f"did not answer within {timeout_s:g} s"
            answer.cancel()
            replies.unreached.append(Unreached(peer.role, peer.name, reason))
    return replies
