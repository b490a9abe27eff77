"""Which adapters are in the fake engine's slots and in its host memory: those used last, as in real engines.

An adapter that is in neither is read from its folder again, whatever became of the folder meanwhile.
Source: vLLM 0.33.0, `lora/worker_manager.py` (two LRU caches, no disk tier of its own).
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, NewType

from hotset.core.errors import LoadFailedError
from hotset.engines.fake.profiles import EngineTier

AdapterKey = NewType("AdapterKey", int)
#: The bare base where it takes a slot: always in host memory.
BASE = AdapterKey(0)


@dataclass(frozen=True, slots=True)
class Weights:
    """What was read of an adapter."""

    #: Stands for its bytes; see `answers.mark_of`.
    mark: str
    num_bytes: int
    rank: int = 0
    has_nan: bool = False


#: Where an adapter was, and its bytes.
Brought = tuple[Literal["slot"] | EngineTier, int]
Read = Callable[[str], Weights]
_NO_WEIGHTS = Weights("", 0)


class AdapterTiers:
    """Slots and host copies; the same adapter keeps its key for as long as the engine knows it."""

    def __init__(self, *, num_slots: int, num_host: int, read: Read) -> None:
        """Start empty.

        Args:
            num_slots: Distinct adapters in one step, at least 1.
            num_host: Host copies kept, those of adapters in slots among them; at least `num_slots`.
            read: Reads an adapter's folder; raises what is to end the engine where it can't.
        """
        assert 1 <= num_slots <= num_host, f"{num_slots} slots, {num_host} host copies"
        self._num_slots = num_slots
        self._num_host = num_host
        self._read = read
        self._next = BASE + 1
        self._folders: dict[AdapterKey, str] = {}
        #: Both in order of use, the least recent first. What is in a slot has a host copy; the base needs none.
        self._slots: dict[AdapterKey, None] = {}
        self._host: dict[AdapterKey, Weights] = {}
        self._pinned: set[AdapterKey] = set()

    def add(self, folder: str, weights: Weights, in_use: Collection[AdapterKey]) -> AdapterKey:
        """Take an adapter that was just read into host memory; return its key."""
        key = AdapterKey(self._next)
        self._next += 1
        self._folders[key] = folder
        self._keep(key, weights, in_use)
        return key

    def replace(self, key: AdapterKey, folder: str, weights: Weights) -> None:
        """Put other weights under a key that is in use, as loading in place does."""
        self._folders[key] = folder
        self._host[key] = weights

    def read_again(self, key: AdapterKey) -> int:
        """Read an adapter's folder once more, whatever is in it now; return the bytes."""
        weights = self._read(self._folders[key])
        self._host[key] = weights
        return weights.num_bytes

    def remove(self, key: AdapterKey) -> None:
        """Forget an adapter, in slot and host memory."""
        self._slots.pop(key, None)
        self._host.pop(key, None)
        self._folders.pop(key, None)
        self._pinned.discard(key)

    def pin(self, key: AdapterKey) -> None:
        """Let nothing take an adapter's slot."""
        self._pinned.add(key)

    def bring(self, key: AdapterKey, in_use: Collection[AdapterKey]) -> Brought | None:
        """Put an adapter into a slot and make it the most recent one.

        Args:
            key: The adapter.
            in_use: Adapters that run and can't leave their slots.

        Returns:
            Where it was and its bytes, or None where every slot is in use.

        Raises:
            LoadFailedError: every slot is pinned. Source: vLLM 0.32.0, where it ends the engine.
        """
        if key in self._slots:
            self._touch(key)
            return "slot", 0
        if len(self._slots) >= self._num_slots:
            if self._pinned.issuperset(self._slots):
                raise LoadFailedError("All items are pinned, cannot remove oldest from the cache.")
            victim = next((each for each in self._slots if each not in in_use and each not in self._pinned), None)
            if victim is None:
                return None
            del self._slots[victim]
        weights = _NO_WEIGHTS if key == BASE else self._host.get(key)
        tier: EngineTier = "host"
        if weights is None:
            weights, tier = self._read(self._folders[key]), "disk"
            self._keep(key, weights, in_use)
        self._slots[key] = None
        self._touch(key)
        return tier, weights.num_bytes

    def mark(self, key: AdapterKey | None) -> str:
        """Return what stands for the bytes that are served under a key; the base's is empty."""
        return self._host[key].mark if key else ""

    def weights(self, key: AdapterKey) -> Weights | None:
        """Return an adapter's host copy, if it has one."""
        return self._host.get(key)

    def folder(self, key: AdapterKey) -> str:
        """Return where an adapter is read from."""
        return self._folders[key]

    def in_slots(self) -> list[AdapterKey]:
        """Return the adapters in slots, the least recent first."""
        return list(self._slots)

    def in_host(self) -> list[AdapterKey]:
        """Return the adapters with a host copy, the least recent first."""
        return list(self._host)

    def _keep(self, key: AdapterKey, weights: Weights, in_use: Collection[AdapterKey]) -> None:
        self._host[key] = weights
        while len(self._host) > self._num_host:
            fixed = {key, *in_use, *self._pinned}
            victim = next((each for each in self._host if each not in fixed), None)
            if victim is None:
                return
            self._host.pop(victim)
            self._slots.pop(victim, None)

    def _touch(self, key: AdapterKey) -> None:
        self._slots[key] = self._slots.pop(key)
        if key in self._host:
            self._host[key] = self._host.pop(key)
