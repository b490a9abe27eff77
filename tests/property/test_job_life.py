"""Several holders over one job, with clocks that run on, deaths and late words: what may never come of it."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hotset.admission.job_life import (
    ENDED,
    Break,
    Cancel,
    Claim,
    End,
    Expire,
    JobEvent,
    JobLife,
    JobState,
    Postpone,
    Renew,
    Withdraw,
    decide,
)

KEEP_S = 50.0
LEASE_S = 5.0
ATTEMPTS_MAX = 3
WORKERS = ("a", "b", "c")


class JobMachine(RuleBasedStateMachine):
    """One job and three workers, each of which may believe that it holds it."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.life = JobLife(expires_at_s=100.0)
        #: Worker → the fence that it was given last.
        self.fences: dict[str, int] = {}
        self.ends: list[JobLife] = []
        self.num_claims = 0
        self.num_postponed = 0

    def enter(self, event: JobEvent) -> JobLife | None:
        """What a transaction does: decide on what it reads, and write it."""
        before = self.life
        after = decide(before, event, self.now_s)
        if after is None:
            return None
        assert before.ended_at_s is None, "a job that has ended changed"
        assert after.fence >= before.fence, "a fence went back"
        self.life = after
        if after.ended_at_s is not None:
            self.ends.append(after)
        return after

    @rule(seconds=st.sampled_from((0.1, 1.0, 4.9, 5.0, 30.0)))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    @rule(worker=st.sampled_from(WORKERS))
    def claim(self, worker: str) -> None:
        holder_lives = self.life.state is JobState.RUNNING and (self.life.lease_until_s or 0.0) > self.now_s
        after = self.enter(Claim(LEASE_S, ATTEMPTS_MAX, KEEP_S))
        if after is None or after.state is not JobState.RUNNING:
            return
        assert not holder_lives, "a job was taken from a holder that lives"
        assert after.fence not in self.fences.values(), "two holds under one fence"
        self.fences[worker] = after.fence
        self.num_claims += 1

    @rule(worker=st.sampled_from(WORKERS), what=st.sampled_from(("renew", "postpone", "break", "complete", "fail")))
    def speak(self, worker: str, what: str) -> None:
        """A worker acts on the hold that it believes in, however late."""
        fence = self.fences.get(worker)
        if fence is None:
            return
        is_ours = self.life.state is JobState.RUNNING and self.life.fence == fence
        events: dict[str, JobEvent] = {
            "renew": Renew(fence, LEASE_S),
            "postpone": Postpone(fence, 1.0),
            "break": Break(fence, ATTEMPTS_MAX, 1.0, KEEP_S),
            "complete": End(fence, JobState.COMPLETED, KEEP_S),
            "fail": End(fence, JobState.FAILED, KEEP_S),
        }
        assert (self.enter(events[what]) is not None) == is_ours, "a hold that is gone was heard, or ours was not"
        self.num_postponed += is_ours and what == "postpone"

    @rule(event=st.sampled_from((Cancel(KEEP_S), Withdraw(KEEP_S), Expire(KEEP_S))))
    def end(self, event: JobEvent) -> None:
        self.enter(event)

    @invariant()
    def it_ends_once_and_is_tried_a_bounded_number_of_times(self) -> None:
        assert len(self.ends) <= 1
        assert 0 <= self.life.attempts <= ATTEMPTS_MAX
        assert self.life.attempts == self.num_claims - self.num_postponed
        assert (self.life.state in ENDED) == (self.life.ended_at_s is not None)
        assert (self.life.state is JobState.RUNNING) == (self.life.lease_until_s is not None)


TestJobMachine = JobMachine.TestCase
