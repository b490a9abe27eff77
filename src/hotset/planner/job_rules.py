"""The rule of jobs (I8), asserted from outside: one holder at a time, one result, none forgotten, none too late."""

from collections import Counter

from hotset.admission.job_life import Break, Claim, End, JobEvent, JobLife, JobState, Postpone, Renew
from hotset.admission.outcomes import Outcome
from hotset.core.ids import JobId, RequestId
from hotset.planner.rules import demand

_HOLDERS = (Renew, Postpone, Break, End)


class JobRules:
    """Watches the database of jobs, and the tries that gateways make."""

    def __init__(self) -> None:
        self._states: dict[JobId, JobState] = {}
        #: Whose try holds each job, by the last claim.
        self._holders: dict[JobId, str] = {}
        #: Tries that brought a whole answer.
        self._whole: set[RequestId] = set()
        #: Jobs by how they ended.
        self.endings: Counter[str] = Counter()

    def committed(self, job: JobId) -> None:
        """A job's row was written."""
        self._states[job] = JobState.QUEUED

    def told(self, job: JobId) -> None:
        """A client hears that its job is accepted."""
        demand(job in self._states, "I8", f"{job} is accepted, and its row was never written")

    def tried(self, request: RequestId, outcome: Outcome) -> None:
        """A try ended."""
        if outcome is Outcome.COMPLETED:
            self._whole.add(request)

    def entered(self, job: JobId, before: JobLife, after: JobLife, event: JobEvent, by: str, now_s: float) -> None:
        """Check a change of a job's row.

        Args:
            job: Which.
            before: Its life,
            after: and what is written in its place.
            event: Why.
            by: Whose doing it is.
            now_s: The database's clock.
        """
        demand(before.ended_at_s is None, "I8", f"{job} ended {before.state}, and {by} writes {after.state} over it")
        if isinstance(event, Claim):
            is_held = before.state is JobState.RUNNING and (before.lease_until_s or 0.0) > now_s
            demand(not is_held, "I8", f"{by} claims {job}, which {self._holders.get(job)} holds")
            demand(before.expires_at_s > now_s, "I8", f"{by} claims {job} after its time")
            self._holders[job] = by
        elif isinstance(event, _HOLDERS):
            holder = self._holders.get(job)
            demand(holder == by, "I8", f"{by} says what becomes of {job}, which {holder} holds")
        if after.state is JobState.COMPLETED:
            demand(RequestId(by) in self._whole, "I8", f"{job} is completed by {by}, which has no whole answer")
        self._states[job] = after.state
        if after.ended_at_s is not None:
            self.endings[after.state.value] += 1

    def all_ended(self) -> None:
        """Check, once the fleet is quiet, that no job was forgotten."""
        left = [job for job, state in self._states.items() if state in (JobState.QUEUED, JobState.RUNNING)]
        demand(not left, "I8", f"{len(left)} jobs never end: {left[:5]}")
