"""Runs jobs for a simulated gateway, as `gateway.jobs.runner` does for a real one: every decision is `admission`'s."""

import contextlib
from collections import Counter
from dataclasses import dataclass, replace

from hotset.admission.job_life import (
    Break,
    Claim,
    End,
    Expire,
    JobEvent,
    JobState,
    Postpone,
    Renew,
    Verdict,
    Withdraw,
    pause_s,
    verdict,
)
from hotset.admission.job_turns import may_start, next_job
from hotset.admission.outcomes import Outcome
from hotset.core.errors import EngineFailedError, HotsetError, JobsUnavailableError, leaf_errors
from hotset.core.ids import JobId, RequestId
from hotset.core.snapshot import KeyEntry
from hotset.planner.exchanges import Exchange, Watcher
from hotset.planner.held_snapshot import HeldSnapshot
from hotset.planner.job_door import KEEP_S
from hotset.planner.job_rules import JobRules
from hotset.planner.job_table import JobRow, JobTable
from hotset.planner.protocol import Stamp
from hotset.planner.virtual_database import Steps, VirtualDatabase
from hotset.planner.virtual_relay import Relay, outcome_of
from hotset.routing.resolve import Resolved
from hotset.sim.clocks import SkewedClock, Timers
from hotset.sim.network import Address

#: Seconds by the gateway's clock, but for the lease, which is the database's.
_POLL_S = 0.4
_LEASE_S = 1.5
_RENEW_AFTER_S = _LEASE_S / 3
_PAUSE_MIN_S, _PAUSE_MAX_S = 0.2, 1.0
_YIELD_S_MAX = 1.5
_ATTEMPTS_MAX = 3
_RUNNING_MAX = 3
_ERRORS = {leaf.code: leaf for leaf in leaf_errors(HotsetError)}


@dataclass(slots=True)
class _Try:
    """One try of one job, under the fence of its row's life."""

    row: JobRow
    request: RequestId
    #: Another one holds the job, or it is over: nobody is to be told by us.
    is_lost: bool = False


