"""Which versions' files stay in the local store: those of versions in slots always, others while they fit."""

from collections.abc import Iterable

from hotset.core.ids import EngineName
from hotset.residency.events import Discard
from hotset.residency.slots import State


def discard(state: State, names: Iterable[EngineName]) -> list[Discard]:
    """Give up the files of those versions that are in no slot and promised none."""
    kept = {slot.name for slot in state.slots} | {slot.successor for slot in state.slots}
    return [Discard(name) for name in names if name not in kept and state.warm.pop(name, None) is not None]


def trim(state: State, bytes_max: int) -> list[Discard]:
    """Discard the files used longest ago until the rest fit."""
    by_age = sorted(state.warm, key=lambda name: (state.warm[name].used_at_s, name))
    excess = sum(file.num_bytes for file in state.warm.values()) - bytes_max
    effects: list[Discard] = []
    for name in by_age:
        if excess <= 0:
            break
        num_bytes = state.warm[name].num_bytes
        if discarded := discard(state, [name]):
            excess -= num_bytes
            effects += discarded
    return effects
