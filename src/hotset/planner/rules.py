"""The rules that always hold, asserted from outside: against what is true, not against what a node believes.

Each is named as in the design: I1 exact route, I2 no other tenant's adapter, I3 no unload under a request, I4 no more
adapters than slots, I5 reserves, I6 checked bytes alone, I7 no load of what was withdrawn, I8 one ending, I11
withdrawals, I12 files stay.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.dispatch.dispatcher import Arrived, Dispatcher, Told
from hotset.planner.truth import Truth
from hotset.residency.events import (
    Discard,
    Dispatch,
    Effect,
    EngineGone,
    Load,
    Loaded,
    Permitted,
    Quotas,
    Refuse,
    Released,
    TimePassed,
    Unload,
)

_EVICTIONS = ("own", "borrow", "reserve")


class BrokenRuleError(AssertionError):
    """A rule that always holds did not."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(f"{rule}: {message}")
        self.rule = rule


def demand(condition: object, rule: str, message: str) -> None:
    """Pass if a condition holds.

    Raises:
        BrokenRuleError: it does not.
    """
    if not condition:
        raise BrokenRuleError(rule, message)


@dataclass(frozen=True, slots=True)
class Held:
    """What tenants had to lose before an event."""

    #: Slots, without those on their way out for nobody.
    slots: Counter[TenantId]
    #: Files in the local store by version: whose, and their bytes.
    files: Mapping[EngineName, tuple[TenantId | None, int]]


