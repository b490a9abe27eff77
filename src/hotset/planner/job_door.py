"""Where a simulated gateway takes jobs: a job is accepted by the commit of its row, and its client hears of it then."""

from hotset.admission.in_flight import InFlight
from hotset.admission.job_life import Cancel
from hotset.admission.outcomes import Outcome
from hotset.core.errors import JobsUnavailableError
from hotset.core.ids import JobId, RequestId, TenantId
from hotset.planner.exchanges import Asked, Observer
from hotset.planner.job_rules import JobRules
from hotset.planner.job_table import JobRow
from hotset.planner.virtual_database import Steps, VirtualDatabase
from hotset.sim.clocks import Timers
from hotset.sim.network import Address

KEEP_S = 1e6


class JobDoor:
    """Of one life of a gateway."""

    def __init__(
        self,
        database: VirtualDatabase,
        timers: Timers,
        address: Address,
        *,
        in_flight: InFlight,
        observer: Observer,
        rules: JobRules,
    ) -> None:
        self._database, self._timers, self._address = database, timers, address
        self._in_flight, self._observer, self._rules = in_flight, observer, rules
        #: Requests whose row is on its way, and whose they are.
        self._open: dict[RequestId, TenantId] = {}

    def accept(self, asked: Asked, tenant: TenantId, *, epoch: int) -> None:
        """Let a request that has a route become a job."""
        self._open[asked.request] = tenant
        self._database.run(self._address, self._timers, self._accept(asked, tenant, epoch))

    def cancel(self, job: JobId) -> None:
        """A client wants a job no more."""
        self._database.run(self._address, self._timers, self._cancel(job))

    def leave(self, request: RequestId) -> None:
        """A client went away; its job may come to be all the same."""
        self._end(request, Outcome.CANCELLED, "")

    def break_off(self) -> None:
        """The gateway is gone: nobody hears whether there is a job."""
        for request in list(self._open):
            self._end(request, Outcome.FAILED, "connection_broken")

    def _accept(self, asked: Asked, tenant: TenantId, epoch: int) -> Steps:
        assert asked.job_within_s is not None, "a job has a time within which it is to end"
        within_s = asked.job_within_s
        try:
            row = yield lambda jobs: jobs.add(tenant, asked, epoch=epoch, within_s=within_s)
        except JobsUnavailableError as error:
            self._end(asked.request, Outcome.FAILED, error.code)
            return
        assert isinstance(row, JobRow)
        if asked.request in self._open:
            self._rules.told(row.job)
            self._end(asked.request, Outcome.ACCEPTED, row.job)

    def _cancel(self, job: JobId) -> Steps:
        yield lambda jobs: jobs.enter(job, Cancel(KEEP_S), "its client")

    def _end(self, request: RequestId, outcome: Outcome, code: str) -> None:
        tenant = self._open.pop(request, None)
        if tenant is not None:
            self._in_flight.leave(tenant)
            self._observer.ended(request, outcome, code)
