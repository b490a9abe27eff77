"""Which versions' files are in the local store, in the order in which they came, and what they add up to."""

from collections.abc import Container, ItemsView, Iterator

from hotset.core.ids import EngineName


class WarmFiles:
    """Bytes by version. Those of versions in slots stay, others while they fit."""

    def __init__(self, bytes_max: int) -> None:
        """Start empty; `bytes_max` bounds all files together but those that are kept."""
        self._bytes_max = bytes_max
        #: The one that came longest ago first.
        self._num_bytes: dict[EngineName, int] = {}
        #: The sum of these.
        self._total = 0

    def __contains__(self, name: EngineName) -> bool:
        return name in self._num_bytes

    def __iter__(self) -> Iterator[EngineName]:
        return iter(self._num_bytes)

    def __len__(self) -> int:
        return len(self._num_bytes)

    @property
    def total(self) -> int:
        """Bytes of all files together."""
        return self._total

    @property
    def is_over(self) -> bool:
        """Whether they are more than their bound."""
        return self._total > self._bytes_max

    def items(self) -> ItemsView[EngineName, int]:
        """Return each version with its bytes."""
        return self._num_bytes.items()

    def add(self, name: EngineName, num_bytes: int) -> None:
        """Take a version's files in, as the newest."""
        self.remove(name)
        self._num_bytes[name] = num_bytes
        self._total += num_bytes

    def remove(self, name: EngineName) -> bool:
        """Forget a version's files; whether there were any."""
        num_bytes = self._num_bytes.pop(name, None)
        self._total -= num_bytes or 0
        return num_bytes is not None

    def excess(self, kept: Container[EngineName]) -> list[EngineName]:
        """Return what has to go so that the rest fits, the oldest first; nothing of what is kept."""
        excess, names = self._total - self._bytes_max, list[EngineName]()
        for name, num_bytes in self._num_bytes.items():
            if excess <= 0:
                break
            if name not in kept:
                names.append(name)
                excess -= num_bytes
        return names

    def check(self) -> None:
        """Assert that the total is the sum."""
        assert self._total == sum(self._num_bytes.values()), f"warm bytes: {self._total}"