class VirtualJobRunner:
    """Of one life of a gateway. Implements `exchanges.Observer` for the tries' requests."""

    def __init__(
        self,
        database: VirtualDatabase,
        timers: Timers,
        clock: SkewedClock,
        address: Address,
        *,
        held: HeldSnapshot,
        relay: Relay,
        observer: Watcher,
        rules: JobRules,
    ) -> None:
        self._database, self._timers, self._clock, self._address = database, timers, clock, address
        self._held, self._relay, self._observer, self._rules = held, relay, observer, rules
        self._tries: dict[RequestId, _Try] = {}
        self._withdrawn_at = 0
        self._yielding_since_s: float | None = None
        self._renewed_at_s = float("-inf")
        self._is_over = False
        database.run(address, timers, self._run())

    def stop(self) -> None:
        """The gateway is gone: nothing more is written."""
        self._is_over = True

    # --- rounds ----------------------------------------------------------------------------------------

    def _run(self) -> Steps:
        while True:
            with contextlib.suppress(JobsUnavailableError):  # then jobs wait
                yield from self._round()
            yield _POLL_S

    def _round(self) -> Steps:
        yield from self._keep_hold()
        if self._held.epoch == 0 or self._held.is_outdated():
            return
        epoch = self._held.epoch
        if epoch != self._withdrawn_at:
            yield lambda jobs: self._withdraw(jobs, epoch)
            self._withdrawn_at = epoch
        while self._may_start():
            row = yield self._claim
            if row is None:
                self._yielding_since_s = None
                return
            assert isinstance(row, JobRow)
            if row.life.state is JobState.RUNNING:
                self._start(row)

    def _keep_hold(self) -> Steps:
        """Renew our holds in time, and let go of what was cancelled or taken over."""
        tries, now_s = list(self._tries.values()), self._clock.monotonic_s()
        if not tries or now_s - self._renewed_at_s < _RENEW_AFTER_S:
            return
        lost: list[_Try] = []
        yield lambda jobs: lost.extend(each for each in tries if not _renew(jobs, each))
        self._renewed_at_s = now_s
        for each in lost:
            each.is_lost = True
            self._relay.leave(each.request)

    def _withdraw(self, jobs: JobTable, epoch: int) -> None:
        """End the jobs that wait by a right that is gone (I11)."""
        for job in jobs.without_right(self._reason_against, epoch):
            jobs.enter(job, Withdraw(KEEP_S), self._address)

    def _reason_against(self, row: JobRow) -> HotsetError | None:
        try:
            self._held.resolve(self._held.authenticate(row.asked.key_hash), row.asked.model)
        except HotsetError as error:
            return error
        return None

    def _may_start(self) -> bool:
        now_s, num_waiting = self._clock.monotonic_s(), self._relay.num_waiting
        if num_waiting == 0 or self._yielding_since_s is None:
            self._yielding_since_s = now_s
        return may_start(
            num_running=len(self._tries),
            running_max=_RUNNING_MAX,
            num_waiting=num_waiting,
            yielded_s=now_s - self._yielding_since_s,
            yield_s_max=_YIELD_S_MAX,
        )

    def _claim(self, jobs: JobTable) -> JobRow | None:
        """Expire what is late, then take the next job; one that was tried too often ends by it."""
        for late in jobs.late():
            jobs.enter(late, Expire(KEEP_S), self._address)
        running = Counter(each.row.tenant for each in self._tries.values())
        job = next_job(jobs.oldest_claimable(self._held.epoch), running, _RUNNING_MAX)
        if job is None:
            return None
        by = _request_of(job, jobs.get(job).life.fence + 1)
        return jobs.enter(job, Claim(_LEASE_S, _ATTEMPTS_MAX, KEEP_S), by)

    # --- one try ---------------------------------------------------------------------------------------

    def _start(self, row: JobRow) -> None:
        """Bind the route anew, and go the way of every request."""
        request = _request_of(row.job, row.life.fence)
        asked = replace(row.asked, request=request, is_try=True)
        self._tries[request] = _Try(row, request)
        self._observer.asked(asked, row.tenant)
        try:
            key = self._held.authenticate(asked.key_hash)
            bound = self._held.resolve(key, asked.model)
        except HotsetError as error:
            self.ended(request, outcome_of(error), error.code)
            return
        now_s = self._clock.monotonic_s()
        self._relay.begin(Exchange(asked, key, bound, self._held.epoch, now_s, self))

    def bound(self, request: RequestId, key: KeyEntry, bound: Resolved, epoch: int) -> None:
        """A route was chosen."""
        self._observer.bound(request, key, bound, epoch)

    def token(self, request: RequestId, stamp: Stamp, epoch: int) -> None:
        """A token came."""
        self._observer.token(request, stamp, epoch)

    def ended(self, request: RequestId, outcome: Outcome, code: str) -> None:
        """It is over: write down what the job came to by it, if it is still ours."""
        self._observer.ended(request, outcome, code)
        self._rules.tried(request, outcome)
        held = self._tries[request]
        if self._is_over or held.is_lost:
            del self._tries[request]
            return
        self._database.run(self._address, self._timers, self._write_down(held, self._event(held, outcome, code)))

    def _event(self, held: _Try, outcome: Outcome, code: str) -> JobEvent:
        fence, attempts = held.row.life.fence, held.row.life.attempts
        if outcome is Outcome.COMPLETED:
            return End(fence, JobState.COMPLETED, KEEP_S)
        match verdict(_ERRORS.get(code, EngineFailedError)()):
            case Verdict.POSTPONE:
                return Postpone(fence, _PAUSE_MIN_S)
            case Verdict.BREAK:
                after_s = pause_s(attempts, least_s=_PAUSE_MIN_S, most_s=_PAUSE_MAX_S)
                return Break(fence, _ATTEMPTS_MAX, after_s, KEEP_S)
            case Verdict.FAIL:
                return End(fence, JobState.FAILED, KEEP_S)

    def _write_down(self, held: _Try, event: JobEvent) -> Steps:
        """Write a try's end; a database that fails is asked again for as long as the job may be ours."""
        deadline_s = self._clock.monotonic_s() + _LEASE_S
        while True:
            try:
                yield lambda jobs: jobs.enter(held.row.job, event, held.request)
                break
            except JobsUnavailableError:
                if self._clock.monotonic_s() > deadline_s:
                    break  # whoever finds its lease over tries it again
                yield _POLL_S
        del self._tries[held.request]


def _request_of(job: JobId, fence: int) -> RequestId:
    """Return the request of a job's try under a fence."""
    return RequestId(f"{job}.{fence}")


def _renew(jobs: JobTable, held: _Try) -> bool:
    return jobs.enter(held.row.job, Renew(held.row.life.fence, _LEASE_S), held.request) is not None
