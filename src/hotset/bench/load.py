"""The load generator, a process of its own: ``python -m hotset.bench.load`` from `Job` to `Outcome`.

Closed loop: each connection sends its next request when its last one is answered. Open loop: requests fall
due at a fixed rate whatever the answers do, and a latency counts from the moment its request was *due*, so
a server that stalls is charged for everyone who waited. Every answer is read whole and compared with the
text it should hold.
"""

import asyncio
import gc
import selectors
import sys
from collections import Counter, deque
from collections.abc import Callable
from typing import cast

import msgspec

from hotset.bench.http_codec import (
    Answer,
    AnswerCheck,
    ProtocolBrokenError,
    ResponseReader,
    encode_request,
)
from hotset.bench.load_job import Ask, Job, Outcome
from hotset.core.clock import Clock, SystemClock

#: After the measured time, how long answers still under way are waited for.
_GRACE_S = 30.0


class Connection(asyncio.Protocol):
    """One keep-alive connection with at most one request under way."""

    def __init__(self, run: "Run", asks: list[tuple[bytes, Ask]]) -> None:
        self._run = run
        self._asks = deque(asks)
        self._reader = ResponseReader()
        self._transport: asyncio.Transport | None = None
        self._asked_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait to be told to ask."""
        self._transport = cast("asyncio.Transport", transport)

    def ask(self, due_at: float) -> None:
        """Send the next request; its time counts from `due_at`."""
        assert self._transport is not None
        self._asked_at = due_at
        self._asks.rotate(-1)
        self._transport.write(self._asks[-1][0])

    def data_received(self, data: bytes) -> None:
        """Take bytes; report the answer once it is whole."""
        try:
            answer = self._reader.feed(data)
        except ProtocolBrokenError as error:
            self._run.broke(self, str(error))
            return
        if answer is None:
            return
        if answer.closes:
            self._run.broke(self, f"the server closed the connection after {answer.status}")
            return
        self._run.answered(self, self._asked_at, self._fault(answer))

    def _fault(self, answer: Answer) -> str | None:
        if answer.status != 200:
            return f"status {answer.status}: {answer.body[:120]!r}"
        ask = self._asks[-1][1]
        return self._run.check.fault(answer.body, ask.expects, ask.num_pieces)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report a connection that went away under a request."""
        self._run.lost(self, exc)

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


class Run:
    """One job under way: hands out turns, collects samples."""

    def __init__(self, job: Job, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self.job = job
        self.check = AnswerCheck(is_stream=job.stream)
        self.now: Callable[[], float] = clock.monotonic_s
        self._loop = loop
        self._idle: deque[Connection] = deque()
        self._busy: set[Connection] = set()
        #: Moments at which requests fell due while every connection was busy.
        self._overdue: deque[float] = deque()
        self._samples: list[float] = []
        self._num_answered = 0
        self._num_on_time = 0
        self._faults: Counter[str] = Counter()
        self._num_due = 0
        self._began_at = self._next_due_at = self._counts_from = self._ends_at = 0.0
        self._done = loop.create_future()

    async def go(self) -> Outcome:
        """Run the job to its end."""
        asks = [(self._encode(ask), ask) for ask in self.job.asks]
        for number in range(self.job.connections):
            turned = asks[number % len(asks) :] + asks[: number % len(asks)]
            _, connection = await self._loop.create_connection(
                lambda turned=turned: Connection(self, turned), self.job.host, self.job.port
            )
            self._idle.append(connection)
        connections = list(self._idle)
        self._start()
        try:
            async with asyncio.timeout(self.job.duration_s + self.job.warmup_s + _GRACE_S):
                await self._done
        except TimeoutError:
            self._faults["not answered in time"] += len(self._busy) + len(self._overdue)
        for connection in connections:
            connection.close()
        return Outcome(
            latencies=self._samples,
            seconds=self.job.duration_s,
            num_on_time=self._num_on_time,
            num_answered=self._num_answered,
            num_pieces=self.job.asks[0].num_pieces,
            faults=dict(self._faults),
        )

    def _encode(self, ask: Ask) -> bytes:
        return encode_request(self.job.host, self.job.path, ask.headers, ask.body.encode())

    def _start(self) -> None:
        now = self.now()
        self._counts_from = now + self.job.warmup_s
        self._ends_at = self._counts_from + self.job.duration_s
        if self.job.rate is None:
            while self._idle:
                self._ask(self._idle.popleft(), self.now())
        else:
            self._began_at = self._next_due_at = now
            self._fall_due()

    def _fall_due(self) -> None:
        """Open loop: ask all that is due, and come back when the next one is."""
        assert self.job.rate is not None
        now = self.now()
        while self._next_due_at <= now and self._next_due_at < self._ends_at:
            if self._idle:
                self._ask(self._idle.popleft(), self._next_due_at)
            else:
                self._overdue.append(self._next_due_at)
            self._num_due += 1
            self._next_due_at = self._began_at + self._num_due / self.job.rate
        if self._next_due_at < self._ends_at:
            self._loop.call_at(self._loop.time() + self._next_due_at - self.now(), self._fall_due)

    def _ask(self, connection: Connection, due_at: float) -> None:
        self._busy.add(connection)
        connection.ask(due_at)

    def answered(self, connection: Connection, asked_at: float, fault: str | None) -> None:
        """Take one answer, and give the connection its next turn."""
        now = self.now()
        self._num_answered += 1
        self._busy.discard(connection)
        if fault is not None:
            self._faults[fault] += 1
        elif self._counts_from <= (asked_at if self.job.rate else now) < self._ends_at:
            self._samples.append(now - asked_at)
            self._num_on_time += now < self._ends_at
        if self._overdue:
            self._ask(connection, self._overdue.popleft())
        elif self.job.rate is None and now < self._ends_at:
            self._ask(connection, now)
        else:
            self._idle.append(connection)
            self._end_if_over(now)

    def _end_if_over(self, now: float) -> None:
        is_over = now >= self._ends_at if self.job.rate is None else self._next_due_at >= self._ends_at
        if is_over and not self._busy and not self._done.done():
            self._done.set_result(None)

    def broke(self, connection: Connection, why: str) -> None:
        """Count an answer that ended its connection."""
        self._faults[why] += 1
        connection.close()

    def lost(self, connection: Connection, exc: Exception | None) -> None:
        """Count a connection that went away, and end the run once none is left."""
        if connection in self._busy:
            self._busy.discard(connection)
            self._faults[f"connection lost: {exc}"] += 1
        elif connection in self._idle:
            self._idle.remove(connection)
        if not self._busy and not self._idle and not self._done.done():
            self._done.set_result(None)


def make_loop(is_open: bool) -> asyncio.AbstractEventLoop:
    """Return the event loop for a job: the fastest, or for an open loop the one that wakes most exactly.

    uvloop and epoll round waits up to whole milliseconds; `select` takes microseconds.
    """
    if is_open:
        return asyncio.SelectorEventLoop(selectors.SelectSelector())
    import uvloop  # not on every platform, and an open loop does without

    return uvloop.new_event_loop()


def main() -> int:
    """Run the job on standard input and write its outcome to standard output."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    gc.freeze()
    gc.disable()
    loop = make_loop(job.rate is not None)
    outcome = loop.run_until_complete(Run(job, loop, SystemClock()).go())
    sys.stdout.buffer.write(msgspec.json.encode(outcome))
    return 0


if __name__ == "__main__":
    sys.exit(main())