class EngineRules:
    """Watches one engine and what its agent's policy says of it, for one life of the engine."""

    def __init__(self, subject: str, num_slots: int, truth: Truth) -> None:
        """Begin with an empty engine.

        Args:
            subject: The worker's address.
            num_slots: Usable slots of the engine.
            truth: What is true of versions.
        """
        self.num_slots = num_slots
        self._subject = subject
        self._truth = truth
        #: First waiters of each slot's present version, until one of them was served or left.
        self._unserved: dict[int, set[RequestId]] = {}
        #: What the policy was told last that may be served.
        self._permitted: frozenset[EngineName] = frozenset()

    # --- the engine ------------------------------------------------------------------------------------

    def engine_began(self, request: RequestId, names: set[EngineName | None]) -> None:
        """A request runs in the engine from now on, beside those of these versions."""
        count = len(names - {None})
        demand(count <= self.num_slots, "I4", f"{request} makes {count} adapters run in {self.num_slots} slots")

    def engine_loaded(self, name: EngineName, weights: bytes) -> None:
        """Bytes reached the engine."""
        demand(name in self._truth.approved, "I6", f"{name} reached {self._subject}, and nobody approved it")
        is_true = hashlib.sha256(weights).digest() == hashlib.sha256(self._truth.weights[name]).digest()
        demand(is_true, "I6", f"other bytes than those of {name} reached {self._subject}")

    def engine_unloads(self, name: EngineName, running: Sequence[RequestId]) -> None:
        """A version leaves the engine."""
        demand(not running, "I3", f"{name} is unloaded at {self._subject} while {list(running)} run")

    def files_deleted(self, name: EngineName, loaded: Iterable[EngineName]) -> None:
        """A version's files leave the local store."""
        demand(name not in loaded, "I12", f"files of {name} are deleted at {self._subject} while the engine holds it")

    # --- the policy ------------------------------------------------------------------------------------

    def before(self, dispatcher: Dispatcher) -> Held:
        """Return what must be known of the state before an event: what each tenant has to lose."""
        state = dispatcher.residency.state
        slots = (slot.account for slot in state.slots if slot.account is not None and slot.promised() is not None)
        return Held(Counter(slots), {name: (account, size) for name, account, size in state.warm.charges()})

    def after(
        self,
        event: Told,
        effects: Sequence[Effect],
        dispatcher: Dispatcher,
        held: Held,
        asking: TenantId | None,
    ) -> None:
        """Check everything that one event may have broken.

        Args:
            event: What the policy was told.
            effects: What it asked for.
            dispatcher: Its state now.
            held: What `before` returned.
            asking: Whose request it was, where it was one's.
        """
        dispatcher.check()
        if isinstance(event, Permitted):
            self._permitted = event.names
        self._reserves_stand(event, dispatcher, held.slots, asking)
        self._byte_reserves_stand(effects, dispatcher, held)
        self._first_waiters_are_served(event, effects, dispatcher)
        for effect in effects:
            if isinstance(effect, Dispatch):
                name = dispatcher.residency.state.leases[effect.request].name
                demand(
                    name is None or name in self._permitted, "I11", f"{effect.request} starts on {name}, withdrawn here"
                )
            elif isinstance(effect, Load):
                demand(
                    effect.name in self._permitted, "I7", f"{self._subject} is to load {effect.name}, withdrawn here"
                )

    def none_waits_for_withdrawn(self, waiting: Iterable[EngineName | None], permitted: frozenset[EngineName]) -> None:
        """Check, after a snapshot was applied, what the requests that were let in and do not run wait for."""
        late = [name for name in waiting if name is not None and name not in permitted]
        demand(not late, "I11", f"requests wait at {self._subject} for {late}, withdrawn here")

    def _reserves_stand(
        self, event: Told, dispatcher: Dispatcher, held: Counter[TenantId], asking: TenantId | None
    ) -> None:
        accounts, now = dispatcher.residency.accounts, self.before(dispatcher).slots
        demand(accounts.num_reserved <= self.num_slots, "I5", f"{accounts.num_reserved} slots are reserved")
        permitted = dispatcher.residency.state.permitted
        if not isinstance(event, Arrived | Released | Quotas | Loaded | TimePassed):
            return
        if isinstance(event, Loaded) and event.name not in permitted:
            return
        for tenant in accounts.reserving():
            if tenant == asking:
                continue
            least = min(held[tenant], accounts.share(tenant).reserve)
            demand(now[tenant] >= least, "I5", f"{tenant} holds {now[tenant]} of {least} at {self._subject}")

    def _byte_reserves_stand(self, effects: Sequence[Effect], dispatcher: Dispatcher, held: Held) -> None:
        """Check that whose files went for others' held more than its reserve until then."""
        residency, later = dispatcher.residency, Counter[TenantId]()
        reserved = residency.accounts.bytes_reserved
        demand(reserved <= residency.state.warm.bytes_max, "I5", f"{reserved} bytes are reserved")
        gone = [each for each in effects if isinstance(each, Discard) and each.cause is not None]
        # What came by this very event, and found no room, was nobody's to lose.
        for effect in reversed([each for each in gone if each.name in held.files]):
            owner, size = held.files[effect.name]
            assert owner is not None, f"files of {effect.name} are nobody's"
            later[owner] += size
            had, owed = residency.state.warm.held(owner) + later[owner], residency.accounts.share(owner).reserve_bytes
            demand(had > owed, "I5", f"{owner} held {had} of {owed} bytes at {self._subject} and lost {effect.name}")

    def _first_waiters_are_served(self, event: Told, effects: Sequence[Effect], dispatcher: Dispatcher) -> None:
        unserved, leases = self._unserved, dispatcher.residency.state.leases
        match event:
            case Loaded(slot, name):
                unserved[slot] = {r for r, lease in leases.items() if lease.slot == slot and lease.name == name}
            case Released(request):
                self._served(request)
            case EngineGone():
                unserved.clear()
            case _:
                pass
        for effect in effects:
            match effect:
                case Dispatch(request) | Refuse(request):
                    self._served(request)
                case Unload(slot, name, cause):
                    waiters = unserved.pop(slot, None)
                    demand(
                        not waiters or cause not in _EVICTIONS,
                        "I4",
                        f"{name} leaves slot {slot} before it served any of {sorted(waiters or ())}",
                    )
                case _:
                    pass

    def _served(self, request: RequestId) -> None:
        for slot, waiters in list(self._unserved.items()):
            if request in waiters:
                del self._unserved[slot]
