"""A simulated control and its operators: withdrawals, promotions, quotas, each a new epoch for every holder."""

import random
from collections.abc import Callable
from dataclasses import replace

from hotset.core.fleet import WorkerEntry
from hotset.core.ids import WorkerId, engine_name
from hotset.core.ports import Withdrawal
from hotset.core.quotas import Quota
from hotset.planner.installation import BASE_ALIAS, Installation, Tenant, key_of
from hotset.planner.protocol import Beat, Fenced, Holds, Published, Register, Rejected, Unlinked
from hotset.planner.virtual_homes import VirtualHomes
from hotset.planner.virtual_roster import VirtualRoster
from hotset.sim.network import Address, Network
from hotset.sim.world import World

_VERSIONS_MAX = 2
_RECONCILE_EVERY_S = 0.5
#: Of the holders; the others ask before long, so that epochs differ for a while.
_TOLD_AT_ONCE_SHARE = 0.5


class VirtualControl:
    """Publishes snapshots; what it wrote down survives its crashes."""

    def __init__(
        self,
        world: World,
        network: Network,
        address: Address,
        installation: Installation,
        *,
        roster: VirtualRoster,
        holders: tuple[Address, ...],
        act_every_s: float,
    ) -> None:
        self._world, self._network, self.address = world, network, address
        self._installation, self._holders, self._roster = installation, holders, roster
        self._homes = VirtualHomes()
        self._rng: random.Random = world.randomness("operators")
        self._act_every_s = act_every_s
        self._num_keys = 1
        self._epoch = 0
        self.is_up = False
        #: Whether something changed while it was away.
        self._has_news = False
        self.is_quiet = False
        self.start()
        self._publish()
        self._act_later()
        self._reconcile()

    def start(self) -> None:
        """Answer again."""
        self.is_up = True
        self._roster.restart()
        self._network.attach(self.address, self._receive)
        if self._has_news:
            self._publish()

    def crash(self) -> None:
        """Answer and act no more."""
        self.is_up = False
        self._network.detach(self.address)

    @property
    def epoch(self) -> int:
        """Of the newest snapshot."""
        return self._epoch

    def _receive(self, source: Address, message: object) -> None:
        match message:
            case Beat():
                if not self._roster.heard(source, message):
                    self._network.send(self.address, source, Unlinked(message.heartbeat.fence))
            case Register(_, life, count):
                fence = self._roster.register(source, message)
                answer = Rejected(life, count) if fence is None else Fenced(life, count, fence)
                self._network.send(self.address, source, answer)
            case Holds(_, asked_at_s):
                self._send(source, asked_at_s)
            case _:
                raise AssertionError(f"{self.address} does not know {message}")

    def _send(self, holder: Address, asked_at_s: float | None) -> None:
        truth = self._installation.truth
        published = Published(truth.published[self._epoch][1], tuple(truth.cuts), asked_at_s)
        self._network.send(self.address, holder, published)

    def _publish(self, cut: Withdrawal | None = None) -> None:
        self._epoch += 1
        self._has_news = False
        truth = self._installation.truth
        snapshot = self._installation.snapshot(self._epoch)
        snapshot = replace(snapshot, workers=self._workers(), homes=self._homes.homes)
        truth.published[self._epoch] = (self._world.now_s, snapshot)
        if cut is not None:
            truth.cuts.append((self._epoch, cut))
        for holder in self._holders:
            if self._rng.random() < _TOLD_AT_ONCE_SHARE:
                self._send(holder, None)

    def changed(self, cut: Withdrawal | None = None) -> None:
        """An operator changed something that every holder is to know."""
        self._has_news = True
        if self.is_up:
            self._publish(cut)

    def _workers(self) -> dict[WorkerId, WorkerEntry]:
        return self._roster.entries(self._installation.arrangement)

    def _reconcile(self) -> None:
        """Let workers and homes follow what was heard, and publish them where they changed."""
        if self.is_up:
            self._roster.mark_lost()
            truth, roster = self._installation.truth, self._roster
            if truth.snapshot.workers != self._workers():
                self._publish()
            if self._homes.plan(truth.snapshot, roster.heartbeats(), roster.able(), self._world.now_s):
                self._world.log.note(f"homes of {len(self._homes.homes)} versions")
                self._publish()
        self._world.after(_RECONCILE_EVERY_S, "control reconciles", self._reconcile)

    # --- what operators do -----------------------------------------------------------------------------

    def _act_later(self) -> None:
        self._world.after(self._rng.expovariate(1 / self._act_every_s), "an operator acts", self._act)

    def _act(self) -> None:
        acts: list[Callable[[], Withdrawal | None]] = [
            self._revoke_key,
            self._remove_grant,
            self._give_grant_back,
            self._give_grant_back,
            self._publish_version,
            self._withdraw_version,
            self._withdraw_version,
            self._change_quota,
        ]
        act, is_cut = self._rng.choice(acts), self._rng.random() < 0.4
        if self.is_up and not self.is_quiet:
            withdrawal = act()
            self._world.log.note(f"{act.__name__.strip('_')}{', cut' if is_cut and withdrawal else ''}: {withdrawal}")
            self._publish(withdrawal if is_cut else None)
        self._act_later()

    def _tenant(self) -> Tenant:
        return self._rng.choice(list(self._installation.tenants.values()))

    def _revoke_key(self) -> Withdrawal:
        """Revoke a tenant's key and give it another one."""
        tenant = self._tenant()
        revoked = self._installation.keys.pop(tenant.key_hash)
        self._num_keys += 1
        tenant.key_hash, entry = key_of(tenant.name, self._num_keys)
        self._installation.keys[tenant.key_hash] = entry
        return Withdrawal(key=revoked.key)

    def _remove_grant(self) -> Withdrawal | None:
        tenant = self._tenant()
        aliases = [alias for alias in tenant.grants if alias != BASE_ALIAS]
        if not aliases:
            return None
        alias = self._rng.choice(aliases)
        adapter = tenant.grants.pop(alias)
        tenant.taken[alias] = adapter
        return Withdrawal(tenant=tenant.name, adapter=adapter)

    def _give_grant_back(self) -> None:
        taken = [tenant for tenant in self._installation.tenants.values() if tenant.taken]
        if taken:
            tenant = self._rng.choice(taken)
            alias = self._rng.choice(list(tenant.taken))
            tenant.grants[alias] = tenant.taken.pop(alias)

    def _publish_version(self) -> None:
        """Publish and promote another version of an adapter; the one before the last is retired."""
        adapter = self._rng.choice(list(self._installation.versions))
        self._installation.publish(adapter, self._installation.versions[adapter][-1].manifest.rank_max)
        for each in self._installation.versions[adapter][:-_VERSIONS_MAX]:
            name = engine_name(each.route)
            assert name is not None, "a version's route names an adapter"
            self._installation.serving.pop(name, None)

    def _withdraw_version(self) -> Withdrawal | None:
        """Ban one version."""
        record = self._installation.withdraw(self._rng.choice(list(self._installation.serving)))
        return Withdrawal(digest=record.digest)

    def _change_quota(self) -> None:
        tenant = self._tenant()
        reserve = self._rng.choice((0, 0, 1, 1, 2))
        limit = self._rng.choice((None, None, max(1, reserve), reserve + 2))
        tenant.quota = Quota(reserve, limit, self._rng.choice((None, None, 5.0, 60.0)))
