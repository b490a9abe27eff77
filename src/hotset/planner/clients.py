"""Simulated clients: steady and bursty tenants, one that rotates through its adapters, names that are not theirs."""

import random
from dataclasses import replace
from functools import partial

from hotset.admission.outcomes import Outcome
from hotset.core.errors import AdapterColdError, SlotsFullError
from hotset.core.ids import JobId, RequestId, TenantId
from hotset.planner.client_rules import CONNECTION_REFUSED, ClientRules, Ending
from hotset.planner.exchanges import Asked
from hotset.planner.installation import BASE_ALIAS, Installation, Tenant
from hotset.planner.virtual_gateway import VirtualGateway
from hotset.sim.world import World

_OUTPUT_TOKENS = (1, 1, 2, 3, 4, 6, 10)
_INPUT_TOKENS = (4, 8, 8, 16, 40)
_BUDGETS_MS = (None, None, None, 20, 300, 2000)
_FOREIGN_SHARE = 0.03
_OLD_KEY_SHARE = 0.03
_LEAVES_SHARE = 0.12
_LEAVES_AFTER_S = 0.3
_BURST = 6
_JOB_SHARE = 0.08
_JOB_TOKENS = (2, 10, 40, 80)
_JOB_WITHIN_S = (1.0, 20.0)
_CANCELS_SHARE = 0.15
_CANCELS_AFTER_S = 1.0
_COMES_BACK_SHARE = 0.3
#: About when the first engines serve.
_BEGIN_S = 0.6
_AGAIN_S = 0.1
_DOWN_S = 2.0


class Clients:
    """All tenants' clients; each request goes to any gateway."""

    def __init__(
        self, world: World, installation: Installation, gateways: list[VirtualGateway], rules: ClientRules
    ) -> None:
        self._world, self._installation, self._gateways, self._rules = world, installation, gateways, rules
        self._num_asked = 0
        #: Keys that tenants have held, the revoked ones among them.
        self._old_keys: dict[TenantId, list[str]] = {}
        self._rng_of: dict[TenantId, random.Random] = {}
        #: What a rotating tenant asks for next, by tenant.
        self._turns: dict[TenantId, int] = {}
        self.is_quiet = False
        rules.on_end.append(self._ended)
        for tenant in installation.tenants.values():
            self._rng_of[tenant.name] = world.randomness(f"clients of {tenant.name}")
        world.after(_BEGIN_S, "clients begin", self._begin)

    # --- when they ask ---------------------------------------------------------------------------------

    def _begin(self) -> None:
        for tenant in self._installation.tenants.values():
            if tenant.kind == "rotating":
                for _ in range(int(tenant.rate)):
                    self._rotate_later(tenant)
            else:
                self._arrive_later(tenant)

    def _arrive_later(self, tenant: Tenant) -> None:
        burst = _BURST if tenant.kind == "bursty" else 1
        gap_s = self._rng_of[tenant.name].expovariate(tenant.rate / burst)
        self._world.after(gap_s, f"clients of {tenant.name} ask", partial(self._arrive, tenant, burst))

    def _arrive(self, tenant: Tenant, burst: int) -> None:
        if self.is_quiet:
            return
        models = list(tenant.grants)
        rng = self._rng_of[tenant.name]
        # The first ones are asked for more often.
        model = models[min(int(rng.expovariate(0.7)), len(models) - 1)] if len(models) > 1 else BASE_ALIAS
        if tenant.kind != "base" and model == BASE_ALIAS and rng.random() < 0.8:
            model = models[-1]
        for _ in range(burst):
            self._ask(tenant, model)
        self._arrive_later(tenant)

    def _rotate_later(self, tenant: Tenant, within_s: float = _AGAIN_S) -> None:
        delay_s = within_s * self._rng_of[tenant.name].random()
        self._world.after(delay_s, f"{tenant.name} rotates", partial(self._rotate, tenant))

    def _rotate(self, tenant: Tenant) -> None:
        if self.is_quiet:
            return
        models = [alias for alias in tenant.grants if alias != BASE_ALIAS] or [BASE_ALIAS]
        turn = self._turns[tenant.name] = self._turns.get(tenant.name, 0) + 1
        self._ask(tenant, models[turn % len(models)])

    def _ended(self, ending: Ending) -> None:
        if ending.asked.is_try:
            return
        if ending.outcome is Outcome.ACCEPTED:
            self._accepted(ending.tenant, JobId(ending.code))
        tenant = self._installation.tenants[ending.tenant]
        if tenant.kind == "rotating":
            self._rotate_later(tenant, _DOWN_S if ending.code == CONNECTION_REFUSED else _AGAIN_S)
            return
        is_cold = ending.outcome is Outcome.REFUSED and ending.code in (SlotsFullError.code, AdapterColdError.code)
        if is_cold and not self.is_quiet and self._rng_of[tenant.name].random() < _COMES_BACK_SHARE:
            again = partial(self._ask, tenant, ending.asked.model)
            self._world.after(1.0, f"a client of {tenant.name} comes back", again)

    def _accepted(self, tenant: TenantId, job: JobId) -> None:
        """Wait for a job, or think better of it."""
        rng = self._rng_of[tenant]
        if rng.random() < _CANCELS_SHARE:
            after_s = rng.expovariate(1 / _CANCELS_AFTER_S)
            cancel = partial(self._cancel, rng.choice(self._gateways), job)
            self._world.after(after_s, f"the client of {job} cancels it", cancel)

    def _cancel(self, gateway: VirtualGateway, job: JobId) -> None:
        if gateway.is_up:
            gateway.cancel_job(job)

    # --- what they ask ---------------------------------------------------------------------------------

    def _ask(self, tenant: Tenant, model: str) -> None:
        rng = self._rng_of[tenant.name]
        key_hash = tenant.key_hash
        known = self._old_keys.setdefault(tenant.name, [])
        if key_hash not in known:
            known.append(key_hash)
        if rng.random() < _OLD_KEY_SHARE:
            key_hash = rng.choice(known)
        if rng.random() < _FOREIGN_SHARE:
            model = self._strange_name(rng)
        elif rng.random() < 0.1:
            model = f"{model}@{rng.randint(1, 2)}"
        self._num_asked += 1
        asked = Asked(
            RequestId(f"r{self._num_asked}"),
            key_hash,
            model,
            input_tokens=rng.choice(_INPUT_TOKENS),
            output_tokens=rng.choice(_OUTPUT_TOKENS),
            budget_ms=rng.choice(_BUDGETS_MS),
            job_within_s=rng.uniform(*_JOB_WITHIN_S) if rng.random() < _JOB_SHARE else None,
        )
        if asked.job_within_s is not None:
            asked = replace(asked, output_tokens=rng.choice(_JOB_TOKENS), budget_ms=None)
        gateway = rng.choice(self._gateways)
        self._rules.asked(asked, tenant.name)
        if not gateway.is_up:
            self._rules.ended(asked.request, Outcome.FAILED, CONNECTION_REFUSED)
            return
        if rng.random() < _LEAVES_SHARE:
            after_s = rng.expovariate(1 / _LEAVES_AFTER_S)
            self._world.after(after_s, f"the client of {asked.request} leaves", partial(gateway.leave, asked.request))
        gateway.ask(asked)

    def _strange_name(self, rng: random.Random) -> str:
        """Return an alias of any tenant, or of none."""
        names = [alias for each in self._installation.tenants.values() for alias in each.grants]
        return rng.choice([*names, "nothing", "a0@99", "forged"])
