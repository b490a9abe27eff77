"""Simulated jobs: the rule I8 fails where it is broken; transactions are late, lost on the way, or never made."""

import pytest

from hotset.admission.job_life import Cancel, Claim, End, Expire, JobLife, JobState, Renew, Withdraw
from hotset.admission.outcomes import Outcome
from hotset.core.errors import JobsUnavailableError, ModelNotFoundError
from hotset.core.ids import JobId, RequestId, TenantId
from hotset.planner.exchanges import Asked
from hotset.planner.job_rules import JobRules
from hotset.planner.job_table import JobTable
from hotset.planner.rules import BrokenRuleError
from hotset.planner.virtual_database import Act, Steps, VirtualDatabase
from hotset.sim.clocks import SkewedClock, Timers
from hotset.sim.world import World

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
J1, J2 = JobId("job1"), JobId("job2")
CLAIM, COMPLETE = Claim(10.0, 3, 100.0), End(1, JobState.COMPLETED, 100.0)


class Installed:
    """A database, and one gateway's timers."""

    def __init__(self) -> None:
        self.world = World(1)
        self.rules = JobRules()
        self.table = JobTable(self.world, self.rules)
        self.database = VirtualDatabase(self.world, self.table)
        self.timers = Timers(SkewedClock(self.world))

    def add(self, tenant: TenantId = ACME, *, epoch: int = 1, within_s: float = 60.0) -> JobId:
        asked = Asked(RequestId("r"), "hash", "a", 1, 1, job_within_s=within_s)
        return self.table.add(tenant, asked, epoch=epoch, within_s=within_s).job

    def run(self, steps: Steps) -> None:
        self.database.run("gateway", self.timers, steps)
        while self.world.step():
            pass

    def pass_time(self, seconds: float) -> None:
        self.world.after(seconds, "time passes", lambda: None)
        self.world.step()


def once(act: Act) -> Steps:
    yield act


def test_a_job_from_its_row_to_its_result() -> None:
    jobs = Installed()
    assert jobs.add() == J1
    jobs.rules.told(J1)
    claimed = jobs.table.enter(J1, CLAIM, "job1.1")
    assert claimed is not None
    assert claimed.life.fence == 1
    assert jobs.table.enter(J1, Renew(1, 10.0), "job1.1") is not None
    assert jobs.table.enter(J1, Renew(2, 10.0), "job1.2") is None
    with pytest.raises(BrokenRuleError, match=r"I8: 1 jobs never end"):
        jobs.rules.all_ended()
    jobs.rules.tried(RequestId("job1.1"), Outcome.COMPLETED)
    assert jobs.table.enter(J1, COMPLETE, "job1.1") is not None
    assert jobs.table.enter(J1, Cancel(1.0), "its client") is None
    jobs.rules.all_ended()
    assert jobs.rules.endings == {"completed": 1}
    assert jobs.table.num_unended == 0


def test_jobs_are_found_by_tenant_epoch_and_time() -> None:
    jobs = Installed()
    jobs.add(ACME)
    jobs.add(ACME)
    third = jobs.add(GLOBEX, epoch=2, within_s=5.0)
    assert jobs.table.oldest_claimable(1) == [(ACME, J1)]
    assert jobs.table.oldest_claimable(2) == [(ACME, J1), (GLOBEX, third)]
    jobs.table.enter(J1, CLAIM, "job1.1")
    assert jobs.table.oldest_claimable(1) == [(ACME, J2)]
    assert jobs.table.without_right(lambda row: ModelNotFoundError(), 1) == [J2]
    assert jobs.table.without_right(lambda row: None, 2) == []
    jobs.table.enter(J2, Withdraw(1.0), "gateway")
    jobs.pass_time(5.0)
    assert jobs.table.late() == [third]
    jobs.table.enter(third, Expire(1.0), "gateway")
    assert jobs.rules.endings == {"failed": 1, "expired": 1}


def test_i8_a_job_that_nobody_wrote_down_or_two_hold() -> None:
    jobs = Installed()
    with pytest.raises(BrokenRuleError, match=r"I8: job1 is accepted, and its row"):
        jobs.rules.told(J1)
    jobs.add()
    jobs.table.enter(J1, CLAIM, "job1.1")
    life = jobs.table.get(J1).life
    now_s = jobs.table.now_s()
    with pytest.raises(BrokenRuleError, match=r"I8: job1.2 claims job1, which job1.1 holds"):
        jobs.rules.entered(J1, life, life, CLAIM, "job1.2", now_s)
    with pytest.raises(BrokenRuleError, match=r"I8: job1.2 says what becomes of job1, which job1.1 holds"):
        jobs.rules.entered(J1, life, life, COMPLETE, "job1.2", now_s)


def test_i8_results_that_are_none_or_two_or_too_late() -> None:
    jobs = Installed()
    jobs.add(within_s=20.0)
    jobs.table.enter(J1, CLAIM, "job1.1")
    with pytest.raises(BrokenRuleError, match=r"I8: .* no whole answer"):
        jobs.table.enter(J1, COMPLETE, "job1.1")
    over = JobLife(0.0, JobState.COMPLETED, ended_at_s=1.0)
    with pytest.raises(BrokenRuleError, match=r"I8: job1 ended completed, and job1.1 writes"):
        jobs.rules.entered(J1, over, over, COMPLETE, "job1.1", 2.0)
    late = JobLife(1.0)
    with pytest.raises(BrokenRuleError, match=r"I8: job1.2 claims job1 after its time"):
        jobs.rules.entered(J1, late, late, CLAIM, "job1.2", 2.0)


def test_a_task_takes_its_steps_one_after_the_other() -> None:
    jobs, said = Installed(), list[object]()

    def steps() -> Steps:
        said.append((yield lambda table: table.num_unended))
        yield 1.0
        said.append(jobs.world.now_s)
        yield lambda table: said.append("written")

    jobs.run(steps())
    assert said[0] == 0
    assert isinstance(said[1], float)
    assert said[1] >= 1.0
    assert said[2] == "written"


def test_who_is_cut_off_hears_of_no_transaction_whether_made_or_not() -> None:
    jobs, said = Installed(), list[str]()

    def steps() -> Steps:
        try:
            yield lambda table: jobs.add()
        except JobsUnavailableError:
            said.append("failed")
        yield lambda table: jobs.add()
        said.append("never")

    def cut_off_then_add(table: JobTable) -> object:
        jobs.database.cut_off.add("gateway")
        return jobs.add()

    jobs.database.cut_off.add("gateway")
    jobs.run(steps())
    assert said == ["failed"]
    assert jobs.table.num_unended == 0
    jobs.database.cut_off.clear()
    jobs.run(once(cut_off_then_add))
    assert jobs.table.num_unended == 1


def test_a_crash_leaves_a_transaction_whole_and_its_task_where_it_was() -> None:
    jobs, said = Installed(), list[object]()

    def steps() -> Steps:
        said.append((yield lambda table: jobs.add()))

    jobs.database.run("gateway", jobs.timers, steps())
    while not jobs.table.num_unended:
        jobs.world.step()
    jobs.timers.cancel_all()
    while jobs.world.step():
        pass
    assert said == []
    assert jobs.table.num_unended == 1
