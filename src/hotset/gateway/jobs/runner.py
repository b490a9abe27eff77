"""Runs jobs for one gateway: claims them below interactive work, tries them, writes what they came to.

Level-triggered: each round compares what is held here with what the database says. Several runners may share it; the
fence of each hold decides whose result counts. A runner that dies leaves its jobs to whoever finds their leases over.
"""

import asyncio
import contextlib
import logging
from collections import Counter

from hotset.admission.job_life import Verdict, verdict
from hotset.admission.job_turns import may_start
from hotset.admission.outcomes import Outcome
from hotset.core.errors import EngineFailedError, HotsetError, JobsUnavailableError, ShuttingDownError
from hotset.core.ports import Withdrawal
from hotset.core.snapshot import RoutingSnapshot
from hotset.gateway.accounting import outcome_of, settle
from hotset.gateway.jobs.attempt import Attempt, JobLostError, reason_against
from hotset.gateway.jobs.book import JobBook
from hotset.gateway.jobs.holding import Ended, HeldJob, Hold, Holding
from hotset.gateway.plane import Plane
from hotset.gateway.problems import retry_after_ms_of
from hotset.gateway.running import Running
from hotset.storage.jobs import Right
from hotset.telemetry.logs import of_request

_log = logging.getLogger(__name__)

#: Holds are renewed after this part of their length.
_RENEW_PART = 1 / 3


