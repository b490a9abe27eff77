"""The rules as clients could see them broken: whose bytes an answer is made of, and how each request ends."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from hotset.admission.outcomes import Outcome
from hotset.core.errors import ModelNotFoundError, TooManyRequestsError, UnauthenticatedError
from hotset.core.ids import Alias, KeyId, RequestId, Route, TenantId, engine_name
from hotset.core.snapshot import KeyEntry, RoutingSnapshot
from hotset.planner.exchanges import CONTROL_UNREACHABLE, Asked
from hotset.planner.protocol import Stamp
from hotset.planner.rules import demand
from hotset.planner.truth import Truth
from hotset.routing.resolve import Resolved
from hotset.sim.world import World

#: What a request may hear before its model's name is looked at.
_BEFORE_THE_NAME = {UnauthenticatedError.code, TooManyRequestsError.code, CONTROL_UNREACHABLE}
CONNECTION_REFUSED = "connection_refused"


@dataclass(slots=True)
class _Watched:
    asked: Asked
    tenant: TenantId
    asked_at_s: float
    key: KeyId | None = None
    bound: Resolved | None = None
    epoch: int = 0
    num_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Ending:
    """How one request ended."""

    asked: Asked
    tenant: TenantId
    outcome: Outcome
    #: Of an error, or the job that it was accepted as.
    code: str
    #: Seconds from its arrival to its first token; None where none came.
    first_token_s: float | None


class ClientRules:
    """Implements `exchanges.Watcher` for all gateways together."""

    def __init__(self, world: World, truth: Truth, *, withdrawn_within_s: float) -> None:
        """Watch from the start.

        Args:
            world: Where true time comes from.
            truth: What is true of grants and versions.
            withdrawn_within_s: The longest true time until a withdrawal has reached every gateway that serves.
        """
        self._world = world
        self._truth = truth
        self._withdrawn_within_s = withdrawn_within_s
        self._open: dict[RequestId, _Watched] = {}
        self._first_token_s: dict[RequestId, float] = {}
        #: Endings by outcome and code.
        self.endings: Counter[tuple[str, str]] = Counter()
        #: Called with each request's end.
        self.on_end: list[Callable[[Ending], None]] = []

    def asked(self, asked: Asked, tenant: TenantId) -> None:
        """A client asks."""
        demand(asked.request not in self._open, "I8", f"{asked.request} is asked twice")
        self._open[asked.request] = _Watched(asked, tenant, self._world.now_s)

    def bound(self, request: RequestId, key: KeyEntry, bound: Resolved, epoch: int) -> None:
        """Check that the tenant's name stands for what it was taken for (I2)."""
        watched = self._open[request]
        demand(key.tenant == watched.tenant, "I2", f"{request} of {watched.tenant} passes for {key.tenant}'s")
        alias = Alias(watched.asked.model.partition("@")[0])
        snapshot = self._truth.published[epoch][1]
        entry = snapshot.aliases.get((watched.tenant, alias))
        is_granted = entry is not None and entry.adapter == bound.route.adapter
        demand(is_granted, "I2", f"{request} of {watched.tenant} gets {bound.route.adapter} for {alias}, not granted")
        watched.key, watched.bound, watched.epoch = key.key, bound, epoch

    def token(self, request: RequestId, stamp: Stamp, epoch: int) -> None:
        """Check that a token comes from the bound route's bytes (I1) and may still be given (I11)."""
        watched = self._open.get(request)
        demand(watched is not None and watched.bound is not None, "I8", f"{request} gets a token and does not run")
        assert watched is not None
        assert watched.bound is not None
        route = watched.bound.route
        name = engine_name(route)
        weights = b"" if name is None else self._truth.weights[name]
        is_exact = stamp.name == name and stamp.weights == weights
        demand(is_exact, "I1", f"{request} is bound to {name} and gets a token of {stamp.name} ({stamp.weights!r})")
        if not watched.num_tokens:
            self._first_token_s[request] = self._world.now_s - watched.asked_at_s
            self._may_begin(watched, route, epoch)
        watched.num_tokens += 1
        for cut_epoch, withdrawal in self._truth.cuts:
            assert watched.key is not None
            is_cut = watched.epoch < cut_epoch <= epoch and withdrawal.covers(watched.tenant, watched.key, route)
            demand(
                not is_cut, "I11", f"{request} gets a token from a gateway that applied epoch {epoch}, which cuts it"
            )

    def ended(self, request: RequestId, outcome: Outcome, code: str) -> None:
        """Check that it is the one end (I8), and that a name tells nothing (I2)."""
        watched = self._open.pop(request, None)
        demand(watched is not None, "I8", f"{request} ends a second time, {outcome} {code}")
        assert watched is not None
        if outcome is Outcome.COMPLETED:
            wanted = watched.asked.output_tokens
            demand(
                watched.num_tokens == wanted, "I8", f"{request} completes with {watched.num_tokens} of {wanted} tokens"
            )
        if watched.bound is None and outcome is Outcome.REFUSED:
            is_alike = code in _BEFORE_THE_NAME or code == ModelNotFoundError.code
            demand(is_alike, "I2", f"{request} for {watched.asked.model} hears {code}")
        what = f"try {outcome.value}" if watched.asked.is_try else outcome.value
        self.endings[what, "" if outcome is Outcome.ACCEPTED else code] += 1
        first_token_s = self._first_token_s.pop(request, None)
        ending = Ending(watched.asked, watched.tenant, outcome, code, first_token_s)
        for hear in self.on_end:
            hear(ending)

    def all_ended(self) -> None:
        """Check, once the fleet is quiet, that no request was forgotten."""
        demand(not self._open, "I8", f"{len(self._open)} requests never end: {list(self._open)[:5]}")

    @property
    def num_open(self) -> int:
        """Requests that have not ended."""
        return len(self._open)

    def _may_begin(self, watched: _Watched, route: Route, epoch: int) -> None:
        """Check that a first token is not given long after what it needs was withdrawn."""
        since: tuple[int, float] | None = None
        for later in range(max(self._truth.published), watched.epoch, -1):
            at_s, snapshot = self._truth.published[later]
            if _allows(snapshot, watched, route):
                break
            since = later, at_s
        if since is None:
            return
        what = f"{watched.asked.request} begins {self._world.now_s - since[1]:.3f} s after epoch {since[0]} withdrew it"
        demand(epoch < since[0], "I11", f"{what}, at a gateway that applied epoch {epoch}")
        demand(self._world.now_s - since[1] <= self._withdrawn_within_s, "I11", what)


def _allows(snapshot: RoutingSnapshot, watched: _Watched, route: Route) -> bool:
    """Whether a snapshot lets a bound request begin: key, tenant, grant and version are in it."""
    key = snapshot.keys.get(watched.asked.key_hash)
    if key is None or key.tenant != watched.tenant or watched.tenant not in snapshot.tenants:
        return False
    entry = snapshot.aliases.get((watched.tenant, Alias(watched.asked.model.partition("@")[0])))
    name = engine_name(route)
    return entry is not None and entry.adapter == route.adapter and (name is None or name in snapshot.versions)