class JobRunner:
    """Runs jobs until it is stopped; all methods run on one event loop."""

    def __init__(self, plane: Plane, book: JobBook) -> None:
        self._plane = plane
        self._book = book
        self._settings = book.settings
        self._holding = Holding(book)
        #: What a withdrawal must know of the tries under way.
        self._running = Running()
        self._attempts: dict[Hold, tuple[HeldJob, Attempt, asyncio.Task[None]]] = {}
        self._is_stopping = False
        #: The newest epoch whose withdrawals reached the jobs that wait.
        self._withdrawn_at = 0
        self._yielding_since_s: float | None = None
        self._renewed_at_s = float("-inf")

    @property
    def num_running(self) -> int:
        """Jobs that are being tried here."""
        return len(self._attempts)

    def apply(self, snapshot: RoutingSnapshot) -> None:
        """Stop the tries that wait and may no longer start; those in the database follow in the next round."""
        self._running.apply(snapshot)
        self._book.changed.set()

    def cut(self, withdrawal: Withdrawal) -> int:
        """End the tries that are covered with `RevokedError`; return how many there were."""
        return self._running.cut(withdrawal)

    def begin_shutdown(self) -> None:
        """Claim no more; what runs goes on, and stays ours."""
        self._is_stopping = True
        self._book.changed.set()

    def stop_running(self) -> int:
        """Interrupt what runs, so that it is handed back; return how much there was."""
        for _, attempt, _ in self._attempts.values():
            attempt.interrupt(ShuttingDownError())
        return len(self._attempts)

    async def run(self) -> None:
        """Look after jobs until `begin_shutdown`, and after those that then run until they have ended."""
        while self._attempts or not self._is_stopping:
            self._book.changed.clear()
            try:
                await self._round()
            except JobsUnavailableError as error:
                _log.error("jobs wait: %s", error.message)
            except Exception:  # noqa: BLE001 - the runner's outermost loop: jobs must go on after a fault of ours
                _log.exception("a round of jobs failed")
            await self._pause()

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.poll_s):
                await self._book.changed.wait()

    async def _round(self) -> None:
        plane = self._plane
        await self._keep_hold()
        if self._is_stopping or plane.snapshot.epoch == 0 or plane.is_outdated():
            return  # who may do what is not known well enough to begin anything
        await self._stop_withdrawn()
        for ended in await self._holding.sweep():
            self._count(ended)
        while self._may_start():
            running = Counter(held.row.tenant for held, _, _ in self._attempts.values())
            claimed = await self._holding.claim(running, plane.snapshot.epoch)
            if claimed is None:
                self._yielding_since_s = None
                break
            if isinstance(claimed, Ended):
                self._count(claimed)
            else:
                self._start(claimed)
        plane.metrics.jobs_kept(await self._holding.counts())

    async def _keep_hold(self) -> None:
        """Renew our holds in time, and interrupt what was cancelled, deleted or taken over."""
        holds = list(self._attempts)
        if not holds:
            return
        now_s = self._plane.clock.monotonic_s()
        is_time = now_s - self._renewed_at_s >= self._settings.lease_s * _RENEW_PART
        lost = await (self._holding.renew(holds) if is_time else self._holding.lost(holds))
        if is_time:
            self._renewed_at_s = now_s
        for hold in lost:
            if hold in self._attempts:
                self._attempts[hold][1].interrupt(JobLostError())

    async def _stop_withdrawn(self) -> None:
        snapshot, wall_s = self._plane.snapshot, self._plane.clock.wall_s()
        if snapshot.epoch == self._withdrawn_at:
            return

        def reason_of(right: Right) -> HotsetError | None:
            return reason_against(snapshot, right, wall_s)

        for ended in await self._holding.withdraw(reason_of, snapshot.epoch):
            self._count(ended)
        self._withdrawn_at = snapshot.epoch

    def _may_start(self) -> bool:
        if self._is_stopping:
            return False
        now_s, num_waiting = self._plane.clock.monotonic_s(), self._plane.running.num_queued
        if num_waiting == 0 or self._yielding_since_s is None:
            self._yielding_since_s = now_s
        return may_start(
            num_running=len(self._attempts),
            running_max=self._settings.running_max,
            num_waiting=num_waiting,
            yielded_s=now_s - self._yielding_since_s,
            yield_s_max=self._settings.yield_s_max,
        )

    def _start(self, held: HeldJob) -> None:
        attempt = Attempt(self._plane, held.row, self._running)
        task = asyncio.create_task(self._try(held, attempt), name=f"job {held.row.job}")
        self._attempts[held.hold] = held, attempt, task

    async def _try(self, held: HeldJob, attempt: Attempt) -> None:
        """Try one job and write what it came to."""
        error: HotsetError | JobLostError | None = None
        answer = b""
        try:
            answer = await attempt.run(self._holding.body_of(held))
        except (HotsetError, JobLostError) as met:
            error = met
        except Exception:  # noqa: BLE001 - the try's outermost handler: logged, and tried again
            _log.exception("a job failed", extra=of_request(attempt.account.request_id))
            error = EngineFailedError()
        try:
            self._settle(attempt, error)
            if isinstance(error, JobLostError):
                self._plane.metrics.job_tried("lost")
            else:
                await self._write_down(held, attempt.route, answer, error)
        finally:
            del self._attempts[held.hold]
            self._book.changed.set()

    def _settle(self, attempt: Attempt, error: HotsetError | JobLostError | None) -> None:
        """Count and log the try as the request that it is, unless it only found that it has to wait."""
        account = attempt.account
        if isinstance(error, JobLostError):
            settle(self._plane, account, Outcome.CANCELLED, None)
        elif error is None or account.accepted_at_s is not None or verdict(error) is not Verdict.POSTPONE:
            settle(self._plane, account, outcome_of(error, account), None if error is None else error.code)

    async def _write_down(self, held: HeldJob, route: str, answer: bytes, error: HotsetError | None) -> None:
        """Write the try's end as long as the job is ours; a database that fails is asked again until then."""
        deadline_s = self._plane.clock.monotonic_s() + self._settings.lease_s
        while True:
            try:
                ended = await self._end(held, route, answer, error)
            except JobsUnavailableError as failure:
                _log.error("a job's end waits: %s", failure.message)
                if self._plane.clock.monotonic_s() > deadline_s:
                    return  # whoever finds its lease over tries it again
                await asyncio.sleep(self._settings.poll_s)
                continue
            if ended is not None:
                self._count(ended)
            return

    async def _end(self, held: HeldJob, route: str, answer: bytes, error: HotsetError | None) -> Ended | None:
        holding, metrics = self._holding, self._plane.metrics
        if error is None:
            ended = await holding.complete(held, route, answer)
            metrics.job_tried("lost" if ended is None else "completed")
            return ended
        found = verdict(error)
        metrics.job_tried(found)
        if found is Verdict.POSTPONE:
            told_s = (retry_after_ms_of(error) or 0) / 1000
            after_s = 0.0 if self._is_stopping else max(told_s, self._settings.pause_min_s)
            await holding.hand_back(held, after_s=after_s)
            return None
        return await (holding.break_off if found is Verdict.BREAK else holding.fail)(held, route, error)

    def _count(self, ended: Ended) -> None:
        self._plane.metrics.job_ended(ended.state, ended.age_s)
